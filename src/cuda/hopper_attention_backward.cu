#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "cuda/hopper_attention_backward.h"
#include "cuda/hopper_backward_bias.h"
#include "cuda/hopper_backward_kernel.cuh"
#include "cuda/hopper_backward_passes.h"
#include "cuda/hopper_maps.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr std::int64_t kLengthLimit = std::int64_t{1} << 28;
constexpr std::int64_t kCountLimit = std::int64_t{1} << 31;

// ---- which calls are taken ----
// Whether bulk copies and vectors of 16 bytes reach a 16-bit tensor (batch, heads, rows, columns).
bool is_reachable(const Tensor& tensor) {
  if (reinterpret_cast<std::uintptr_t>(tensor.raw_data()) % 16 != 0) return false;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t stride = tensor.stride(i);
    if (tensor.size(i) > 1 && (stride <= 0 || stride % 8 != 0 || stride >= std::int64_t{1} << 38)) return false;
  }
  return tensor.stride(3) == 1;
}

// The planes of a bias's gradient that one head of one batch entry does not share are written as they come; shared ones
// are summed up. Queries and keys do not share any.
bool takes_bias(const AttentionProblem& problem, const AttentionGradients& gradients) {
  if (problem.bias.defined() && problem.bias.dtype() == DType::float64) return false;
  if (!gradients.bias.defined()) return true;
  return gradients.bias.dtype() == DType::float32 && gradients.bias.size(2) == problem.query_length &&
         gradients.bias.size(3) == problem.key_length && gradients.bias.size(0) * gradients.bias.size(1) < 65536;
}

bool takes_sizes(const AttentionProblem& problem) {
  const auto fits = [](std::int64_t dim) { return dim > 0 && dim <= 256 && dim % 8 == 0; };
  if (!fits(problem.head_dim) || !fits(problem.value_dim)) return false;
  if (problem.batch == 0 || problem.heads == 0 || problem.query_length == 0 || problem.key_length == 0) return false;
  if (problem.query_length >= kLengthLimit || problem.key_length >= kLengthLimit) return false;
  const std::int64_t padding = kBackwardRows * static_cast<std::int64_t>(problem.packed ? problem.sequences.size() : 1);
  if (problem.batch * problem.heads * (problem.query_length + padding) >= kCountLimit) return false;
  if (problem.batch * problem.kv_heads * (problem.key_length + padding) >= kCountLimit) return false;
  return std::all_of(problem.sequences.begin(), problem.sequences.end(),
                     [](const Sequence& s) { return std::abs(s.query_offset) < kLengthLimit; });
}

bool takes(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
           const AttentionGradients& gradients) {
  const DType dtype = problem.query.dtype();
  if (dtype != DType::bfloat16 && dtype != DType::float16) return false;
  if (device_properties().capability != 90 || !takes_bias(problem, gradients) || !takes_sizes(problem)) return false;
  if (!inputs.d_output.defined() || inputs.d_weights.defined()) return false;
  return is_reachable(problem.query) && is_reachable(problem.key) && is_reachable(problem.value) &&
         is_reachable(inputs.output) && is_reachable(inputs.d_output) && is_reachable(gradients.query) &&
         is_reachable(gradients.key) && is_reachable(gradients.value);
}

// ---- the kernels' arguments ----
// Copies of `rows` rows and 64 columns of a tensor (batch, heads, length, columns).
CUtensorMap make_map(const Tensor& tensor, int rows) {
  const auto size = [&](int i) { return static_cast<cuuint64_t>(tensor.size(i)); };
  const cuuint64_t sizes[4] = {size(3), size(2), size(1), size(0)};
  const cuuint64_t strides[3] = {tensor_map_stride(tensor, 2), tensor_map_stride(tensor, 1),
                                 tensor_map_stride(tensor, 0)};
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(rows), 1, 1}, ones[4] = {1, 1, 1, 1};
  const auto type =
      tensor.dtype() == DType::float16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  CUtensorMap map;
  const CUresult result =
      tensor_map_encoder()(&map, type, 4, const_cast<void*>(static_cast<const void*>(tensor.raw_data())), sizes,
                           strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check(result == CUDA_SUCCESS, "cuda: cuTensorMapEncodeTiled: error ", static_cast<int>(result));
  return map;
}

