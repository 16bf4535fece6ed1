// P = exp(S - logsumexp). A block has 128 queries and goes through tiles of keys; for the mean over heads it goes
// through all heads at each of them. Rows whose log-sum-exp is large are left to a kernel of their own.
#include <algorithm>
#include <cmath>

#include "base/divide.h"
#include "cuda/attention_score.cuh"
#include "cuda/mma_sync.cuh"
#include "cuda/tuned_weights.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kQueries = 128;                              // of a block: 32 of each warp
constexpr std::int64_t kMostRows = std::int64_t{1} << 28;  // so that rows count in 32 bits
constexpr std::int64_t kMostHeads = 1024;                  // of a mean, for shared memory

struct WeightsArguments {
  AttentionCall call;
  const float* logsumexp = nullptr;  // (batch, heads, query_length)
  void* weights = nullptr;           // (batch, planes, query_length, key_length)
  std::int64_t planes = 0;           // the heads, or 1 for their mean
  TileTable tiles;                   // of kQueries queries
  int key_parts = 1;                 // blocks that share the keys of a tile
  bool is_aligned = false;           // 8 neighbouring weights are one store
};

// kGeneral: everything that ScoreRule knows; else causal, windows, lengths and sinks.
template <typename Element, int kColumns, bool kAnyRule, bool kOfMean>
struct WeightsShape {
  using T = Element;
  static constexpr int kDim = kColumns;  // 64, 128 or 256; what is missing is zero
  static constexpr bool kGeneral = kAnyRule;
  static constexpr bool kMean = kOfMean;
  static constexpr int kKeys = kMean ? 32 : 64;  // of a tile
  static constexpr int kStride = kDim + 32;      // of keys in shared memory, against bank conflicts
  static constexpr int kBlocks = kDim == 64 || (kDim == 128 && (kMean || !kGeneral)) ? 3 : 2;  // on a multiprocessor
  static constexpr int kStageElements = kKeys * kStride;  // two stages: one is filled while the other is used
  static constexpr std::size_t kSharedBytes = 2 * kStageElements * sizeof(T);
};

// Whether the logarithm of a row's sum would be lost in its log-sum-exp.
__device__ bool is_large(float logsumexp) {
  const float magnitude = fabsf(logsumexp);
  return magnitude >= 1024.f && magnitude <= std::numeric_limits<float>::max();
}

// Where the weights of one query begin: key 0 of its sequence.
template <typename T>
__device__ T* weights_row(const WeightsArguments& a, const Sequence& s, std::int64_t plane, std::int64_t query) {
  const std::int64_t row = (s.batch * a.planes + plane) * a.call.query_length + s.query_begin + query;
  return static_cast<T*>(a.weights) + row * a.call.key_length + s.key_begin;
}

// A lane's four rows of a warp's 32: row n is 8 n + lane / 4.
template <class S>
struct QueryRows {
  uint4 words[S::kDim / 32][4];  // columns 32 i + 8 (lane % 4) of row n
  float shift[4];                // the log-sum-exp as an exponent of 2
  int low[4], end[4];            // keys that are seen

  // `first`: of the warp's queries.
  __device__ __forceinline__ void load(const WeightsArguments& a, const ScoreRule<float>& rule, int first) {
    const Sequence& s = rule.sequence;
    const int lane = static_cast<int>(threadIdx.x) % 32, length = static_cast<int>(s.query_length);
    const TileRows<typename S::T> source =
        rows_at<typename S::T>(a.call.query, s.batch, rule.head, s.query_begin, s.query_length);
    const StreamRows<typename S::T> rows = {source.data, source.stride, length, static_cast<int>(a.call.head_dim)};
    const float* logsumexp = a.logsumexp + a.call.first_row(s, rule.head);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int query = first + 8 * n + lane / 4;
#pragma unroll
      for (int i = 0; i < S::kDim / 32; ++i) words[i][n] = rows.load(query, 32 * i + 8 * (lane % 4));
      const bool is_real = query < length;
      const float value = is_real ? logsumexp[query] : 0.f;
      shift[n] = value == -INFINITY ? INFINITY : value * kLog2e;  // rows without keys: zeros
      low[n] = is_real ? static_cast<int>(rule.first_key(query)) : 0;
      end[n] = is_real ? static_cast<int>(rule.end_key(query)) : 0;
    }
  }
};

