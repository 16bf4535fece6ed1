// A block has a part of the keys of one key/value head, and all rows of queries that look at them: the queries of every
// head of the group. Its warps take turns through the keys; their sums are joined in shared memory, and those of the
// parts by a second kernel, always in the same order.
#include <algorithm>
#include <cmath>

#include "base/divide.h"
#include "cuda/decode_attention.h"
#include "cuda/decode_kernel.cuh"
#include "cuda/hopper_repair.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr std::int64_t kMostRows = 16;
constexpr std::int64_t kMostKeys = std::int64_t{1} << 28;  // so that keys count in 32 bits
constexpr std::int64_t kMostParts = 256;

// The softmax over some of a row's keys: their sum is of exp(score - maximum), and so are outputs beside it.
struct RowPart {
  float maximum = -INFINITY;
  float sum = 0;
};

struct DecodeArguments {
  AttentionCall call;
  HeadRows output;                 // (batch, heads, query_length, value_dim)
  float* logsumexp = nullptr;      // (batch, heads, query_length)
  int queries = 0;                 // of the sequence that has most
  int rows = 0;                    // group * queries: row r is query r % queries of the group's head r / queries
  int parts = 1;                   // blocks that share a row
  RowPart* part_rows = nullptr;    // (sequences, kv_heads, parts, rows); of more than one part
  float* part_outputs = nullptr;   // (sequences, kv_heads, parts, rows, value_dim); likewise
  unsigned* not_finite = nullptr;  // set where an output is not finite; null where that is its own doing
};

// Which row of the problem a row of a key/value head is.
struct RowPlace {
  std::int64_t head, query;
  __device__ RowPlace(const DecodeArguments& a, std::int64_t kv_head, int row)
      : head(kv_head * a.call.group + row / a.queries), query(row % a.queries) {}
};

// What a part's sums are multiplied by where they are relative to `largest` instead.
__device__ float part_factor(const RowPart& part, float largest) {
  return exp2_approximate((part.maximum - (largest == -INFINITY ? 0.f : largest)) * kLog2e);
}

// What a row's output is multiplied by, and its log-sum-exp.
struct RowFinish {
  float factor, logsumexp;
  __device__ RowFinish(const AttentionCall& call, std::int64_t head, RowPart row) {
    const float sink = call.sinks ? static_cast<float>(call.sinks[head]) : -INFINITY;
    factor = 1.f;
    if (sink != -INFINITY) {  // one more score, without a value
      const float largest = fmaxf(row.maximum, sink);
      factor = part_factor(row, largest);
      row = {largest, row.sum * factor + exp2_approximate((sink - largest) * kLog2e)};
    }
    logsumexp = row.sum == 0.f ? -INFINITY : row.maximum + logf(row.sum);
    factor = row.sum == 0.f ? 0.f : factor / row.sum;
  }
};

// Writes one element of a row's output, and with the first one the log-sum-exp.
template <typename T>
__device__ void write_element(const DecodeArguments& a, const Sequence& sequence, const RowPlace& place,
                              const RowPart& row, int column, float sum) {
  if (place.query >= sequence.query_length) return;
  const RowFinish finish(a.call, place.head, row);
  const TileRows<T> rows = rows_at<T>(a.output, sequence.batch, place.head, sequence.query_begin + place.query, 1);
  const T value = from_compute<T>(sum * finish.factor);
  const_cast<T*>(rows.data)[column] = value;
  if (a.not_finite && !isfinite(to_compute(value))) *a.not_finite = 1;
  if (column == 0) a.logsumexp[a.call.first_row(sequence, place.head) + place.query] = finish.logsumexp;
}

