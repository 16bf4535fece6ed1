// The float32 forward by warpgroup products of float16, three for each product as in hopper_halves.cuh.
//
// The inputs are split once, by a kernel of their own, into tiles as they lie in shared memory. A block owns some
// queries, 64 of each of its warpgroups, and goes through the keys that they see, 64 at a time, which one more thread
// brings:
//
//   for each tile of keys
//     S = Q K^T
//     P = exp(S - m)      (m: the largest score so far)
//     O = O * exp(old m - m) + P V
#include <new>

#include "cuda/float_forward.cuh"
#include "cuda/hopper_float_blocks.cuh"
#include "cuda/hopper_float_forward.h"
#include "cuda/hopper_float_products.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

// Three warpgroups, so that one's softmax is hidden behind the products of the others; whether there is dropout.
template <int kColumns, bool kDropout>
struct OwnShape : FloatShape<kColumns, 12, 1> {
  static constexpr bool kDrops = kDropout;
  static constexpr int kOwners = OwnShape::kWarps * 32;  // threads that own queries
  static constexpr int kGroups = kOwners / 128;
  static constexpr int kOwnerRegisters = 160, kBringerRegisters = 32;
};

// What the kernel takes.
template <int kDim>
struct OwnCall {
  FloatForward forward;
  HalfTiles<kDim, 1> queries;
  HalfTiles<kDim> keys;  // K and V
};

// One of the items that a block works on: queries of one head of one sequence, from `first` on.
struct OwnWork {
  int item, sequence, head, first;

  __device__ OwnWork(const FloatForward& a, int its_item) : item(its_item) {
    const std::int64_t index = item_index(item);
    // From the last to the first: under a causal mask the last have the most to do.
    const TilePlace place = a.tiles.at(a.tiles.count - 1 - index % a.tiles.count);
    sequence = static_cast<int>(place.sequence);
    head = static_cast<int>(index / a.tiles.count);
    first = static_cast<int>(place.first);
  }

  // Whether this block has so many items.
  static __device__ bool exists(const FloatForward& a, int item) {
    return item_index(item) < a.tiles.count * a.call.heads;
  }
};

// One block's shared memory.
template <class Shape>
struct alignas(1024) OwnTiles {
  HalfTile<Shape::kDim, 1> queries[Shape::kGroups];  // (warpgroup)
  HalfTile<Shape::kDim> keys[kTileStages];           // (stage): K and V
  TileBarriers<Shape::kWarps> barriers;
  alignas(OwnWork) unsigned char work[sizeof(OwnWork)];
  alignas(ForwardHead) unsigned char head[sizeof(ForwardHead)];
};

// The keys that the queries of a block see; the first is a multiple of kHalfRows.
template <class Shape>
__device__ KeyRange streamed_keys(const FloatRule& rule, int first_query) {
  const KeyRange some = Sight(rule, first_query, first_query + Shape::kRows).some;
  return {some.first / kHalfRows * kHalfRows, some.end};
}

// Brings everything that a block reads, by one thread.
template <class Shape>
__device__ void bring(const OwnCall<Shape::kDim>& a, OwnTiles<Shape>& shared) {
  constexpr int kQueryBytes = sizeof(shared.queries[0]), kKeyBytes = sizeof(shared.keys[0]);
  const AttentionCall& call = a.forward.call;
  int steps = 0;
  for (int item = 0; OwnWork::exists(a.forward, item); ++item) {
    const OwnWork work(a.forward, item);
    const Sequence s = call.sequence_at(work.sequence);
    const auto* queries = a.queries.at(work.sequence, s.batch, s.query_begin, work.head) + work.first / kHalfRows;
    const int rows = static_cast<int>(s.query_length) - work.first;
    const int count = min(Shape::kGroups, (rows + kHalfRows - 1) / kHalfRows);
    const std::uint32_t queries_full = shared_address(&shared.barriers.owned_full);
    barrier_wait(shared_address(&shared.barriers.owned_empty), item % 2 ^ 1);
    barrier_expect(queries_full, count * kQueryBytes);
    for (int i = 0; i < count; ++i) {
      bulk_load(shared_address(&shared.queries[i]), queries + i, kQueryBytes, queries_full);
    }
    const auto* keys = a.keys.at(work.sequence, s.batch, s.key_begin, work.head / call.group);
    const KeyRange range = streamed_keys<Shape>(FloatRule(call, work.sequence, work.head), work.first);
    for (int key = range.first; key < range.end; key += kHalfRows, ++steps) {
      const int stage = steps % kTileStages;
      const std::uint32_t full = shared_address(&shared.barriers.full[stage]);
      barrier_wait(shared_address(&shared.barriers.empty[stage]), steps / kTileStages % 2 ^ 1);
      barrier_expect(full, kKeyBytes);
      bulk_load(shared_address(&shared.keys[stage]), keys + key / kHalfRows, kKeyBytes, full);
    }
  }
}

