#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/hopper_attention.h"
#include "cuda/hopper_launch.h"
#include "cuda/hopper_repair.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr std::int64_t kFar = kNoLimit;                    // beyond every length
constexpr std::int64_t kMostRows = std::int64_t{1} << 28;  // so that rows and limits add up in 32 bits

// True where the kernels can take the problem.
bool is_taken(const AttentionProblem& problem, const AttentionResult& result) {
  const DType dtype = problem.query.dtype();
  if (device_properties().capability != 90) return false;
  if (dtype != DType::bfloat16 && dtype != DType::float16) return false;
  if (padded_dimension(std::max(problem.head_dim, problem.value_dim)) == 0 || problem.value_dim == 0) return false;
  if (problem.batch * problem.heads * problem.query_length * problem.key_length == 0) return false;
  if (problem.key_length >= kMostRows || problem.query_length >= kMostRows) return false;
  if (problem.batch * problem.heads * (problem.query_length / 64 + 1) >= kMostRows) return false;
  for (const Tensor& tensor : {problem.query, problem.key, problem.value, result.output}) {
    if (!fits_tensor_map(tensor)) return false;
  }
  // The softmax takes the maximum before it scales.
  const auto scale = static_cast<float>(problem.scale * 1.4426950408889634);
  if (!(scale > 0) || !std::isnormal(scale)) return false;
  if (problem.bias.defined() && problem.bias.dtype() != dtype && problem.bias.dtype() != DType::float32) return false;
  if (!problem.alibi_slopes.empty()) {
    for (const Sequence& sequence : problem.sequences) {
      if (std::abs(sequence.query_offset) >= kFar) return false;
    }
  }
  return true;
}

// Sequences in 32 bits, with the limits as distances from a query.
std::vector<HopperSequence> make_sequences(const AttentionProblem& problem) {
  std::vector<HopperSequence> result;
  for (const Sequence& s : problem.sequences) {
    const std::int64_t low = problem.left ? s.query_offset - *problem.left : -kFar;
    const std::int64_t high = problem.right ? s.query_offset + *problem.right : kFar;
    result.push_back({.query_begin = static_cast<int>(s.query_begin),
                      .query_length = static_cast<int>(s.query_length),
                      .key_begin = static_cast<int>(s.key_begin),
                      .key_count = static_cast<int>(s.key_count),
                      .low = static_cast<int>(std::clamp(low, -kFar, kFar)),
                      .high = static_cast<int>(std::clamp(high, -kFar, kFar)),
                      .query_offset = static_cast<int>(std::clamp(s.query_offset, -kFar, kFar))});
  }
  return result;
}

// True where a bias or mask, if there is one, is of a type that its own kernel takes, and 16 bytes of neighbouring keys
// are one aligned load from every 16th key of a sequence on.
bool is_quick(const ScorePlane& plane, const AttentionProblem& problem) {
  if (!plane.data) return true;
  if (plane.dtype != DType::boolean && plane.dtype != problem.query.dtype()) return false;
  const std::int64_t count = 16 / static_cast<std::int64_t>(item_size(plane.dtype));
  const auto is_whole = [&](std::int64_t elements) { return elements % count == 0; };
  return plane.key_stride == 1 && is_whole(problem.key_length) && is_whole(plane.batch_stride) &&
         is_whole(plane.head_stride) && is_whole(plane.query_stride) &&
         reinterpret_cast<std::uintptr_t>(plane.data) % 16 == 0 &&
         std::all_of(problem.sequences.begin(), problem.sequences.end(),
                     [&](const Sequence& s) { return is_whole(s.key_begin); });
}

// The kernels' set of rules that covers the problem.
int find_rules(const AttentionProblem& problem, const AttentionCall& call) {
  const bool whole = std::all_of(problem.sequences.begin(), problem.sequences.end(),
                                 [&](const Sequence& s) { return s.key_count == problem.key_length; });
  int rule_set = rules::kPlain;
  if (problem.bias.defined()) rule_set |= rules::kBias;
  if (problem.mask.defined()) rule_set |= rules::kMask;
  if (problem.dropout.threshold != 0) rule_set |= rules::kDropout;
  if (problem.softcap != 0 || !problem.alibi_slopes.empty()) rule_set |= rules::kScores;
  const bool is_single = std::popcount(static_cast<unsigned>(rule_set)) <= 1;
  if (!is_single || !is_quick(call.bias, problem) || !is_quick(call.mask, problem)) return rules::kAll;
  constexpr double kLeastScale = 1e-6;  // so that a bias divided by it stays in range
  if (problem.bias.defined() && problem.scale < kLeastScale) return rules::kAll;
  const bool has_limits =
      problem.left || problem.right || problem.packed || !problem.sinks.empty() || !whole || rule_set != rules::kPlain;
  return has_limits ? rule_set | rules::kLimits : rule_set;
}