// query (kRows, kQueryStride) in shared memory; zeros past the last row or column.
template <class S>
__device__ void load_queries(const DecodeArguments& a, const Sequence& sequence, std::int64_t kv_head,
                             typename S::T* query) {
  using T = typename S::T;
  for (int e = static_cast<int>(threadIdx.x); e < S::kRows * S::kDim; e += S::kWarps * 32) {
    const int row = e / S::kDim, column = e % S::kDim;
    const RowPlace place(a, kv_head, row);
    T value = from_compute<T>(0.f);
    if (row < a.rows && column < a.call.head_dim && place.query < sequence.query_length) {
      value = rows_at<T>(a.call.query, sequence.batch, place.head, sequence.query_begin + place.query, 1).data[column];
    }
    query[row * S::kQueryStride + column] = value;
  }
}

// The lane's rows before the first key.
template <class S>
__device__ DecodeRows<S> begin_rows(const DecodeArguments& a, const ScoreRule<float>& rule, std::int64_t kv_head) {
  DecodeRows<S> rows;
  rows.unit = S::kGeneral ? kLog2e : static_cast<float>(a.call.scale) * kLog2e;
#pragma unroll
  for (int r = 0; r < S::kTiles; ++r) {
    const int row = static_cast<int>(threadIdx.x) % 32 / 4 + 8 * r;
    const RowPlace place(a, kv_head, row < a.rows ? row : 0);
    const bool is_real = row < a.rows && place.query < rule.sequence.query_length;
    rows.maximum[r] = -INFINITY;
    rows.sum[r] = 0.f;
    rows.head[r] = place.head;
    rows.query[r] = place.query;
    rows.low[r] = is_real ? static_cast<int>(rule.first_key(place.query)) : 0;
    rows.end[r] = is_real ? static_cast<int>(rule.end_key(place.query)) : 0;
  }
  return rows;
}

// Joins the warps' sums in their order. row_parts (kWarps, kRows) and outputs (kWarps, kRows, kDim) in shared memory.
template <class S>
__device__ void join_warps(const DecodeArguments& a, const Sequence& sequence, std::int64_t unit,
                           const RowPart* row_parts, const float* outputs) {
  const int columns = static_cast<int>(a.call.value_dim), part = static_cast<int>(blockIdx.x) % a.parts;
  for (int e = static_cast<int>(threadIdx.x); e < a.rows * columns; e += S::kWarps * 32) {
    const int row = e / columns, column = e % columns;
    RowPart all;
    float output = 0.f;
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) all.maximum = fmaxf(all.maximum, row_parts[w * S::kRows + row].maximum);
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) {
      const RowPart warp = row_parts[w * S::kRows + row];
      const float factor = part_factor(warp, all.maximum);
      all.sum += warp.sum * factor;
      output += outputs[(w * S::kRows + row) * S::kDim + column] * factor;
    }
    if (a.parts == 1) {
      write_element<typename S::T>(a, sequence, RowPlace(a, unit % a.call.kv_heads, row), all, column, output);
    } else {
      const std::int64_t at = (unit * a.parts + part) * a.rows + row;
      a.part_outputs[at * columns + column] = output;
      if (column == 0) a.part_rows[at] = all;
    }
  }
}

// Bytes of shared memory: queries, the warps' row parts, their outputs.
template <class S>
constexpr std::size_t decode_shared_bytes() {
  return S::kRows * (S::kQueryStride * sizeof(typename S::T) + S::kWarps * (sizeof(RowPart) + S::kDim * sizeof(float)));
}

