// float32 as two float16, for products with float32's accuracy at float16's speed.
//
// A row times a power of two, so that its largest number is near 2^14, is high + low: high has the first 11 bits of
// each number, low the 11 after them. Of the four products of two such sums, low * low is below float32's last bit and
// left out. The row's unit, which is one divided by that power of two, comes back after the product.
#pragma once

#include "cuda/float_backward.cuh"
#include "cuda/hopper_ptx.cuh"

namespace headway::inline v0::internal::cuda {

// A power of two and its inverse.
struct RowUnit {
  float factor, unit;

  // For a row whose largest magnitude this is. Beyond 2^105 numbers become infinite and their products NaN, which is
  // repaired; sums of smaller ones times a unit stay finite.
  __device__ __forceinline__ explicit RowUnit(float largest) {
    constexpr int kLeast = 41, kMost = 231, kTop = 14;  // exponents, the first two with their bias of 127
    const int exponent = min(max(static_cast<int>(__float_as_uint(largest) >> 23), kLeast), kMost);
    factor = __uint_as_float(static_cast<std::uint32_t>(254 + kTop - exponent) << 23);
    unit = __uint_as_float(static_cast<std::uint32_t>(exponent - kTop) << 23);
  }
};

// The two parts of two numbers, the first in the low half.
struct HalfPair {
  std::uint32_t high, low;

  __device__ __forceinline__ HalfPair(float first, float second) {
    high = pack<__half>(first, second);
    const float2 taken = __half22float2(*reinterpret_cast<const __half2*>(&high));
    low = pack<__half>(first - taken.x, second - taken.y);
  }
};

inline constexpr int kHalfRows = 64;  // of a tile

// Where a byte of a row lies among rows of 128 bytes in the 128-byte swizzle.
__device__ __forceinline__ int swizzled(int row, int byte) {
  return row * 128 + ((byte / 16 ^ row % 8) * 16 + byte % 16);
}

// 64 rows of one or two tensors and what is known of the rows, as the products take them: rows of 128 bytes in the
// 128-byte swizzle. With 64 columns the low parts follow the high ones' rows, with 32 they are the second half of each
// row.
template <int kDim, int kTensors = 2>
struct alignas(1024) HalfTile {
  static constexpr int kTensorBytes = kHalfRows * kDim * 4;
  static constexpr int kLowAt = kDim == 64 ? kHalfRows * 128 : 64;  // bytes from the high parts on
  static_assert(kDim == 64 || kDim == 32);

  unsigned char tensors[kTensors][kTensorBytes];  // Q and dO, Q, or K and V
  float units[kTensors][kHalfRows];               // of the rows of each; 0 past the last row
  float logsumexp[kHalfRows], delta[kHalfRows];   // of queries in the backward
};

// The tiles of all sequences and heads: (heads, per_head).
template <int kDim, int kTensors = 2>
struct HalfTiles {
  using Tile = HalfTile<kDim, kTensors>;

  Tile* tiles;
  std::int64_t per_head;
  std::int64_t length;  // of the tensors that were split

  // How many tiles a head needs at most.
  static std::int64_t count(std::int64_t batch, std::int64_t length, std::int64_t sequences) {
    return batch * length / kHalfRows + sequences;
  }

