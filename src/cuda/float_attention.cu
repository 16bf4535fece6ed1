// The forward in float32 on tensor cores: a warp has 16 or 32 queries of one head, and the block goes through the keys
// that they see, 32 at a time, the next ones being copied meanwhile.
//
//   for each tile of keys
//     S = Q K^T
//     P = exp(S - m)      (m: the largest score so far)
//     O = O * exp(old m - m) + P V
#include <new>

#include "cuda/float_attention.h"
#include "cuda/float_score.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

struct FloatForward {
  AttentionCall call;
  HeadRows output;             // (batch, heads, query_length, value_dim)
  float* logsumexp = nullptr;  // (batch, heads, query_length)
  TileTable tiles;             // of the queries
};

// What one head of one sequence reads and writes.
struct ForwardHead {
  FloatRule rule;
  FloatRows queries, keys, values;  // (query_length, head_dim), (key_count, head_dim), (key_count, value_dim)
  FloatRows output;                 // (query_length, value_dim)
  float* logsumexp;                 // (query_length)
  float sink;                       // -infinity: none

  __device__ ForwardHead(const FloatForward& a, std::int64_t index, std::int64_t head) : rule(a.call, index, head) {
    const AttentionCall& call = a.call;
    const Sequence s = call.sequence_at(index);
    const std::int64_t kv_head = head / call.group;
    queries = float_rows(call.query, s.batch, head, s.query_begin, s.query_length, call.head_dim);
    keys = float_rows(call.key, s.batch, kv_head, s.key_begin, s.key_count, call.head_dim);
    values = float_rows(call.value, s.batch, kv_head, s.key_begin, s.key_count, call.value_dim);
    output = float_rows(a.output, s.batch, head, s.query_begin, s.query_length, call.value_dim);
    logsumexp = a.logsumexp + call.first_row(s, head);
    sink = call.sinks ? static_cast<float>(call.sinks[head]) : kMasked<float>;
  }
};

// The tiles of one block in shared memory.
template <typename Shape>
struct ForwardTiles {
  float query[Shape::kOwned];        // (kRows, kStride)
  float key[2][Shape::kStreamed];    // (stages, kDepth, kStride)
  float value[2][Shape::kStreamed];  // likewise
  alignas(ForwardHead) unsigned char head[sizeof(ForwardHead)];
};

// The softmax of this thread's rows r and r + 8 of each tile. P = 2^(score * log2e - shift).
template <int kTiles>
struct FloatSoftmax {
  float maximum[kTiles][2];  // the largest score; -infinity before the first
  float shift[kTiles][2];    // maximum * log2e, rounded; 0 before the first score
  float sum[kTiles][2];      // of P, over this thread's columns until finish()

  __device__ FloatSoftmax() {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        maximum[m][h] = kMasked<float>;
        shift[m][h] = sum[m][h] = 0.f;
      }
    }
  }

  // A new largest score for one row; returns what was summed before has to be multiplied by.
  __device__ float raise(int m, int h, float largest) {
    if (!(largest > maximum[m][h])) return 1.f;
    const float next = largest * kLog2E;
    const float factor = maximum[m][h] == kMasked<float> ? 0.f : power_of_two(shift[m][h] - next);
    maximum[m][h] = largest;
    shift[m][h] = next;
    sum[m][h] *= factor;
    return factor;
  }

  // Scores become P. NaN is never the maximum, and shows through its own exponential.
  __device__ void add(float (&scores)[kTiles][kSteps][4], float (&factors)[kTiles][2]) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float largest = kMasked<float>;
#pragma unroll
        for (int n = 0; n < kSteps; ++n) {
          largest = fmaxf(largest, fmaxf(scores[m][n][2 * h], scores[m][n][2 * h + 1]));
        }
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
        factors[m][h] = raise(m, h, largest);
