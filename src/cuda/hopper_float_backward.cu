// The float32 backward by warpgroup products of float16, three for each product as in hopper_halves.cuh, without
// atomics.
//
// The inputs are split once, by a kernel of their own, into tiles as they lie in shared memory. A block owns some rows,
// 64 of each of its warpgroups, and goes through the other side's rows, 64 at a time, which one more thread brings. It
// owns queries in one kernel and keys in the other:
//
//   owned       streamed      scores                        gradients
//   Q, dO       K, V          S = Q K^T,   dP = dO V^T      dQ += dS K
//   K, V        Q, dO         S^T = K Q^T, dP^T = V dO^T    dK += dS^T Q, dV += P^T dO
#include <new>

#include "cuda/hopper_float_backward.h"
#include "cuda/hopper_float_blocks.cuh"
#include "cuda/hopper_float_products.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

// Which side a block owns, and the columns, padded. With few columns there are registers for a third warpgroup.
template <int kColumns, bool kOwnsKeys>
struct PassShape : FloatShape<kColumns, kColumns == 64 ? 8 : 12, 1> {
  static constexpr bool kKeys = kOwnsKeys;
  static constexpr int kOwners = PassShape::kWarps * 32;  // threads that own rows
  static constexpr int kGroups = kOwners / 128;
  static constexpr bool kOwnInRegisters = kColumns == 64;
  static constexpr int kOwnerRegisters = kGroups == 2 ? 240 : 160, kBringerRegisters = kGroups == 2 ? 24 : 32;
};

// One of the items that a block works on: rows of one sequence from `first` on, of the head `own_head` of their side,
// beside the rows of the query heads [first_head, end_head).
template <class Shape>
struct PassWork {
  int item, sequence, own_head, first_head, end_head, first;

  __device__ PassWork(const FloatBackward& a, int its_item) : item(its_item) {
    const TileTable& table = table_of(a);
    const std::int64_t index = item_index(item), tile = index % table.count;
    // Queries from the last to the first: under a causal mask the last have the most to do.
    const TilePlace place = table.at(Shape::kKeys ? tile : table.count - 1 - tile);
    const int group = Shape::kKeys ? static_cast<int>(a.call.group) : 1;
    sequence = static_cast<int>(place.sequence);
    own_head = static_cast<int>(index / table.count);
    first_head = own_head * group;
    end_head = first_head + group;
    first = static_cast<int>(place.first);
  }

  // Whether this block has so many items.
  static __device__ bool exists(const FloatBackward& a, int item) {
    return item_index(item) < table_of(a).count * (Shape::kKeys ? a.call.kv_heads : a.call.heads);
  }
  static __device__ const TileTable& table_of(const FloatBackward& a) {
    return Shape::kKeys ? a.key_tiles : a.query_tiles;
  }
};

// One block's shared memory.
template <class Shape>
struct alignas(1024) PassTiles {
  HalfTile<Shape::kDim> owned[Shape::kGroups];  // (warpgroup)
  HalfTile<Shape::kDim> streamed[kTileStages];  // (stage)
  TileBarriers<Shape::kWarps> barriers;
  alignas(PassWork<Shape>) unsigned char work[sizeof(PassWork<Shape>)];
  alignas(FloatBackwardHead) unsigned char head[sizeof(FloatBackwardHead)];
};

// What both kernels take.
template <int kDim>
struct PassCall {
  FloatBackward backward;
  HalfTiles<kDim> queries, keys;  // Q and dO, K and V
};

// One gradient of the block's rows: this warp's 16 in the order of FloatShape::write_rows.
template <class Shape>
using GradientSums = float[1][Shape::kColumnTiles][4];

// ---- one head ----

// Brings the tiles of rows [first, end), by one thread. `tiles` are those of the head's sequence, `steps` are counted
// on.
template <class Shape>
__device__ void bring_rows(PassTiles<Shape>& shared, const HalfTile<Shape::kDim>* tiles, int first, int end,
                           int& steps) {
  constexpr int kBytes = sizeof(HalfTile<Shape::kDim>);
  for (int row = first; row < end; row += kHalfRows, ++steps) {
    const int stage = steps % kTileStages;
    barrier_wait(shared_address(&shared.barriers.empty[stage]), steps / kTileStages % 2 ^ 1);
    barrier_expect(shared_address(&shared.barriers.full[stage]), kBytes);
    bulk_load(shared_address(&shared.streamed[stage]), tiles + row / kHalfRows, kBytes,
              shared_address(&shared.barriers.full[stage]));
  }
}