// Blocks (sequences, kv_heads, parts): the rows of one key/value head over one part of the keys.
template <class S>
__global__ void __launch_bounds__(S::kWarps * 32, S::kBlocks) decode_kernel(const __grid_constant__ DecodeArguments a) {
  using T = typename S::T;
  extern __shared__ __align__(16) unsigned char shared[];
  T* query = reinterpret_cast<T*>(shared);
  float* outputs = reinterpret_cast<float*>(query + S::kRows * S::kQueryStride);
  RowPart* row_parts = reinterpret_cast<RowPart*>(outputs + S::kWarps * S::kRows * S::kDim);
  const AttentionCall& call = a.call;
  const std::int64_t unit = blockIdx.x / static_cast<unsigned>(a.parts);
  const std::int64_t index = unit / call.kv_heads, kv_head = unit % call.kv_heads;
  const int part = static_cast<int>(blockIdx.x) % a.parts, lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) / 32;
  const ScoreRule<float> rule(call, index, kv_head * call.group);
  const Sequence& s = rule.sequence;
  load_queries<S>(a, s, kv_head, query);

  // This block's keys are [begin, end).
  const int low = static_cast<int>(rule.first_key(0)), high = static_cast<int>(rule.end_key(s.query_length - 1));
  const int width = (max(high - low, 0) + a.parts * S::kStep - 1) / (a.parts * S::kStep) * S::kStep;
  const int begin = low + part * width, end = min(begin + width, high);
  const TileRows<T> key_rows = rows_at<T>(call.key, s.batch, kv_head, s.key_begin, 0);
  const TileRows<T> value_rows = rows_at<T>(call.value, s.batch, kv_head, s.key_begin, 0);
  const StreamRows<T> key_stream = {key_rows.data, key_rows.stride, end, static_cast<int>(call.head_dim)};
  const StreamRows<T> value_stream = {value_rows.data, value_rows.stride, end, static_cast<int>(call.value_dim)};
  DecodeRows<S> rows = begin_rows<S>(a, rule, kv_head);
  DecodeOutputs<S> sums = {};
  KeyWords<S> keys;
  ValueWords<S> values;
  keys.load(key_stream, begin + warp * S::kKeys);
  if constexpr (S::kAhead) values.load(value_stream, begin + warp * S::kKeys);
  __syncthreads();  // the queries
  for (int key = begin + warp * S::kKeys; key < end; key += S::kStep) {
    float scores[S::kKeys / 8][4];
    keys.multiply(query, scores);
    if constexpr (S::kAhead) {
      keys.load(key_stream, key + S::kStep);
    } else {
      values.load(value_stream, key);
    }
    rows.hide(call, index, key, scores);
    rows.exponentiate(scores, sums);
    values.add_product(scores, sums);
    if constexpr (S::kAhead) {
      values.load(value_stream, key + S::kStep);
    } else {
      keys.load(key_stream, key + S::kStep);
    }
  }

  sums.store(outputs + warp * S::kRows * S::kDim);
#pragma unroll
  for (int r = 0; r < S::kTiles; ++r) {
    rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 2);
    const float maximum = S::kGeneral ? rows.maximum[r] : times(rows.maximum[r], rule.scale);
    if (lane % 4 == 0) row_parts[warp * S::kRows + 8 * r + lane / 4] = {maximum, rows.sum[r]};
  }
  __syncthreads();
  join_warps<S>(a, s, unit, row_parts, outputs);
}

constexpr int kJoinWarps = 8;

// Blocks (sequences, kv_heads, rows): joins a row's parts. Warp w has the parts w, w + kJoinWarps, ..., a lane the
// columns 4 lane to + 3 and 128 further on.
template <typename T>
__global__ void join_kernel(const __grid_constant__ DecodeArguments a) {
  __shared__ RowPart shared_rows[kJoinWarps];
  __shared__ float4 shared_outputs[kJoinWarps][64];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(blockIdx.x) % a.rows, columns = static_cast<int>(a.call.value_dim);
  const std::int64_t unit = blockIdx.x / static_cast<unsigned>(a.rows);
  const auto row_of = [&](int part) { return (unit * a.parts + part) * a.rows + row; };
  RowPart all;
  for (int part = lane; part < a.parts; part += 32) all.maximum = fmaxf(all.maximum, a.part_rows[row_of(part)].maximum);
  for (int offset = 16; offset > 0; offset /= 2) {
    all.maximum = fmaxf(all.maximum, __shfl_xor_sync(0xffffffffu, all.maximum, offset));
  }
  float4 output[2] = {};
#pragma unroll 4
  for (int part = warp; part < a.parts; part += kJoinWarps) {
    const RowPart found = a.part_rows[row_of(part)];
    const float factor = part_factor(found, all.maximum);
    all.sum += found.sum * factor;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = 4 * lane + 128 * i;
      if (column >= columns) continue;
      const float4 more = *reinterpret_cast<const float4*>(a.part_outputs + row_of(part) * columns + column);
      output[i].x += more.x * factor;
      output[i].y += more.y * factor;
      output[i].z += more.z * factor;
      output[i].w += more.w * factor;
    }
  }
  if (lane == 0) shared_rows[warp] = all;
  shared_outputs[warp][lane] = output[0];
  shared_outputs[warp][lane + 32] = output[1];
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= columns) return;
  all.sum = 0.f;
  float sum = 0.f;