#pragma unroll
        for (int n = 0; n < kSteps; ++n) {
#pragma unroll
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            scores[m][n][i] = power_of_two(fmaf(scores[m][n][i], kLog2E, -shift[m][h]));
            sum[m][h] += scores[m][n][i];
          }
        }
      }
    }
  }

  // Ends a row, with one more score that has no value behind it. Returns what its output has to be multiplied by.
  __device__ float finish(int m, int h, float sink) {
    float total = sum[m][h];
    total += __shfl_xor_sync(0xFFFFFFFFu, total, 1);
    total += __shfl_xor_sync(0xFFFFFFFFu, total, 2);
    sum[m][h] = total;
    const float factor = raise(m, h, sink);
    if (sink != kMasked<float>) sum[m][h] += power_of_two(fmaf(sink, kLog2E, -shift[m][h]));
    return sum[m][h] == 0.f ? 0.f : factor / sum[m][h];
  }

  // The logarithm of the sum of exp(score), with what rounding took from the shift.
  __device__ float logsumexp(int m, int h) const {
    if (sum[m][h] == 0.f) return kMasked<float>;
    const float lost = fmaf(maximum[m][h], kLog2E, -shift[m][h]);
    return maximum[m][h] + (logf(sum[m][h]) - lost * kLn2);
  }
};

// One row by one warp, key by key, so that what it does not see is never touched.
__device__ __noinline__ void repair_output(const ForwardHead& head, int q) {
  WarpRow output;
  float maximum = kMasked<float>, sum = 0;
  // One more score; P of it, with all that was summed before brought to the new maximum.
  const auto add_score = [&](float score) {
    const float largest = score > maximum ? score : maximum;
    const float factor = sum == 0.f ? 0.f : expf(maximum - largest), p = expf(score - largest);
    maximum = largest;
    sum = sum * factor + p;
    output.scale(factor);
    return p;
  };
  const KeyRange seen = head.rule.seen_keys(q);
  for (int k = seen.first; k < seen.end; ++k) {
    const float score = row_product(head.queries.at(q), head.keys.at(k), head.keys.columns) * head.rule.scale;
    if (score == kMasked<float>) continue;
    const float p = add_score(score);
    if (head.rule.keeps_weight(q, k)) output.add(p, head.values.at(k), head.values.columns);
  }
  if (head.sink != kMasked<float>) add_score(head.sink);
  output.write(sum == 0.f ? 0.f : head.rule.keep_scale / sum, head.output.at(q), head.output.columns);
  if (threadIdx.x % 32 == 0) head.logsumexp[q] = sum == 0.f ? kMasked<float> : maximum + logf(sum);
}

// The scores of a warp's queries from `query` on and the tile of keys at `key`: scaled, -infinity where not seen.
template <int kTiles>
__device__ void mask_scores(const FloatRule& rule, const Sight& sight, int query, int key,
                            float (&scores)[kTiles][kSteps][4]) {
  const bool all = sight.sees_all(key, key + kDepth);
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      KeyRange range;
      if (!all) range = rule.seen_keys(query + m * 16 + h * 8 + fragment_row());
#pragma unroll
      for (int n = 0; n < kSteps; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[m][n][2 * h + i];
          score *= rule.scale;
          if (!all && !range.has(key + n * 8 + fragment_column() * 2 + i)) score = kMasked<float>;
        }
      }
    }
  }
}

// Sets the weights to 0 that dropout drops; the others are scaled at the end, all at once.
template <int kTiles>
__device__ void drop_weights(const FloatRule& rule, int query, int key, float (&weights)[kTiles][kSteps][4]) {
  if (rule.threshold == 0) return;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kSteps; n += 2) {
      const auto words = rule.draw_words(query + m * 16 + fragment_row(), key + n * 8 + fragment_column() * 2);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const std::size_t word = static_cast<std::size_t>(i % 4 / 2 * 2 + i / 4);
        if (!rule.keeps(words[word], i % 2 != 0)) weights[m][n + i / 4][i % 4] = 0.f;
      }
    }
  }
}