RowTensor make_rows(const Tensor& tensor) {
  RowTensor rows;
  rows.data = const_cast<void*>(static_cast<const void*>(tensor.raw_data()));
  for (int i = 0; i < 3; ++i) rows.stride[i] = tensor.stride(i);
  rows.columns = static_cast<int>(tensor.size(3));
  return rows;
}

BackwardMask make_mask(const AttentionProblem& problem) {
  BackwardMask mask = {};
  if (!problem.mask.defined()) return mask;
  mask.data = reinterpret_cast<const unsigned char*>(problem.mask.raw_data());
  for (int i = 0; i < 4; ++i) mask.stride[i] = problem.mask.stride(i);
  mask.true_keeps = problem.mask_true_keeps;
  return mask;
}

// A bias (batch, heads, query_length, key_length) without what is broadcast: one batch entry or head for all, and of
// rows that are all the same one tile.
Tensor distinct_bias(const Tensor& bias) {
  const auto count = [&](int i, std::int64_t once) { return bias.stride(i) == 0 ? once : bias.size(i); };
  const std::int64_t rows = std::min<std::int64_t>(bias.size(2), kBackwardRows);
  return bias.slice(0, 0, count(0, 1)).slice(1, 0, count(1, 1)).slice(2, 0, count(2, rows));
}

// The same bias where bulk copies reach it: its rows are a multiple of 16 bytes apart.
Tensor reachable_bias(const Tensor& bias) {
  const Tensor once = distinct_bias(bias);
  if (is_reachable(once)) return once;
  const std::int64_t keys = bias.size(3), row = (keys + 7) / 8 * 8;
  Tensor copy = Tensor::empty({once.size(0), once.size(1), once.size(2), row}, bias.dtype(), bias.device());
  copy = copy.slice(3, 0, keys);
  copy.copy_from(once);
  return copy;
}

BackwardBias make_bias(const AttentionProblem& problem) {
  BackwardBias bias = {};
  if (!problem.bias.defined()) return bias;
  bias.data = problem.bias.raw_data();
  for (int i = 0; i < 4; ++i) bias.stride[i] = problem.bias.stride(i);
  bias.dtype = problem.bias.dtype();
  return bias;
}

int reach_of(const std::optional<std::int64_t>& reach) {
  return static_cast<int>(std::min<std::int64_t>(reach.value_or(kBackwardFar), kBackwardFar));
}

// ---- how the kernels are chosen ----
// The columns of the kernel: head_dim and value_dim rounded up.
int kernel_dim(const AttentionProblem& problem) {
  const std::int64_t columns = std::max(problem.head_dim, problem.value_dim);
  return columns <= 64 ? 64 : columns <= 128 ? 128 : 256;
}

// Whether pairs of neighbouring keys of a mask or bias are aligned loads.
bool has_pairs(const Tensor& plane, const AttentionProblem& problem) {
  const auto is_even = [](std::int64_t value) { return value % 2 == 0; };
  return plane.stride(3) == 1 && is_even(problem.key_length) && is_even(plane.stride(0)) && is_even(plane.stride(1)) &&
         is_even(plane.stride(2)) &&
         reinterpret_cast<std::uintptr_t>(plane.raw_data()) % (2 * item_size(plane.dtype())) == 0 &&
         std::all_of(problem.sequences.begin(), problem.sequences.end(),
                     [&](const Sequence& s) { return is_even(s.key_begin); });
}

// Whether something is added to the scores that may be large.
bool adds_to_scores(const AttentionProblem& problem) {
  constexpr double kLargeSink = 512;
  return problem.bias.defined() || !problem.alibi_slopes.empty() ||
         std::any_of(problem.sinks.begin(), problem.sinks.end(),
                     [](double sink) { return std::abs(sink) >= kLargeSink; });
}

