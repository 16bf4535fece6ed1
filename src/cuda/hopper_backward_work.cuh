// The arguments of the Hopper backward's kernels, and which part of the work a block does.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "headway/dtype.h"

namespace headway::inline v0::internal::cuda {

constexpr int kBackwardRows = 64;  // queries of a tile
// Keys of a block.
constexpr int backward_keys(int dim) { return dim == 256 ? 64 : 128; }
constexpr int kBackwardFar = 1 << 30;  // a reach that has no limit; lengths and offsets are below 2^28

// One batch entry, or one sequence of a packed batch.
struct BackwardSequence {
  int query_begin, query_length;  // its rows of the queries
  int key_begin, key_length;      // its rows of the keys, padding included
  int key_count;                  // non-padding keys
  int query_offset;               // position of the first query among the keys
  int first_tile;                 // tiles of queries that come before it in its batch entry
};

// A tensor (batch, heads, rows, columns), columns contiguous and 16-byte aligned; strides in elements.
struct RowTensor {
  void* data = nullptr;
  std::int64_t stride[3] = {};
  int columns = 0;
};

// A boolean mask (batch, heads, query_length, key_length), strides in elements; null: none.
struct BackwardMask {
  const unsigned char* data;
  std::int64_t stride[4];
  bool true_keeps;
};

// What is added to the scores (batch, heads, query_length, key_length), strides in elements; null: nothing. Where
// the kernel is made for a bias alone there is a map over it without the batch entries and heads that are broadcast, and
// over one tile of rows where all are the same.
struct BackwardBias {
  const void* data;
  std::int64_t stride[4];
  DType dtype;  // float32, bfloat16 or float16
  CUtensorMap map;
};

// Where the gradient of the scores goes under BackwardRules::all: planes (query_length, key_length), one for each query
// head from `first` on, heads of all batch entries counted; null: nowhere.
struct BackwardPlanes {
  float* data;
  int first;
};

struct BackwardDropout {
  std::uint32_t threshold;  // in 1/65536; 0: none
  float scale;
  std::uint64_t seed;
};

// Tiles of queries are counted over all sequences of a batch entry: row_tiles of them, padded_rows rows.
struct BackwardParameters {
  CUtensorMap query, key, value, d_output, d_key, d_value;
  RowTensor d_key_rows, d_value_rows;  // where bulk copies would write over the next sequence
  const float* reference;              // (batch, heads, padded_rows): logsumexp * log2(e); +inf where P is 0
  const float* delta;                  // (batch, heads, padded_rows): sum(dO * O) - d_logsumexp
  const float* rest;                   // (batch, heads, padded_rows): what the reference is short of, or null
  float* d_query_sums;                 // (batch, heads, row_tiles, 2, dim / 16, 128, 4), in the order of accumulators
  int* turns;                          // (batch, heads, row_tiles): key blocks that have added to d_query_sums
  unsigned* ticket;                    // the next block's work
  const BackwardSequence* sequences;   // null where all are like `sequence`
  BackwardSequence sequence;
  int sequence_count;
  const int* tile_sequences;  // (row_tiles): whose tile it is; null: not packed
  const int2* packed_blocks;  // (key_blocks): sequence, and which of its blocks of keys; null: not packed
  int batch, heads, kv_heads, query_length, key_length;
  int row_tiles, padded_rows;
  int key_blocks;              // of one key head
  int first_head, head_count;  // key heads of this launch, those of all batch entries counted
  int left, right;             // how far a query sees, or kBackwardFar
  int section;                 // key heads that are worked on at the same time, so that L2 holds their queries
  float scale, scale_log2;
  float softcap;  // 0: none
  BackwardMask mask;
  BackwardBias bias;
  BackwardPlanes d_bias;
  const float* slopes;  // (sequences, heads) of ALiBi, or null
  BackwardDropout dropout;
};

// A block of keys of one key head, and the query tiles that see any of it. Keys, rows and tiles are counted inside the
// sequence.
struct BackwardWork {
  int sequence, batch, kv_head;
  int group;  // query heads that share the key head
  int key_block, key0;
  int seen_begin, seen_end;  // no query sees keys outside
  int query_begin, query_length, key_begin, key_length, query_offset;
  int tile_base;  // of the sequence, among the tiles of its batch entry
  int first_tile, end_tile;
  int tiles;  // of all query heads
};

__device__ inline BackwardSequence sequence_at(const BackwardParameters& p, int index) {
  return p.sequences == nullptr ? p.sequence : p.sequences[index];
}

// The keys that some query sees.
__device__ inline int first_seen_key(const BackwardParameters& p, const BackwardSequence& sequence) {
  return max(0, sequence.query_offset - p.left);
}
__device__ inline int end_of_seen_keys(const BackwardParameters& p, const BackwardSequence& sequence) {
  return max(0, min(sequence.key_count, sequence.query_length + sequence.query_offset + p.right));
}

// The work of a place in the order of blocks: heads in sections; key blocks ascend, so that a causal mask's longest
// come first and blocks that take turns wait only for earlier places.
template <int kKeys>
__device__ inline BackwardWork find_work(const BackwardParameters& p, int place) {
  const int per_section = p.section * p.key_blocks;
  const int section = place / per_section, rest = place - section * per_section;
  const int first_head = section * p.section, count = min(p.section, p.head_count - first_head);
  const int head = p.first_head + first_head + rest % count;
  BackwardWork work;
  work.batch = work.sequence = head / p.kv_heads;
  work.kv_head = head % p.kv_heads;
  work.group = p.heads / p.kv_heads;
  work.key_block = rest / count;
  if (p.packed_blocks != nullptr) {
    const int2 block = p.packed_blocks[rest / count];
    work.sequence = block.x;
    work.key_block = block.y;
  }
  const BackwardSequence sequence = sequence_at(p, work.sequence);
  work.key0 = work.key_block * kKeys;
  work.seen_begin = first_seen_key(p, sequence);
  work.seen_end = end_of_seen_keys(p, sequence);
  work.query_begin = sequence.query_begin;
  work.query_length = sequence.query_length;
  work.key_begin = sequence.key_begin;
  work.key_length = sequence.key_length;
  work.query_offset = sequence.query_offset;
  work.tile_base = sequence.first_tile;
  const int row_tiles = (sequence.query_length + kBackwardRows - 1) / kBackwardRows;
  const int last_key = min(work.key0 + kKeys, work.seen_end) - 1;
  const int first_row = max(0, work.key0 - work.query_offset - p.right);
  const int last_row = last_key + p.left - work.query_offset;
  work.first_tile = min(row_tiles, first_row / kBackwardRows);
  work.end_tile = last_row < 0 ? 0 : min(row_tiles, last_row / kBackwardRows + 1);
  const bool seen = work.key0 < work.seen_end && work.first_tile < work.end_tile;
  if (!seen) work.end_tile = work.first_tile;
  work.tiles = (work.end_tile - work.first_tile) * work.group;
  return work;
}

// How many key blocks add to a query tile's gradient before this one: those of earlier keys that the tile sees.
template <int kKeys>
__device__ inline int blocks_before(const BackwardParameters& p, const BackwardWork& work, int tile) {
  return work.key_block - max(0, tile * kBackwardRows + work.query_offset - p.left) / kKeys;
}

// Where a tile of the sequence lies among those of all heads and batch entries.
__device__ __forceinline__ std::int64_t tile_index(const BackwardParameters& p, const BackwardWork& work, int head,
                                                   int tile) {
  return (static_cast<std::int64_t>(work.batch) * p.heads + head) * p.row_tiles + work.tile_base + tile;
}

// Goes over a block's tiles: of one query head after the other, the last tile first, which all blocks of a causal mask
// have in common.
struct TileCursor {
  int head, tile, first_tile, end_tile;

  __device__ explicit TileCursor(const BackwardWork& work)
      : head(work.kv_head * work.group),
        tile(work.end_tile - 1),
        first_tile(work.first_tile),
        end_tile(work.end_tile) {}
  __device__ __forceinline__ void advance() {
    if (--tile < first_tile) {
      tile = end_tile - 1;
      ++head;
    }
  }
};

}  // namespace headway::inline v0::internal::cuda