// Brings the block's own tiles from row `first` on, of `rows` in all, by one thread.
template <class Shape>
__device__ void bring_owned(PassTiles<Shape>& shared, const HalfTile<Shape::kDim>* tiles, int first, int rows) {
  constexpr int kBytes = sizeof(HalfTile<Shape::kDim>);
  const int count = min(Shape::kGroups, (rows - first + kHalfRows - 1) / kHalfRows);
  barrier_expect(shared_address(&shared.barriers.owned_full), count * kBytes);
  for (int i = 0; i < count; ++i) {
    bulk_load(shared_address(&shared.owned[i]), tiles + first / kHalfRows + i, kBytes,
              shared_address(&shared.barriers.owned_full));
  }
}

// Adds the share of the streamed rows [first, end) of one query head to the gradients of the rows from `owned` on.
// `first_sums`: dQ or dK, `second_sums`: dV, where the block owns keys. `steps`: made before these, and then with them.
template <class Shape>
__device__ __forceinline__ void add_rows(const FloatRule& rule, PassTiles<Shape>& tiles, int owned, int first, int end,
                                         int& steps, GradientSums<Shape>& first_sums,
                                         GradientSums<Shape>& second_sums) {
  constexpr int kDim = Shape::kDim;
  const int group = warps_value(static_cast<int>(threadIdx.x) / 128);
  const int warp_row = owned + Shape::warp_row(), group_row = owned + group * kHalfRows;
  const HalfTile<kDim>& own = tiles.owned[group];
  OwnHigh<kDim> own_high[2];
  if constexpr (Shape::kOwnInRegisters) {
    own_high[0].load(own, 0, Shape::warp_row() % kHalfRows);
    own_high[1].load(own, 1, Shape::warp_row() % kHalfRows);
  }
  for (int row = first; row < end; row += kHalfRows, ++steps) {
    const int stage = steps % kTileStages;
    const HalfTile<kDim>& streamed = tiles.streamed[stage];
    const bool is_seen = Shape::kKeys ? Sight(rule, row, row + kHalfRows).sees_some(group_row, group_row + kHalfRows)
                                      : Sight(rule, group_row, group_row + kHalfRows).sees_some(row, row + kHalfRows);
    barrier_wait(shared_address(&tiles.barriers.full[stage]), steps / kTileStages % 2);
    if (is_seen) {
      float weights[32], d_scores[32];
      wgmma_fence();
      issue_scores<Shape::kOwnInRegisters>(weights, own, own_high[0], streamed, 0);
      issue_scores<Shape::kOwnInRegisters>(d_scores, own, own_high[1], streamed, 1);
      const ScoreRows<Shape::kKeys> rows(own.units, own.logsumexp, own.delta, Shape::warp_row() % kHalfRows);
      const ScoreTile<Shape::kKeys> scores(rule, rows, warp_row, row);
      wgmma_wait<1>();
      hold_sums(weights);
      scores.find_weights(streamed.units, streamed.logsumexp, weights);
      wgmma_wait<0>();
      hold_sums(d_scores);
      scores.find_d_scores(streamed.units, streamed.delta, weights, d_scores);
      StepSums<kDim> first_step, second_step;
      first_step.left.take(d_scores);
      wgmma_fence();
      first_step.issue(streamed, 0);
      if constexpr (Shape::kKeys) {
        scores.take_weights(streamed.units, weights, second_step.left);
        wgmma_fence();
        second_step.issue(streamed, 1);
        wgmma_wait<1>();
        first_step.add_to(first_sums);
        wgmma_wait<0>();
        second_step.add_to(second_sums);
      } else {
        wgmma_wait<0>();
        first_step.add_to(first_sums);
      }
    }
    release(tiles.barriers.empty[stage]);
  }
}

// ---- kernels ----

// The streamed rows [first, end) that have to do with a block's rows; first is a multiple of kHalfRows.
template <class Shape>
struct StreamedRange {
  int first, end;

  __device__ StreamedRange(const FloatRule& rule, int owned) {
    if constexpr (Shape::kKeys) {
      const QueryRange queries(rule, owned, owned + Shape::kRows);
      first = queries.first / kHalfRows * kHalfRows;
      end = queries.end;
    } else {
      const KeyRange keys = Sight(rule, owned, owned + Shape::kRows).some;
      first = keys.first / kHalfRows * kHalfRows;
      end = keys.end;
    }
  }
};

// Brings everything that a block reads, by one thread.
template <class Shape>
__device__ void bring(const PassCall<Shape::kDim>& a, PassTiles<Shape>& tiles) {
  const AttentionCall& call = a.backward.call;
  int steps = 0;
  for (int item = 0; PassWork<Shape>::exists(a.backward, item); ++item) {
    const PassWork<Shape> work(a.backward, item);
    const Sequence s = call.sequence_at(work.sequence);
    barrier_wait(shared_address(&tiles.barriers.owned_empty), item % 2 ^ 1);
    if constexpr (Shape::kKeys) {
      bring_owned(tiles, a.keys.at(work.sequence, s.batch, s.key_begin, work.own_head), work.first, s.key_length);
    } else {
      bring_owned(tiles, a.queries.at(work.sequence, s.batch, s.query_begin, work.own_head), work.first,
                  s.query_length);
    }
    for (int head = work.first_head; head < work.end_head; ++head) {
      const StreamedRange<Shape> range(FloatRule(call, work.sequence, head), work.first);
      const auto* streamed = Shape::kKeys ? a.queries.at(work.sequence, s.batch, s.query_begin, head)
                                          : a.keys.at(work.sequence, s.batch, s.key_begin, head / call.group);
      bring_rows(tiles, streamed, range.first, range.end, steps);
    }
  }
}