BackwardRules choose_rules(const AttentionProblem& problem) {
  const bool bias = problem.bias.defined(), mask = problem.mask.defined(), drops = problem.dropout.threshold != 0;
  const bool other = problem.softcap != 0 || (adds_to_scores(problem) && !bias) || !problem.alibi_slopes.empty();
  if (other || bias + mask + drops > 1) return BackwardRules::all;
  if (drops) return BackwardRules::dropout;
  if (bias) {
    // Bulk copies begin at multiples of 8 keys, where the sequences of a packed batch need not begin.
    const bool is_quick = problem.bias.dtype() == problem.query.dtype() && !problem.packed &&
                          (kernel_dim(problem) <= 128 || has_pairs(problem.bias, problem));
    return is_quick ? BackwardRules::bias : BackwardRules::all;
  }
  if (mask) return has_pairs(problem.mask, problem) ? BackwardRules::mask : BackwardRules::all;
  const bool limited = problem.left.has_value() || problem.right.has_value() || problem.packed;
  return limited ? BackwardRules::limited : BackwardRules::plain;
}

// Key heads that are worked on together: few, so that their queries and the gradients of these, 8 bytes an element,
// stay in the part of the L2 cache that is theirs; but where blocks of a head take turns they keep step, and fewer of
// them wait less: above all where not every query sees all keys.
int section_of(const AttentionProblem& problem, int dim, bool ordered) {
  constexpr std::int64_t kCacheBytes = std::int64_t{40} << 20;
  constexpr std::int64_t kHeads = 4, kHeadsInTurn = 16, kLimitedHeadsInTurn = 32;
  const std::int64_t head_bytes = problem.query_length * dim * 8 * problem.group();
  const std::int64_t fitting = kCacheBytes / head_bytes;
  if (!ordered) return static_cast<int>(std::clamp<std::int64_t>(fitting, 1, kHeads));
  if (dim <= 128) return kHeadsInTurn;
  const bool limited = problem.left.has_value() || problem.right.has_value();
  return static_cast<int>(limited ? std::clamp(fitting, kHeadsInTurn, kLimitedHeadsInTurn)
                                  : std::clamp(fitting, kHeads, kHeadsInTurn));
}

// ---- sequences ----
std::vector<BackwardSequence> make_sequences(const AttentionProblem& problem) {
  std::vector<BackwardSequence> sequences;
  int tiles = 0;
  for (const Sequence& s : problem.sequences) {
    const auto query_length = static_cast<int>(s.query_length);
    sequences.push_back({.query_begin = static_cast<int>(s.query_begin),
                         .query_length = query_length,
                         .key_begin = static_cast<int>(s.key_begin),
                         .key_length = static_cast<int>(s.key_length),
                         .key_count = static_cast<int>(s.key_count),
                         .query_offset = static_cast<int>(s.query_offset),
                         .first_tile = problem.packed ? tiles : 0});
    tiles += (query_length + kBackwardRows - 1) / kBackwardRows;
  }
  return sequences;
}

// Whose each tile of queries is.
std::vector<int> make_tile_sequences(const std::vector<BackwardSequence>& sequences) {
  std::vector<int> result;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const int tiles = (sequences[s].query_length + kBackwardRows - 1) / kBackwardRows;
    result.insert(result.end(), static_cast<std::size_t>(tiles), static_cast<int>(s));
  }
  return result;
}

// The blocks of keys of packed sequences, (sequence, block): those with the most queries first, but those of one
// sequence in their order.
std::vector<int2> order_packed_blocks(const std::vector<BackwardSequence>& sequences, int keys, int left, int right) {
  struct Entry {
    int2 block;
    int rows;
  };
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const BackwardSequence& s = sequences[i];
    int rows = s.query_length;
    for (int block = 0; block * keys < s.key_length; ++block) {
      const int first = std::max(0, block * keys - s.query_offset - right);
      const int end = std::min(s.query_length, (block + 1) * keys + left - s.query_offset);
      rows = std::min(rows, std::max(0, end - first));
      entries.push_back({make_int2(static_cast<int>(i), block), rows});
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.rows > b.rows; });
  std::vector<int2> blocks;
  for (const Entry& entry : entries) blocks.push_back(entry.block);
  return blocks;
}