ScoreOptions make_options(const AttentionProblem& problem, const AttentionCall& call) {
  ScoreOptions options;
  options.mask = call.mask;
  options.bias = call.bias;
  options.mask_true_keeps = call.mask_true_keeps;
  options.bias_is_float = call.bias.data && call.bias.dtype == DType::float32;
  if (problem.softcap != 0) {
    options.inverse_softcap = static_cast<float>(1 / problem.softcap);
    options.softcap_log2 = static_cast<float>(problem.softcap * 1.4426950408889634);
  }
  options.inverse_scale = static_cast<float>(1 / problem.scale);
  options.alibi_slopes = call.alibi_slopes;
  options.dropout_threshold = problem.dropout.threshold;
  const bool is_low = problem.dropout.threshold <= 0x8000u;
  options.dropout_addend = ((is_low ? 0x8000u : 0x10000u) - problem.dropout.threshold) * 0x10001u;
  options.dropout_either = is_low ? 0xFFFFFFFFu : 0u;
  options.dropout_scale = static_cast<float>(problem.dropout.scale);
  const auto key = philox_key(problem.dropout.seed);
  for (std::uint32_t round = 0; round < std::size(options.dropout_keys); ++round) {
    options.dropout_keys[round] = make_uint2(key[0] + round * 0x9E3779B9u, key[1] + round * 0xBB67AE85u);
  }
  return options;
}

// What all tiles have in common.
ForwardParams make_params(const AttentionProblem& problem, const AttentionCall& call, const AttentionResult& result) {
  ForwardParams p = {};
  p.output_rows = head_rows(result.output);
  p.logsumexp = static_cast<float*>(result.logsumexp.raw_data());
  p.sinks = call.sinks;
  p.query_length = static_cast<int>(problem.query_length);
  p.key_length = static_cast<int>(problem.key_length);
  p.value_dim = static_cast<int>(problem.value_dim);
  p.heads = static_cast<int>(problem.heads);
  p.group = static_cast<int>(problem.group());
  p.options = make_options(problem, call);
  p.scale_log2 = static_cast<float>(problem.scale * 1.4426950408889634);
  return p;
}

// Words that are zero between a stream's kernels: a kernel leaves them as it found them, so that they are cleared but
// once.
struct ControlWords {
  unsigned counter, not_finite, repaired_blocks;
};

// The words of a stream, made on first use and kept; null where the stream's work is being recorded, to run at an
// unknown time, and beyond the largest number of streams.
ControlWords* find_control_words(cudaStream_t stream) {
  constexpr std::size_t kMostStreams = 4096;
  static auto* const words = new std::map<unsigned long long, ControlWords*>;  // never deleted, as the GPU's memory
  static std::mutex mutex;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone) return nullptr;
  unsigned long long id = 0;
  check_cuda(cudaStreamGetId(stream, &id), "cudaStreamGetId");
  const std::lock_guard lock(mutex);
  if (const auto found = words->find(id); found != words->end()) return found->second;
  if (words->size() == kMostStreams) return nullptr;
  void* memory = allocate(sizeof(ControlWords));
  check_cuda(cudaMemsetAsync(memory, 0, sizeof(ControlWords), stream), "cudaMemsetAsync");
  return words->emplace(id, static_cast<ControlWords*>(memory)).first->second;
}

template <typename T>
void launch_dimension(const ForwardCall& call) {
  switch (padded_dimension(std::max(call.problem.head_dim, call.problem.value_dim))) {
    case 64:
      return launch_forward<T, 64>(call);
    case 96:
      return launch_forward<T, 96>(call);
    case 128:
      return launch_forward<T, 128>(call);
    case 192:
      return launch_forward<T, 192>(call);
    default:
      return launch_forward<T, 256>(call);
  }
}

}  // namespace

bool hopper_attention(const AttentionProblem& problem, AttentionResult& result) {
  if (!is_taken(problem, result)) return false;
  const UploadedCall uploaded(problem);
  const AttentionCall& attention = uploaded.call();
  ForwardCall call = {.problem = problem,
                      .result = result,
                      .sequences = make_sequences(problem),
                      .rule_set = find_rules(problem, attention),
                      .params = make_params(problem, attention, result)};
  std::int64_t longest = 0;
  for (const Sequence& sequence : problem.sequences) longest = std::max(longest, sequence.query_length);
  call.is_short = longest <= kShortLength;
  call.params.sequence = call.sequences.front();
  DeviceBuffer sequences;
  if (attention.sequences) {  // they differ
    sequences = upload(std::span<const HopperSequence>(call.sequences));
    call.params.sequences = sequences.as<const HopperSequence>();
  }
  DeviceBuffer temporary;
  ControlWords* words = find_control_words(current_stream());
  if (words == nullptr) {
    temporary = DeviceBuffer(sizeof(ControlWords));
    words = temporary.as<ControlWords>();
    check_cuda(cudaMemsetAsync(words, 0, sizeof(ControlWords), current_stream()), "cudaMemsetAsync");
  }
  call.counter = &words->counter;
  call.params.not_finite = &words->not_finite;
  if (problem.query.dtype() == DType::float16) {
    launch_dimension<__half>(call);
  } else {
    launch_dimension<__nv_bfloat16>(call);
  }
  if (call.rule_set != rules::kPlain) {
    const SpoiltRows rows = {.output = call.params.output_rows,
                             .logsumexp = call.params.logsumexp,
                             .not_finite = &words->not_finite,
                             .repaired_blocks = &words->repaired_blocks};
    repair_rows(attention, problem.query.dtype(), rows);
  }
  return true;
}

}  // namespace headway::inline v0::internal::cuda