template <typename Shape>
__device__ void forward_tile(const ForwardHead& head, ForwardTiles<Shape>& tiles, int first_query) {
  constexpr int kTiles = Shape::kTiles;
  const FloatRule& rule = head.rule;
  const KeyRange seen = Sight(rule, first_query, first_query + Shape::kRows).some;
  const int query = first_query + Shape::warp_row();
  const Sight sight(rule, query, query + Shape::kWarpRows);
  const auto copy_keys = [&](int key, int stage) {
    if (key < seen.end) {
      Shape::template copy_rows<kDepth>(tiles.key[stage], head.keys, key);
      Shape::template copy_rows<kDepth>(tiles.value[stage], head.values, key);
    }
    close_copies();
  };

  FloatSoftmax<kTiles> softmax;
  float output[kTiles][Shape::kColumnTiles][4] = {};
  Shape::template copy_rows<Shape::kRows>(tiles.query, head.queries, first_query);
  const int first_key = seen.first / kDepth * kDepth;
  copy_keys(first_key, 0);
  int stage = 0;
  for (int key = first_key; key < seen.end; key += kDepth, stage ^= 1) {
    copy_keys(key + kDepth, stage ^ 1);
    wait_for_copies<1>();
    __syncthreads();
    if (sight.sees_some(key, key + kDepth)) {
      float scores[kTiles][kSteps][4], factors[kTiles][2];
      Shape::score(scores, tiles.query, tiles.key[stage]);
      mask_scores(rule, sight, query, key, scores);
      softmax.add(scores, factors);
      drop_weights(rule, query, key, scores);
      Shape::accumulate(output, factors, scores, tiles.value[stage]);
    }
    __syncthreads();
  }
  wait_for_copies<0>();

  float factors[kTiles][2];
  unsigned not_finite = 0;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      factors[m][h] = softmax.finish(m, h, head.sink) * rule.keep_scale;
      const int row = query + m * 16 + h * 8 + fragment_row();
      if (row >= head.output.count) continue;
      const float logsumexp = softmax.logsumexp(m, h);
      if (fragment_column() == 0) head.logsumexp[row] = logsumexp;
      if (isnan(logsumexp)) not_finite |= 1u << (2 * m + h);
    }
  }
  not_finite |= Shape::write_rows(output, factors, head.output, query);
  Shape::repair_rows(not_finite, query, [&](int q) { repair_output(head, q); });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    float_forward_kernel(const __grid_constant__ FloatForward a) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto& tiles = *reinterpret_cast<ForwardTiles<Shape>*>(shared);
  const std::int64_t count = a.tiles.count * a.call.heads;
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    // From the last to the first: under a causal mask the last have the most to do.
    const TilePlace place = a.tiles.at(a.tiles.count - 1 - work % a.tiles.count);
    auto* head = reinterpret_cast<ForwardHead*>(tiles.head);
    if (threadIdx.x == 0) new (head) ForwardHead(a, place.sequence, work / a.tiles.count);
    __syncthreads();
    forward_tile<Shape>(*head, tiles, static_cast<int>(place.first));
    __syncthreads();
  }
}

template <typename Shape>
void launch_forward(UploadedCall& uploaded, FloatForward& a) {
  a.tiles = uploaded.query_tiles(Shape::kRows);
  const std::int64_t count = a.tiles.count * a.call.heads;
  if (count == 0) return;
  constexpr std::size_t kBytes = sizeof(ForwardTiles<Shape>);
  allow_shared_memory(float_forward_kernel<Shape>, kBytes);
  float_forward_kernel<Shape><<<grid_for(count, 1), Shape::kThreads, kBytes, current_stream()>>>(a);
  check_launch("attention float_forward_kernel");
}

}  // namespace

bool float_attention(const AttentionProblem& problem, AttentionResult& result) {
  if (!is_for_tensor_cores(problem) || !has_vectors(result.output)) return false;
  bool is_taken = true;
  dispatch_columns(problem, [&]<int kDim>() {
    const auto launch = [&]<typename Shape>() {
      UploadedCall uploaded(problem);
      FloatForward a;
      a.call = uploaded.call();
      a.output = head_rows(result.output);
      a.logsumexp = static_cast<float*>(result.logsumexp.raw_data());
      launch_forward<Shape>(uploaded, a);
    };
    constexpr bool kNarrow = kDim <= 64;
    is_taken = dispatch_rows < kDim, kNarrow ? 2 : 4, kNarrow ? 2 : 1,
    ForwardTiles > (problem, longest_queries(problem), problem.heads, launch);
  });
  return is_taken;
}

}  // namespace headway::inline v0::internal::cuda