// A warp's 32 x kKeys scores or weights. Columns are dealt so that a lane has eight neighbouring keys of a row: element
// [n / 2][4 c + j][2 (n % 2) + e] is row 8 n + lane / 4, key 32 c + 8 (lane % 4) + 2 j + e.
template <class S>
struct ScoreTile {
  float at[2][S::kKeys / 8][4];

  __device__ __forceinline__ float& element(int n, int c, int i) { return at[n / 2][4 * c + i / 2][n % 2 * 2 + i % 2]; }

  // S = Q K^T. keys: (kKeys, kStride)
  __device__ __forceinline__ void multiply(const QueryRows<S>& queries, const typename S::T* keys) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const typename S::T* row = keys + (lane / 8 * 8 + lane / 4 % 2) * S::kStride + 8 * (lane % 4);
#pragma unroll
    for (int i = 0; i < S::kDim / 32; ++i) {
#pragma unroll
      for (int t = 0; t < S::kKeys / 8; ++t) {
        const int key = t / 4 * 32 + t % 4 * 2;
        const uint4 b = *reinterpret_cast<const uint4*>(row + key * S::kStride + 32 * i);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_add_columns<typename S::T>(at[m][t], queries.words[i][2 * m], queries.words[i][2 * m + 1], b);
        }
      }
    }
  }

  // Dot products become weights; what is not seen becomes 0, whatever it was.
  __device__ __forceinline__ void exponentiate(const ScoreRule<float>& rule, const QueryRows<S>& queries, int first,
                                               int key) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float unit = rule.scale * kLog2e;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int query = first + 8 * n + lane / 4;
#pragma unroll
      for (int c = 0; c < S::kKeys / 32; ++c) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const int k = key + 32 * c + 8 * (lane % 4) + i;
          const bool is_seen = k >= queries.low[n] && k < queries.end[n];
          float& value = element(n, c, i);
          if constexpr (S::kGeneral) {
            const float score =
                is_seen ? rule.masked(rule.capped(times(value, rule.scale)), query, k, true) : -INFINITY;
            value = score == -INFINITY ? 0.f : exp2_approximate(fmaf(score, kLog2e, -queries.shift[n]));
          } else {
            const float p = exp2_approximate(fmaf(value, unit, -queries.shift[n]));
            value = is_seen ? p : 0.f;
          }
        }
      }
    }
  }

  __device__ __forceinline__ void add(const ScoreTile& other) {
#pragma unroll
    for (int e = 0; e < S::kKeys; ++e) {
      const int m = e / (S::kKeys / 2), t = e / 4 % (S::kKeys / 8);
      at[m][t][e % 4] += other.at[m][t][e % 4];
    }
  }

  // Writes the values times `factor`.
  __device__ __forceinline__ void write(const WeightsArguments& a, const Sequence& s, std::int64_t plane, int first,
                                        int key, float factor) {
    using T = typename S::T;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int query = first + 8 * n + lane / 4;
      if (query >= s.query_length) continue;
      T* row = weights_row<T>(a, s, plane, query);
#pragma unroll
      for (int c = 0; c < S::kKeys / 32; ++c) {
        const int k = key + 32 * c + 8 * (lane % 4);
        if (a.is_aligned) {
          const auto pair = [&](int i) { return pack<T>(element(n, c, i) * factor, element(n, c, i + 1) * factor); };
          if (k < s.key_length) __stcs(reinterpret_cast<uint4*>(row + k), uint4{pair(0), pair(2), pair(4), pair(6)});
        } else {
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if (k + i < s.key_length) row[k + i] = from_compute<T>(element(n, c, i) * factor);
          }
        }
      }
    }
  }
};