#pragma unroll
  for (int w = 0; w < kJoinWarps; ++w) {
    all.sum += shared_rows[w].sum;
    sum += reinterpret_cast<const float*>(shared_outputs[w])[column];
  }
  const Sequence sequence = a.call.sequence_at(unit / a.call.kv_heads);
  write_element<T>(a, sequence, RowPlace(a, unit % a.call.kv_heads, row), all, column, sum);
}

// ---- host ----

std::int64_t most_queries(const AttentionProblem& problem) {
  std::int64_t most = 0;
  for (const Sequence& sequence : problem.sequences) most = std::max(most, sequence.query_length);
  return most;
}

// Whether rows that share keys may see different ones, so that a value could reach a row that must not see it.
bool has_private_masks(const AttentionProblem& problem, std::int64_t queries) {
  return problem.mask.defined() || problem.bias.defined() || (queries > 1 && (problem.left || problem.right));
}

bool is_taken(const AttentionProblem& problem) {
  const DType dtype = problem.query.dtype();
  const std::int64_t queries = most_queries(problem);
  // Rows that a masked value has spoilt are repaired by a kernel for Hopper.
  if (device_properties().capability < (has_private_masks(problem, queries) ? 90 : 80)) return false;
  if (dtype != DType::bfloat16 && dtype != DType::float16) return false;
  if (problem.batch * problem.heads * problem.query_length * problem.key_length == 0) return false;
  if (problem.head_dim == 0 || problem.value_dim == 0 || std::max(problem.head_dim, problem.value_dim) > 256) {
    return false;
  }
  if (queries * problem.group() > kMostRows || problem.dropout.threshold != 0) return false;
  if (problem.key_length >= kMostKeys || problem.batch * problem.heads * problem.query_length >= kMostKeys)
    return false;
  return has_aligned_rows(problem.key) && has_aligned_rows(problem.value);
}

// True where ScoreRule is needed beside the limits. The others scale after they have found the maximum.
bool is_general(const AttentionProblem& problem) {
  const auto scale = static_cast<float>(problem.scale);
  return problem.mask.defined() || problem.bias.defined() || problem.softcap != 0 || !problem.alibi_slopes.empty() ||
         !(scale > 0) || !std::isnormal(scale * kLog2e);
}

// The keys that the queries of a sequence see.
std::int64_t span_of_keys(const AttentionProblem& problem, const Sequence& s) {
  const std::int64_t low = problem.left ? std::max<std::int64_t>(0, s.query_offset - *problem.left) : 0;
  const std::int64_t end =
      problem.right ? std::min(s.key_count, s.query_offset + s.query_length + *problem.right) : s.key_count;
  return std::max<std::int64_t>(0, end - low);
}

// How many parts the keys of each of `units` heads are cut into: a few blocks for each that can run at once, so
// that all multiprocessors stay busy to the end, but no parts too small for a block.
int find_parts(const AttentionProblem& problem, std::int64_t units, std::int64_t places, std::int64_t step) {
  std::int64_t longest = 0;
  for (const Sequence& sequence : problem.sequences) longest = std::max(longest, span_of_keys(problem, sequence));
  const std::int64_t most = std::clamp<std::int64_t>(divide_up(longest, 2 * step), 1, kMostParts);
  for (const std::int64_t rounds : {4, 3, 2, 1}) {
    const std::int64_t parts = places * rounds / units;
    if (parts <= most) return static_cast<int>(std::max<std::int64_t>(1, parts));
  }
  return static_cast<int>(most);
}