// ---- one tile of keys ----

// Products of a warp's queries from `query` on and the keys from `key` on become scores in units of the queries:
// scaled, -infinity where not seen.
__device__ __forceinline__ void find_scores(const FloatRule& rule, const float (&key_units)[kHalfRows], int query,
                                            int key, float (&scores)[32]) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float unit[2];
    read_columns(key_units, n, unit);
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n * 4 + i] *= unit[i % 2] * rule.scale;
  }
  if (Sight(rule, query, query + 16).sees_all(key, key + kHalfRows)) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const KeyRange range = rule.seen_keys(query + fragment_row() + 8 * h);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& score = scores[i / 2 * 4 + 2 * h + i % 2];
      if (!range.has(key + i / 2 * 8 + fragment_column() * 2 + i % 2)) score = kMasked<float>;
    }
  }
}

// Weights with dropout, but for its scale, in units of V's rows.
template <bool kDrops>
__device__ __forceinline__ void find_weights(const FloatRule& rule, const float (&value_units)[kHalfRows], int query,
                                             int key, float (&weights)[32]) {
  if constexpr (kDrops) {
    const std::uint32_t kept = draw_kept<false>(rule, query, key);
#pragma unroll
    for (int i = 0; i < 32; ++i) weights[i] = kept >> i & 1u ? weights[i] : 0.f;
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float unit[2];
    read_columns(value_units, n, unit);
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[n * 4 + i] *= unit[i % 2];
  }
}

// ---- one item ----

// The outputs of a warp's 16 rows, in the order of FloatShape::write_rows.
template <class Shape>
using OutputSums = float[1][Shape::kColumnTiles][4];

// Adds the share of the keys of `range` to the outputs of the block's queries from `first_query` on. `steps`: made
// before these, and then with them.
template <class Shape>
__device__ __forceinline__ void add_keys(const FloatRule& rule, OwnTiles<Shape>& tiles, int first_query,
                                         const KeyRange& range, int& steps, FloatSoftmax<1>& softmax,
                                         OutputSums<Shape>& output) {
  constexpr int kDim = Shape::kDim;
  const int group = warps_value(static_cast<int>(threadIdx.x) / 128);
  const int group_row = first_query + group * kHalfRows, query = first_query + Shape::warp_row();
  const HalfTile<kDim, 1>& own = tiles.queries[group];
  OwnHigh<kDim> own_high;
  own_high.load(own, 0, Shape::warp_row() % kHalfRows);
  const float* own_units = own.units[0] + Shape::warp_row() % kHalfRows + fragment_row();
  const float units[2] = {own_units[0], own_units[8]};
  for (int key = range.first; key < range.end; key += kHalfRows, ++steps) {
    const int stage = steps % kTileStages;
    const HalfTile<kDim>& streamed = tiles.keys[stage];
    barrier_wait(shared_address(&tiles.barriers.full[stage]), steps / kTileStages % 2);
    if (Sight(rule, group_row, group_row + kHalfRows).sees_some(key, key + kHalfRows)) {
      float scores[32], factors[1][2];
      wgmma_fence();
      issue_scores<true>(scores, own, own_high, streamed, 0);
      wgmma_wait<0>();
      hold_sums(scores);
      find_scores(rule, streamed.units[0], query, key, scores);
      softmax.template add_tile<8>(
          0, [&](int n, int i) -> float& { return scores[n * 4 + i]; }, units, factors[0]);
      find_weights<Shape::kDrops>(rule, streamed.units[1], query, key, scores);
      StepSums<kDim> step;
      step.left.take(scores);
      wgmma_fence();
      step.issue(streamed, 1);
      wgmma_wait<0>();
      step.add_to(output, factors);
    }
    release(tiles.barriers.empty[stage]);
  }
}