// Starts the copy of the keys [key, key + kKeys) of a head to `target` (kKeys, kStride); zeros outside.
template <class S>
__device__ __forceinline__ void copy_keys(const AttentionCall& call, const Sequence& s, int kv_head, int key,
                                          typename S::T* target) {
  using T = typename S::T;
  constexpr int kChunks = S::kDim / 8, kRows = kWarps * 32 / kChunks;  // 16 bytes of each of some rows at a time
  const int row = static_cast<int>(threadIdx.x) / kChunks, column = static_cast<int>(threadIdx.x) % kChunks * 8;
  const int left = column < call.head_dim ? static_cast<int>(s.key_count) - key - row : 0;
  const T* from = rows_at<T>(call.key, s.batch, kv_head, s.key_begin + key + row, 0).data + column;
  const std::uint32_t to = shared_address(target + row * S::kStride + column);
#pragma unroll
  for (int r = 0; r < S::kKeys; r += kRows) {
    copy_async(to + r * S::kStride * static_cast<int>(sizeof(T)), from, r < left);
    from += kRows * call.key.row_stride;
  }
}

// Blocks (key_parts, planes, tiles). Steps go through the keys, and for the mean through the heads at each tile of
// them.
template <class S>
__global__ void __launch_bounds__(kWarps * 32, S::kBlocks) weights_kernel(const __grid_constant__ WeightsArguments a) {
  using T = typename S::T;
  extern __shared__ __align__(16) unsigned char shared[];
  T* stages = reinterpret_cast<T*>(shared);  // (2, kKeys, kStride)
  const AttentionCall& call = a.call;
  const std::int64_t work = blockIdx.x, plane = work / a.tiles.count % a.planes;
  const TilePlace place = a.tiles.at(work % a.tiles.count);
  const int heads = S::kMean ? static_cast<int>(call.heads) : 1,
            part = static_cast<int>(work / a.tiles.count / a.planes);
  const ScoreRule<float> first_rule(call, place.sequence, S::kMean ? 0 : plane);
  const Sequence& s = first_rule.sequence;
  const int block_first = static_cast<int>(place.first), first = block_first + static_cast<int>(threadIdx.x) / 32 * 32;

  const int group = static_cast<int>(call.group);

  // This block's tiles are [begin, end), and of them the keys [low, high) are seen.
  const int count = static_cast<int>((s.key_length + S::kKeys - 1) / S::kKeys);
  const int width = (count + a.key_parts - 1) / a.key_parts;
  const int begin = part * width, steps = (min(begin + width, count) - begin) * heads;
  const std::int64_t last_query = min(place.first + kQueries, s.query_length) - 1;
  const int low = static_cast<int>(first_rule.first_key(place.first));
  const int high = static_cast<int>(first_rule.end_key(last_query));
  const auto key_of = [&](int step) { return (begin + step / heads) * S::kKeys; };
  const auto head_of = [&](int step) { return S::kMean ? step % heads : static_cast<int>(plane); };
  const auto is_seen = [&](int step) { return key_of(step) < high && key_of(step) + S::kKeys > low; };
  const auto start_copy = [&](int step) {
    if (step < steps && is_seen(step)) {
      copy_keys<S>(call, s, head_of(step) / group, key_of(step), stages + step % 2 * S::kStageElements);
    }
    copy_commit();
  };

  start_copy(0);
  QueryRows<S> queries;
  ScoreTile<S> sums = {};
  if constexpr (!S::kMean) queries.load(a, first_rule, first);
  for (int step = 0; step < steps; ++step) {
    start_copy(step + 1);
    copy_wait<1>();
    __syncthreads();  // the step's keys have come
    ScoreTile<S> tile = {};
    if (is_seen(step)) {
      const ScoreRule<float> rule(call, place.sequence, head_of(step));
      if constexpr (S::kMean) queries.load(a, rule, first);
      tile.multiply(queries, stages + step % 2 * S::kStageElements);
      tile.exponentiate(rule, queries, first, key_of(step));
    }
    if constexpr (S::kMean) {
      sums.add(tile);
      if (step % heads == heads - 1) {
        sums.write(a, s, plane, first, key_of(step), 1.f / static_cast<float>(heads));
        sums = {};
      }
    } else {
      tile.write(a, s, plane, first, key_of(step), 1.f);
    }
    __syncthreads();  // before the keys after the next ones take their place
  }
}

// ---- rows with a large log-sum-exp ----

// P = exp(S - maximum - log_sum)
struct LargeRow {
  float maximum, log_sum;
};