  // The first tile of a head of sequence `index`, whose rows begin at `begin`: those of other sequences are elsewhere.
  __device__ Tile* at(std::int64_t index, std::int64_t batch, std::int64_t begin, std::int64_t head) const {
    return tiles + head * per_head + (batch * length + begin) / kHalfRows + index;
  }
};

inline constexpr int kSplitThreads = 256;

// Splits rows [first, first + 64) of one tensor; kSplitThreads threads.
template <int kDim, int kTensors>
__device__ __forceinline__ void split_rows(HalfTile<kDim, kTensors>& target, int tensor, const FloatRows& rows,
                                           int first) {
  constexpr int kLanes = kDim / 4;  // threads of a row
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int r = static_cast<int>(threadIdx.x) / kLanes; r < kHalfRows; r += kSplitThreads / kLanes) {
    const bool is_row = first + r < rows.count;
    float4 x = {};
    if (is_row && lane * 4 < rows.columns) x = *reinterpret_cast<const float4*>(rows.at(first + r) + lane * 4);
    float largest = fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, offset));
    }
    const RowUnit unit(largest);
    const HalfPair front(x.x * unit.factor, x.y * unit.factor), back(x.z * unit.factor, x.w * unit.factor);
    constexpr int kLow = HalfTile<kDim>::kLowAt;
    const int high_at = swizzled(r, lane * 8);
    const int low_at = kDim == 64 ? high_at + kLow : swizzled(r, lane * 8 + kLow);
    *reinterpret_cast<uint2*>(target.tensors[tensor] + high_at) = {front.high, back.high};
    *reinterpret_cast<uint2*>(target.tensors[tensor] + low_at) = {front.low, back.low};
    if (lane == 0) target.units[tensor][r] = is_row ? unit.unit : 0.f;
  }
}

// Splits Q and dO, K and V, or Q alone; of `a` the call is enough but for dO.
template <int kDim, bool kKeys, int kTensors>
__global__ void __launch_bounds__(kSplitThreads)
    split_rows_kernel(const __grid_constant__ FloatBackward a, HalfTiles<kDim, kTensors> target, TileTable table) {
  const AttentionCall& call = a.call;
  const std::int64_t count = table.count * (kKeys ? call.kv_heads : call.heads);
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    const TilePlace place = table.at(work % table.count);
    const std::int64_t head = work / table.count;
    const Sequence s = call.sequence_at(place.sequence);
    const std::int64_t begin = kKeys ? s.key_begin : s.query_begin, rows = kKeys ? s.key_count : s.query_length;
    const int first = static_cast<int>(place.first);
    HalfTile<kDim, kTensors>& tile = target.at(place.sequence, s.batch, begin, head)[place.first / kHalfRows];
    const HeadRows& one = kKeys ? call.key : call.query;
    split_rows(tile, 0, float_rows(one, s.batch, head, begin, rows, call.head_dim), first);
    if constexpr (kTensors == 2) {
      const HeadRows& other = kKeys ? call.value : a.d_output;
      split_rows(tile, 1, float_rows(other, s.batch, head, begin, rows, call.value_dim), first);
    }
    if (kKeys || kTensors == 1 || threadIdx.x >= kHalfRows) continue;
    const std::int64_t row = place.first + threadIdx.x, at = call.first_row(s, head) + row;
    tile.logsumexp[threadIdx.x] = row < rows ? a.logsumexp[at] : 0.f;
    tile.delta[threadIdx.x] = row < rows ? a.delta[at] : 0.f;
  }
}

// Splits the rows of one side into `memory`; `length` and `heads` are those of its tensors.
template <int kDim, bool kKeys, int kTensors = 2>
HalfTiles<kDim, kTensors> split_side(const FloatBackward& a, const TileTable& table, std::int64_t length,
                                     std::int64_t heads, DeviceBuffer& memory) {
  using Tiles = HalfTiles<kDim, kTensors>;
  Tiles tiles = {
      .tiles = nullptr, .per_head = Tiles::count(a.call.batch, length, a.call.sequence_count), .length = length};
  memory = DeviceBuffer(static_cast<std::size_t>(tiles.per_head * heads) * sizeof(typename Tiles::Tile));
  tiles.tiles = memory.as<typename Tiles::Tile>();
  if (const std::int64_t count = table.count * heads; count > 0) {
    split_rows_kernel<kDim, kKeys, kTensors>
        <<<grid_for(count, 1), kSplitThreads, 0, current_stream()>>>(a, tiles, table);
    check_launch("attention split_rows_kernel");
  }
  return tiles;
}

}  // namespace headway::inline v0::internal::cuda