// All but sequences and pointers to temporary memory.
BackwardParameters make_parameters(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                                   const AttentionGradients& gradients, int dim) {
  constexpr int kStoredKeys = 64;  // of one store of their gradients
  BackwardParameters p = {};
  p.query = make_map(problem.query, kBackwardRows);
  p.d_output = make_map(inputs.d_output, kBackwardRows);
  p.key = make_map(problem.key, backward_keys(dim));
  p.value = make_map(problem.value, backward_keys(dim));
  p.d_key = make_map(gradients.key, kStoredKeys);
  p.d_value = make_map(gradients.value, kStoredKeys);
  p.d_key_rows = make_rows(gradients.key);
  p.d_value_rows = make_rows(gradients.value);
  p.batch = static_cast<int>(problem.batch);
  p.heads = static_cast<int>(problem.heads);
  p.kv_heads = static_cast<int>(problem.kv_heads);
  p.query_length = static_cast<int>(problem.query_length);
  p.key_length = static_cast<int>(problem.key_length);
  p.head_count = p.batch * p.kv_heads;
  p.left = reach_of(problem.left);
  p.right = reach_of(problem.right);
  p.scale = static_cast<float>(problem.scale);
  p.scale_log2 = static_cast<float>(problem.scale * 1.4426950408889634);
  p.softcap = static_cast<float>(problem.softcap);
  p.mask = make_mask(problem);
  p.bias = make_bias(problem);
  p.dropout = {problem.dropout.threshold, static_cast<float>(problem.dropout.scale), problem.dropout.seed};
  return p;
}

BackwardPasses make_passes(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                           const AttentionGradients& gradients, int dim) {
  BackwardPasses passes;
  passes.dtype = problem.query.dtype();
  passes.dim = dim;
  passes.query = make_rows(problem.query);
  passes.key = make_rows(problem.key);
  passes.value = make_rows(problem.value);
  passes.output = make_rows(inputs.output);
  passes.d_output = make_rows(inputs.d_output);
  passes.d_query = make_rows(gradients.query);
  passes.d_key = make_rows(gradients.key);
  passes.d_value = make_rows(gradients.value);
  const auto floats = [](const Tensor& tensor) {
    return tensor.defined() ? reinterpret_cast<const float*>(tensor.raw_data()) : nullptr;
  };
  passes.logsumexp = floats(inputs.logsumexp);
  passes.d_logsumexp = floats(inputs.d_logsumexp);
  return passes;
}

// The temporary memory of one call: dQ in float32, twice the size of Q with its columns rounded up to 64, 128 or 256; 8
// or 12 bytes a row; a turn for each tile of rows; under BackwardRules::all, for the gradient of a bias that heads or
// batch entries share, planes of kPlaneBytes, or of one key head where they are larger.
struct BackwardMemory {
  DeviceBuffer sequences;       // (sequences), where they differ
  DeviceBuffer tile_sequences;  // (row_tiles), of a packed batch
  DeviceBuffer packed_blocks;   // (key_blocks), of a packed batch
  DeviceBuffer slopes;          // (sequences, heads), where there are any
  DeviceBuffer sinks;           // (heads), where there are any
  DeviceBuffer sums;            // (batch, heads, row_tiles, 2, dim / 16, 128, 4)
  DeviceBuffer statistics;      // reference, delta and, with something added, rest: (batch, heads, padded_rows) each
  DeviceBuffer control;         // suspicion, turns: (batch, heads, row_tiles), tickets: (launches)
  DeviceBuffer planes;          // (query heads of a launch, query_length, key_length)
};
constexpr std::int64_t kPlaneBytes = std::int64_t{512} << 20;

DeviceBuffer upload_floats(const std::vector<double>& values) {
  const std::vector<float> floats(values.begin(), values.end());
  return upload(std::span<const float>(floats));
}