// The score of one key as the softmax sees it.
template <typename T>
__device__ float compute_score(const ScoreRule<float>& rule, std::int64_t q, std::int64_t k) {
  const AttentionCall& call = rule.call;
  const Sequence& s = rule.sequence;
  if (!rule.in_limits(q, k)) return -INFINITY;
  const T* query = rows_at<T>(call.query, s.batch, rule.head, s.query_begin + q, 1).data;
  const T* key = rows_at<T>(call.key, s.batch, rule.head / call.group, s.key_begin + k, 1).data;
  float product = 0.f;
#pragma unroll 8
  for (std::int64_t c = 0; c < call.head_dim; ++c) product = fmaf(to_compute(query[c]), to_compute(key[c]), product);
  return rule.masked(rule.capped(times(product, rule.scale)), q, k, true);
}

// Maximum and sum over the keys that query q sees, by one warp; lane l has the keys l, l + 32, ...
template <typename T>
__device__ LargeRow sum_row(const ScoreRule<float>& rule, std::int64_t q) {
  float maximum = -INFINITY, sum = 0.f;
  const auto add = [&](float more_maximum, float more_sum) {
    const float largest = fmaxf(maximum, more_maximum), shift = largest == -INFINITY ? 0.f : largest;
    sum = sum * expf(maximum - shift) + more_sum * expf(more_maximum - shift);
    maximum = largest;
  };
  for (std::int64_t k = rule.first_key(q) + threadIdx.x % 32; k < rule.end_key(q); k += 32) {
    add(compute_score<T>(rule, q, k), 1.f);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, maximum, offset);
    add(other, __shfl_xor_sync(0xffffffffu, sum, offset));
  }
  if (rule.call.sinks) add(static_cast<float>(rule.call.sinks[rule.head]), 1.f);
  return {maximum, logf(sum)};
}

// The weights of query q, by one warp. rows: (heads of the plane) in shared memory
template <typename T>
__device__ void write_row(const WeightsArguments& a, const TilePlace& place, std::int64_t plane, std::int64_t q,
                          LargeRow* rows) {
  const int heads = static_cast<int>(a.call.heads / a.planes), lane = static_cast<int>(threadIdx.x) % 32;
  const Sequence s = a.call.sequence_at(place.sequence);
  for (int h = 0; h < heads; ++h) {
    const LargeRow row = sum_row<T>(ScoreRule<float>(a.call, place.sequence, plane * heads + h), q);
    if (lane == 0) rows[h] = row;
  }
  __syncwarp();
  T* target = weights_row<T>(a, s, plane, q);
  for (std::int64_t k = lane; k < s.key_length; k += 32) {
    float sum = 0.f;
    for (int h = 0; h < heads; ++h) {
      const float score = compute_score<T>(ScoreRule<float>(a.call, place.sequence, plane * heads + h), q, k);
      sum += score == -INFINITY ? 0.f : expf(score - rows[h].maximum - rows[h].log_sum);
    }
    target[k] = from_compute<T>(sum / static_cast<float>(heads));
  }
  __syncwarp();
}

// Blocks (planes, tiles): writes the rows that have a large log-sum-exp, in any of the plane's heads.
template <typename T>
__global__ void large_rows_kernel(const __grid_constant__ WeightsArguments a) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int heads = static_cast<int>(a.call.heads / a.planes), lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) / 32;
  LargeRow* rows = reinterpret_cast<LargeRow*>(shared) + warp * heads;  // (kWarps, heads)
  const std::int64_t work = blockIdx.x, plane = work / a.tiles.count;
  const TilePlace place = a.tiles.at(work % a.tiles.count);
  const Sequence s = a.call.sequence_at(place.sequence);
  const std::int64_t first = place.first + warp * 32;
  bool has_large = false;
  for (int h = 0; h < heads && first + lane < s.query_length; ++h) {
    has_large = has_large || is_large(a.logsumexp[a.call.first_row(s, plane * heads + h) + first + lane]);
  }
  const unsigned found = __ballot_sync(0xffffffffu, has_large);
  for (int n = 0; n < 32; ++n) {
    if (found >> n & 1) write_row<T>(a, place, plane, first + n, rows);
  }
}

// ---- host ----