// Finds and writes the gradients of a block's rows, by the threads that own them.
template <class Shape>
__device__ __forceinline__ void own(const PassCall<Shape::kDim>& a, PassTiles<Shape>& tiles) {
  auto& head = *reinterpret_cast<FloatBackwardHead*>(tiles.head);
  auto& work = *reinterpret_cast<PassWork<Shape>*>(tiles.work);
  int steps = 0;
  for (int item = 0; PassWork<Shape>::exists(a.backward, item); item = work.item + 1) {
    named_sync(1, Shape::kOwners);  // the work before this
    if (threadIdx.x == 0) new (&work) PassWork<Shape>(a.backward, item);
    named_sync(1, Shape::kOwners);
    GradientSums<Shape> first_sums = {}, second_sums = {};
    for (int h = work.first_head; h < work.end_head; ++h) {
      named_sync(1, Shape::kOwners);  // the head before this one
      if (threadIdx.x == 0) new (&head) FloatBackwardHead(a.backward, work.sequence, h);
      named_sync(1, Shape::kOwners);
      if (h == work.first_head) barrier_wait(shared_address(&tiles.barriers.owned_full), work.item % 2);
      const StreamedRange<Shape> range(head.rule, work.first);
      add_rows(head.rule, tiles, work.first, range.first, range.end, steps, first_sums, second_sums);
    }
    release(tiles.barriers.owned_empty);
    const int row = work.first + Shape::warp_row();
    const float scales[1][2] = {{head.rule.scale, head.rule.scale}}, ones[1][2] = {{1.f, 1.f}};
    if constexpr (Shape::kKeys) {
      const unsigned not_finite = Shape::write_rows(first_sums, scales, head.d_keys, row) |
                                  Shape::write_rows(second_sums, ones, head.d_values, row);
      Shape::repair_rows(not_finite, row, [&](int k) { repair_d_key(a.backward, work.sequence, work.own_head, k); });
    } else {
      const unsigned not_finite = Shape::write_rows(first_sums, scales, head.d_queries, row);
      Shape::repair_rows(not_finite, row, [&](int q) { repair_d_query(head, q); });
    }
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kOwners + kBringers, 1)
    hopper_float_backward_kernel(const __grid_constant__ PassCall<Shape::kDim> a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  auto& tiles = *reinterpret_cast<PassTiles<Shape>*>(shared);
  tiles.barriers.init();
  __syncthreads();
  if (threadIdx.x >= Shape::kOwners) {
    registers_less<Shape::kBringerRegisters>();
    if (threadIdx.x == Shape::kOwners) bring<Shape>(a, tiles);
  } else {
    registers_more<Shape::kOwnerRegisters>();
    own<Shape>(a, tiles);
  }
}

// ---- launches ----

// Starts one of the two kernels for so many tiles of rows.
template <class Shape>
void run(const PassCall<Shape::kDim>& pass, std::int64_t count) {
  launch_blocks(hopper_float_backward_kernel<Shape>,
                {"attention hopper_float_backward_kernel", count, Shape::kOwners + kBringers, sizeof(PassTiles<Shape>)},
                pass);
}

template <int kDim>
void launch(UploadedCall& uploaded, FloatBackward& a) {
  using Queries = PassShape<kDim, false>;
  using Keys = PassShape<kDim, true>;
  a.query_tiles = uploaded.query_tiles(Queries::kRows);
  a.key_tiles = uploaded.key_tiles(Keys::kRows);
  DeviceBuffer queries, keys;
  const PassCall<kDim> pass = {
      .backward = a,
      .queries =
          split_side<kDim, false>(a, uploaded.query_tiles(kHalfRows), a.call.query_length, a.call.heads, queries),
      .keys = split_side<kDim, true>(a, uploaded.key_tiles(kHalfRows), a.call.key_length, a.call.kv_heads, keys)};
  run<Keys>(pass, a.key_tiles.count * a.call.kv_heads);
  run<Queries>(pass, a.query_tiles.count * a.call.heads);
}

}  // namespace

void hopper_float_backward(const AttentionProblem& problem, UploadedCall& uploaded, FloatBackward& backward) {
  if (problem.head_dim <= 32 && problem.value_dim <= 32) {
    launch<32>(uploaded, backward);
  } else {
    launch<64>(uploaded, backward);
  }
}

}  // namespace headway::inline v0::internal::cuda