// Describes the sequences to the kernels, and uploads what differs between them or between heads.
void upload_sequences(const AttentionProblem& problem, const std::vector<BackwardSequence>& sequences, int keys,
                      BackwardParameters& p, BackwardPasses& passes, BackwardMemory& memory) {
  p.sequence = sequences[0];
  p.sequence_count = static_cast<int>(sequences.size());
  p.row_tiles = (p.query_length + kBackwardRows - 1) / kBackwardRows;
  p.key_blocks = (p.key_length + keys - 1) / keys;
  const bool differ = std::any_of(sequences.begin(), sequences.end(), [&](const BackwardSequence& s) {
    return s.key_count != sequences[0].key_count || s.query_offset != sequences[0].query_offset;
  });
  if (differ || problem.packed) {
    memory.sequences = upload(std::span<const BackwardSequence>(sequences));
    p.sequences = memory.sequences.as<BackwardSequence>();
  }
  if (problem.packed) {
    const std::vector<int> tiles = make_tile_sequences(sequences);
    const std::vector<int2> blocks = order_packed_blocks(sequences, keys, p.left, p.right);
    memory.tile_sequences = upload(std::span<const int>(tiles));
    memory.packed_blocks = upload(std::span<const int2>(blocks));
    p.tile_sequences = memory.tile_sequences.as<int>();
    p.packed_blocks = memory.packed_blocks.as<int2>();
    p.row_tiles = static_cast<int>(tiles.size());
    p.key_blocks = static_cast<int>(blocks.size());
  }
  p.padded_rows = p.row_tiles * kBackwardRows;
  if (!problem.alibi_slopes.empty()) {
    memory.slopes = upload_floats(problem.alibi_slopes);
    p.slopes = memory.slopes.as<float>();
  }
  if (!problem.sinks.empty()) {
    memory.sinks = upload_floats(problem.sinks);
    passes.sinks = memory.sinks.as<float>();
  }
}

// `launches` of the kernel; `adds`: something is added to the scores.
void allocate_sums(int launches, bool adds, BackwardParameters& p, BackwardPasses& passes, BackwardMemory& memory) {
  const std::size_t rows = static_cast<std::size_t>(p.batch) * p.heads * p.padded_rows, tiles = rows / kBackwardRows;
  const std::size_t control_bytes = (1 + tiles + static_cast<std::size_t>(launches)) * sizeof(int);
  memory.sums = DeviceBuffer(rows * passes.dim * sizeof(float));
  memory.statistics = DeviceBuffer((adds ? 3 : 2) * rows * sizeof(float));
  memory.control = DeviceBuffer(control_bytes);
  p.d_query_sums = memory.sums.as<float>();
  p.reference = passes.reference = memory.statistics.as<float>();
  p.delta = passes.delta = passes.reference + rows;
  p.rest = passes.rest = adds ? passes.delta + rows : nullptr;
  passes.suspicious = memory.control.as<int>();
  p.turns = passes.suspicious + 1;
  p.ticket = reinterpret_cast<unsigned*>(p.turns + tiles);
  check_cuda(cudaMemsetAsync(passes.suspicious, 0, control_bytes, current_stream()), "cudaMemsetAsync");
}

// ---- launches ----
void launch(const BackwardParameters& p, DType dtype, int dim, BackwardVariant variant) {
  const auto launch_dim = [&]<int kDim>() {
    if (dtype == DType::float16) return launch_backward<__half, kDim>(p, variant);
    launch_backward<__nv_bfloat16, kDim>(p, variant);
  };
  if (dim == 64) return launch_dim.operator()<64>();
  if (dim == 128) return launch_dim.operator()<128>();
  launch_dim.operator()<256>();
}

// The key heads of one launch: all of them, but as many as their planes of the bias's gradient allow where these are
// summed up.
int heads_of_launch(const AttentionProblem& problem, const Tensor& d_bias) {
  const std::int64_t heads = problem.batch * problem.kv_heads;
  const bool shared = d_bias.defined() && d_bias.size(0) * d_bias.size(1) < problem.batch * problem.heads;
  if (!shared) return static_cast<int>(heads);
  const std::int64_t head_bytes = problem.group() * problem.query_length * problem.key_length * 4;
  return static_cast<int>(std::clamp<std::int64_t>(kPlaneBytes / head_bytes, 1, heads));
}

BiasGradient make_bias_gradient(const AttentionProblem& problem, const Tensor& d_bias) {
  constexpr int kCopiedRows = 64;
  BiasGradient gradient;
  gradient.key = make_map(problem.key, kCopiedRows);
  gradient.value = make_map(problem.value, kCopiedRows);
  gradient.data = reinterpret_cast<float*>(d_bias.raw_data());
  gradient.batch = static_cast<int>(d_bias.size(0));
  gradient.heads = static_cast<int>(d_bias.size(1));
  return gradient;
}