// Finds and writes the outputs of a block's queries, by the threads that own them.
template <class Shape>
__device__ __forceinline__ void own(const FloatForward& a, OwnTiles<Shape>& tiles) {
  auto& head = *reinterpret_cast<ForwardHead*>(tiles.head);
  auto& work = *reinterpret_cast<OwnWork*>(tiles.work);
  int steps = 0;
  for (int item = 0; OwnWork::exists(a, item); item = work.item + 1) {
    named_sync(1, Shape::kOwners);  // the work before this
    if (threadIdx.x == 0) {
      new (&work) OwnWork(a, item);
      new (&head) ForwardHead(a, work.sequence, work.head);
    }
    named_sync(1, Shape::kOwners);
    FloatSoftmax<1> softmax;
    OutputSums<Shape> output = {};
    barrier_wait(shared_address(&tiles.barriers.owned_full), work.item % 2);
    add_keys(head.rule, tiles, work.first, streamed_keys<Shape>(head.rule, work.first), steps, softmax, output);
    release(tiles.barriers.owned_empty);

    const int query = work.first + Shape::warp_row();
    float factors[1][2];
    unsigned not_finite = 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      factors[0][h] = softmax.finish(0, h, head.sink) * head.rule.keep_scale;
      const int row = query + h * 8 + fragment_row();
      if (row >= head.output.count) continue;
      const float logsumexp = softmax.logsumexp(0, h);
      if (fragment_column() == 0) head.logsumexp[row] = logsumexp;
      if (isnan(logsumexp)) not_finite |= 1u << h;
    }
    not_finite |= Shape::write_rows(output, factors, head.output, query);
    Shape::repair_rows(not_finite, query, [&](int q) { repair_output(head, q); });
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kOwners + kBringers, 1)
    hopper_float_forward_kernel(const __grid_constant__ OwnCall<Shape::kDim> a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  auto& tiles = *reinterpret_cast<OwnTiles<Shape>*>(shared);
  tiles.barriers.init();
  __syncthreads();
  if (threadIdx.x >= Shape::kOwners) {
    registers_less<Shape::kBringerRegisters>();
    if (threadIdx.x == Shape::kOwners) bring<Shape>(a, tiles);
  } else {
    registers_more<Shape::kOwnerRegisters>();
    own<Shape>(a.forward, tiles);
  }
}

// ---- launches ----

template <class Shape>
void launch(UploadedCall& uploaded, FloatForward& a) {
  constexpr int kDim = Shape::kDim;
  a.tiles = uploaded.query_tiles(Shape::kRows);
  const std::int64_t count = a.tiles.count * a.call.heads;
  if (count == 0) return;
  FloatBackward inputs;
  inputs.call = a.call;
  const TileTable query_tiles = uploaded.query_tiles(kHalfRows), key_tiles = uploaded.key_tiles(kHalfRows);
  DeviceBuffer queries, keys;
  const OwnCall<kDim> call = {
      .forward = a,
      .queries = split_side<kDim, false, 1>(inputs, query_tiles, a.call.query_length, a.call.heads, queries),
      .keys = split_side<kDim, true>(inputs, key_tiles, a.call.key_length, a.call.kv_heads, keys)};
  launch_blocks(hopper_float_forward_kernel<Shape>,
                {"attention hopper_float_forward_kernel", count, Shape::kOwners + kBringers, sizeof(OwnTiles<Shape>)},
                call);
}

}  // namespace

void hopper_float_forward(const AttentionProblem& problem, UploadedCall& uploaded, FloatForward& forward) {
  const bool is_narrow = problem.head_dim <= 32 && problem.value_dim <= 32;
  if (problem.dropout.threshold != 0) {
    is_narrow ? launch<OwnShape<32, true>>(uploaded, forward) : launch<OwnShape<64, true>>(uploaded, forward);
  } else {
    is_narrow ? launch<OwnShape<32, false>>(uploaded, forward) : launch<OwnShape<64, false>>(uploaded, forward);
  }
}

}  // namespace headway::inline v0::internal::cuda