template <class S>
void launch(const AttentionProblem& problem, DecodeArguments& a) {
  const std::int64_t units = a.call.sequence_count * a.call.kv_heads;
  a.parts = find_parts(problem, units, device_properties().multiprocessors * S::kBlocks, S::kStep);
  const auto part_rows = static_cast<std::size_t>(a.parts == 1 ? 0 : units * a.parts * a.rows);
  const DeviceBuffer rows(part_rows * sizeof(RowPart));
  const DeviceBuffer outputs(part_rows * static_cast<std::size_t>(problem.value_dim) * sizeof(float));
  a.part_rows = rows.as<RowPart>();
  a.part_outputs = outputs.as<float>();
  constexpr std::size_t kBytes = decode_shared_bytes<S>();
  allow_shared_memory(decode_kernel<S>, kBytes);
  decode_kernel<S><<<static_cast<unsigned>(units * a.parts), S::kWarps * 32, kBytes, current_stream()>>>(a);
  check_launch("attention decode_kernel");
  if (a.parts == 1) return;
  join_kernel<typename S::T><<<static_cast<unsigned>(units * a.rows), kJoinWarps * 32, 0, current_stream()>>>(a);
  check_launch("attention join_kernel");
}

template <typename T, int kDim>
void launch_rows(const AttentionProblem& problem, DecodeArguments& a) {
  if (is_general(problem)) return launch<DecodeShape<T, kDim, 2, true>>(problem, a);
  if (a.rows <= 8) return launch<DecodeShape<T, kDim, 1, false>>(problem, a);
  return launch<DecodeShape<T, kDim, 2, false>>(problem, a);
}

template <typename T>
void launch_dimension(const AttentionProblem& problem, DecodeArguments& a) {
  const std::int64_t columns = std::max(problem.head_dim, problem.value_dim);
  if (columns <= 64) return launch_rows<T, 64>(problem, a);
  if (columns <= 128) return launch_rows<T, 128>(problem, a);
  return launch_rows<T, 256>(problem, a);
}

}  // namespace

bool decode_attention(const AttentionProblem& problem, AttentionResult& result) {
  if (!is_taken(problem)) return false;
  const UploadedCall uploaded(problem);
  DecodeArguments a;
  a.call = uploaded.call();
  a.output = head_rows(result.output);
  a.logsumexp = static_cast<float*>(result.logsumexp.raw_data());
  const std::int64_t queries = most_queries(problem);
  a.queries = static_cast<int>(queries);
  a.rows = static_cast<int>(queries * problem.group());
  const bool may_spoil = has_private_masks(problem, queries);
  constexpr std::size_t kWordBytes = 2 * sizeof(unsigned);
  const DeviceBuffer words(may_spoil ? kWordBytes : 0);  // not_finite, and how many blocks have repaired
  a.not_finite = words.as<unsigned>();
  if (may_spoil) check_cuda(cudaMemsetAsync(a.not_finite, 0, kWordBytes, current_stream()), "cudaMemsetAsync");
  if (problem.query.dtype() == DType::float16) {
    launch_dimension<__half>(problem, a);
  } else {
    launch_dimension<__nv_bfloat16>(problem, a);
  }
  if (may_spoil) {
    const SpoiltRows rows = {
        .output = a.output, .logsumexp = a.logsumexp, .not_finite = a.not_finite, .repaired_blocks = a.not_finite + 1};
    repair_rows(a.call, problem.query.dtype(), rows);
  }
  return true;
}

}  // namespace headway::inline v0::internal::cuda