bool is_taken(const AttentionProblem& problem) {
  const DType dtype = problem.query.dtype();
  if (device_properties().capability < 80 || problem.weights_of != WeightsOf::softmax) return false;
  if (dtype != DType::bfloat16 && dtype != DType::float16) return false;
  if (problem.batch * problem.heads * problem.query_length * problem.key_length == 0) return false;
  if (problem.head_dim == 0 || problem.head_dim > 256 || problem.heads > kMostHeads) return false;
  if (problem.key_length >= kMostRows || problem.query_length >= kMostRows) return false;
  if (problem.batch * problem.heads * problem.query_length >= kMostRows) return false;
  return has_aligned_rows(problem.query) && has_aligned_rows(problem.key);
}

// True where ScoreRule is needed beside the limits.
bool is_general(const AttentionProblem& problem) {
  return problem.mask.defined() || problem.bias.defined() || problem.softcap != 0 || !problem.alibi_slopes.empty();
}

template <class S>
void launch(const AttentionProblem& problem, WeightsArguments& a) {
  // A few blocks for each place that there is for one, but the queries of a block serve some tiles of keys.
  constexpr std::int64_t kRounds = 4, kLeastTiles = S::kMean ? 1 : 4;
  const std::int64_t blocks = a.tiles.count * a.planes, places = device_properties().multiprocessors * S::kBlocks;
  const std::int64_t most = divide_up(problem.key_length, S::kKeys * kLeastTiles);
  a.key_parts = static_cast<int>(std::clamp<std::int64_t>(divide_up(kRounds * places, blocks), 1, most));
  allow_shared_memory(weights_kernel<S>, S::kSharedBytes);
  weights_kernel<S><<<static_cast<unsigned>(blocks * a.key_parts), kWarps * 32, S::kSharedBytes, current_stream()>>>(a);
  check_launch("attention weights_kernel");
}

template <typename T, int kDim>
void launch_rules(const AttentionProblem& problem, WeightsArguments& a) {
  if (problem.weights == Weights::mean) return launch<WeightsShape<T, kDim, true, true>>(problem, a);
  if (is_general(problem)) return launch<WeightsShape<T, kDim, true, false>>(problem, a);
  return launch<WeightsShape<T, kDim, false, false>>(problem, a);
}

template <typename T>
void launch_all(const AttentionProblem& problem, WeightsArguments& a) {
  if (problem.head_dim <= 64) {
    launch_rules<T, 64>(problem, a);
  } else if (problem.head_dim <= 128) {
    launch_rules<T, 128>(problem, a);
  } else {
    launch_rules<T, 256>(problem, a);
  }
  const auto blocks = static_cast<unsigned>(a.tiles.count * a.planes);
  const std::size_t bytes = kWarps * static_cast<std::size_t>(a.call.heads / a.planes) * sizeof(LargeRow);
  large_rows_kernel<T><<<blocks, kWarps * 32, bytes, current_stream()>>>(a);
  check_launch("attention large_rows_kernel");
}

}  // namespace

bool tuned_weights(const AttentionProblem& problem, const AttentionResult& result) {
  if (!is_taken(problem)) return false;
  UploadedCall uploaded(problem);
  WeightsArguments a;
  a.call = uploaded.call();
  a.logsumexp = static_cast<const float*>(result.logsumexp.raw_data());
  a.weights = result.weights.raw_data();
  a.planes = problem.weights == Weights::mean ? 1 : problem.heads;
  a.tiles = uploaded.query_tiles(kQueries);
  a.is_aligned =
      !problem.packed && problem.key_length % 8 == 0 && reinterpret_cast<std::uintptr_t>(a.weights) % 16 == 0;
  if (problem.packed) {  // queries and keys of different sequences see nothing of each other
    const std::size_t bytes =
        static_cast<std::size_t>(result.weights.element_count()) * item_size(problem.query.dtype());
    check_cuda(cudaMemsetAsync(a.weights, 0, bytes, current_stream()), "cudaMemsetAsync");
  }
  if (a.tiles.count == 0) return true;
  if (problem.query.dtype() == DType::float16) {
    launch_all<__half>(problem, a);
  } else {
    launch_all<__nv_bfloat16>(problem, a);
  }
  return true;
}

}  // namespace headway::inline v0::internal::cuda