// All key heads, `per_launch` at a time. partial: some tiles of scores are skipped
void launch_heads(const Tensor& d_bias, int per_launch, bool partial, BackwardVariant variant, BackwardParameters p,
                  const BackwardPasses& passes, BackwardMemory& memory) {
  const int heads = p.head_count, group = p.heads / p.kv_heads, section = p.section;
  const std::size_t plane_bytes = static_cast<std::size_t>(p.query_length) * p.key_length * sizeof(float);
  BiasSums sums;
  bool shared = false;
  if (d_bias.defined()) {
    sums = {reinterpret_cast<float*>(d_bias.raw_data()), static_cast<int>(d_bias.size(0)),
            static_cast<int>(d_bias.size(1))};
    shared = sums.batch * sums.heads < p.batch * p.heads;
    if (shared) memory.planes = DeviceBuffer(static_cast<std::size_t>(per_launch) * group * plane_bytes);
    p.d_bias.data = shared ? memory.planes.as<float>() : sums.target;
  }
  for (p.first_head = 0; p.first_head < heads; p.first_head += per_launch, ++p.ticket) {
    p.head_count = std::min(per_launch, heads - p.first_head);
    p.section = std::min(section, p.head_count);
    p.d_bias.first = p.first_head * group;
    if (shared && partial) {
      check_cuda(cudaMemsetAsync(p.d_bias.data, 0, static_cast<std::size_t>(p.head_count) * group * plane_bytes,
                                 current_stream()),
                 "cudaMemsetAsync");
    }
    launch(p, passes.dtype, passes.dim, variant);
    if (shared) sum_bias_gradient(p, sums);
  }
}

}  // namespace

bool hopper_attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                               AttentionGradients& gradients) {
  if (!takes(problem, inputs, gradients)) return false;
  const int dim = kernel_dim(problem);
  const BackwardVariant variant = {.rules = choose_rules(problem), .ordered = problem.deterministic};
  BackwardParameters p = make_parameters(problem, inputs, gradients, dim);
  Tensor bias;
  if (variant.rules == BackwardRules::bias) {
    bias = reachable_bias(problem.bias);
    p.bias.map = make_map(bias, kBackwardRows);
  }
  BackwardPasses passes = make_passes(problem, inputs, gradients, dim);
  const std::vector<BackwardSequence> sequences = make_sequences(problem);
  const bool partial = problem.packed || p.left != kBackwardFar || p.right != kBackwardFar ||
                       std::any_of(sequences.begin(), sequences.end(),
                                   [](const BackwardSequence& s) { return s.key_count < s.key_length; });
  passes.hides = partial || problem.mask.defined() || problem.bias.defined();
  BackwardMemory memory;
  upload_sequences(problem, sequences, backward_keys(dim), p, passes, memory);
  p.section = problem.packed ? p.head_count : section_of(problem, dim, variant.ordered);
  // Where it is added to the scores alone, the bias's gradient has a kernel of its own.
  const bool sums_bias = variant.rules == BackwardRules::bias && gradients.bias.defined();
  const Tensor d_bias = sums_bias ? Tensor() : gradients.bias;
  const int per_launch = heads_of_launch(problem, d_bias);
  const bool has_rest = variant.rules == BackwardRules::bias || variant.rules == BackwardRules::all;
  allocate_sums((p.head_count + per_launch - 1) / per_launch, has_rest, p, passes, memory);

  prepare_backward_rows(p, passes);
  if (adds_to_scores(problem) && !problem.part_of_keys) refine_large_rows(p, passes);
  if (passes.sinks != nullptr && gradients.sinks.defined()) {
    passes.d_sinks = gradients.sinks.raw_data();
    passes.sinks_dtype = gradients.sinks.dtype();
    sum_sink_gradients(p, passes);
  }
  if (sums_bias) add_up_bias_gradient(p, make_bias_gradient(problem, gradients.bias), passes.dtype, dim);
  launch_heads(d_bias, per_launch, partial, variant, p, passes, memory);
  finish_query_gradient(p, passes);
  if (passes.hides) repair_gradients(p, passes);
  return true;
}

}  // namespace headway::inline v0::internal::cuda
