// What a block of threads works on: the kernel's arguments, its shared memory, and the order of the tiles.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "cuda/attention_call.h"
#include "cuda/hopper_maps.h"
#include "cuda/hopper_ptx.cuh"
#include "cuda/hopper_tiles.h"

namespace headway::inline v0::internal::cuda {

inline constexpr int kNoLimit = 1 << 29;  // beyond every length

// A sequence in 32 bits. Query q sees keys max(0, q + low) .. min(key_count - 1, q + high).
struct alignas(16) HopperSequence {
  int query_begin = 0, query_length = 0;
  int key_begin = 0, key_count = 0;
  int low = 0, high = 0;
  int query_offset = 0;
};

// Scores' planes and numbers of the rules that are not limits.
struct ScoreOptions {
  ScorePlane mask, bias;
  bool mask_true_keeps = true;
  bool bias_is_float = false;  // else of the elements' type
  float inverse_scale = 1;
  float inverse_softcap = 0, softcap_log2 = 0;  // 1 / softcap, softcap * log2(e); 0: none
  const double* alibi_slopes = nullptr;         // (sequences, heads), or null
  std::uint32_t dropout_threshold = 0;
  std::uint32_t dropout_addend = 0;  // twice in 16 bits: the threshold, or it less 2^15, taken from 2^15
  std::uint32_t dropout_either = 0;  // all bits where the threshold is at most 2^15, else none
  float dropout_scale = 1;
  uint2 dropout_keys[7] = {};  // of the generator's rounds
};

struct ForwardParams {
  HopperMap query, key, value, output;
  HeadRows output_rows;  // (batch, heads, query_length, value_dim)
  float* logsumexp;      // (batch, heads, query_length)
  const double* sinks;   // (heads), or null
  unsigned* counter;     // tiles taken beyond the first of each block, 0 again at the end; null: there are none
  unsigned* not_finite;  // set where an output is not
  int tiles;
  int query_length, key_length;  // of the tensors
  int value_dim, heads, group;
  int section;               // heads that are worked on together, so that their keys and values stay in the L2 cache
  int row_tiles;             // of a batch entry
  const int2* packed_tiles;  // (tiles / heads): sequence and first row; null: not packed
  const HopperSequence* sequences;  // null: all are like `sequence`
  HopperSequence sequence;
  ScoreOptions options;
  float scale_log2;  // scale * log2(e)
};

// Sizes of one kernel.
template <typename T, int kDimension, int kRuleSet, bool kShort>
struct ForwardShape {
  using Element = T;
  static constexpr ForwardTile kTile = forward_tile(kDimension, kRuleSet, kShort);
  static constexpr int kDim = kDimension, kChunks = (kDim + 63) / 64;
  static constexpr int kGroups = kTile.groups, kKeys = kTile.keys, kStages = kTile.stages;
  static constexpr int kRows = 64 * kGroups;
  static constexpr bool kShareOutput = kTile.share_output;
  static constexpr bool kLimits = kRuleSet & rules::kLimits, kBias = kRuleSet & rules::kBias;
  static constexpr bool kMask = kRuleSet & rules::kMask, kDropout = kRuleSet & rules::kDropout;
  static constexpr bool kScores = kRuleSet & rules::kScores;
  static constexpr int kThreads = 128 * (kGroups + 1);
  // Warpgroups take turns at the tensor cores, but for dropout alone: its draws take so long that they keep apart.
  static constexpr bool kTurns = kRuleSet != (rules::kLimits | rules::kDropout);
  static constexpr bool kInBase2 = kScores;  // scores are scaled before the softmax, not by it
  // Bytes of a warpgroup's queries and of a block of keys: [chunk][row][128].
  static constexpr int kQueryBytes = kChunks * 64 * 128, kKeyBytes = kChunks * kKeys * 128;
  static constexpr int kQuery = 0, kOutput = kShareOutput ? kQuery : kQuery + kGroups * kQueryBytes;
  static constexpr int kKey = kOutput + kGroups * kQueryBytes, kValue = kKey + kStages * kKeyBytes;
  static constexpr int kBarriers = kValue + kStages * kKeyBytes;
  static constexpr int kBiasMemory = kBarriers + 512;  // (warps, 16 rows, keys) of 16 bits
  static constexpr int kBiasBytes = kBias && !kMask ? kGroups * 64 * 2 * kKeys : 0;
  static constexpr int kBytes = kBiasMemory + kBiasBytes + 1024;  // the start is rounded up to 1024
  static_assert(kBytes <= 227 * 1024);
  // setmaxnreg shares out what the launch was given.
  static constexpr int kProducerRegisters = kGroups != 2 ? 32 : 40;
  static constexpr int kConsumerRegisters = kGroups == 2 ? 232 : kGroups == 3 ? 160 : 112;
};

// A place in a ring of kStages buffers, a power of two, and the parity of its barrier's phase.
template <int kStages>
struct Ring {
  unsigned count = 0;
  __device__ __forceinline__ int stage() const { return static_cast<int>(count % kStages); }
  __device__ __forceinline__ int parity() const { return static_cast<int>(count / kStages % 2); }
  __device__ __forceinline__ void advance() { ++count; }
};

// kRows queries of one head, and the blocks of keys [first, end) that they see.
struct ForwardWork {
  int sequence, batch, head, row;  // sequence -1: no work is left
  int first, end;
  HopperSequence limits;
};

// Where things lie in shared memory.
template <class S>
struct SharedLayout {
  static constexpr int kWorkWords = sizeof(ForwardWork) / sizeof(int);
  static_assert(kWorkWords == 16);
  std::uint32_t base;

  __device__ __forceinline__ explicit SharedLayout(char* raw)
      : base(warps_value((shared_address(raw) + 1023) / 1024 * 1024)) {}
  __device__ __forceinline__ std::uint32_t query(int g) const { return base + S::kQuery + g * S::kQueryBytes; }
  __device__ __forceinline__ std::uint32_t output(int g) const { return base + S::kOutput + g * S::kQueryBytes; }
  __device__ __forceinline__ std::uint32_t key(int s) const { return base + S::kKey + s * S::kKeyBytes; }
  __device__ __forceinline__ std::uint32_t value(int s) const { return base + S::kValue + s * S::kKeyBytes; }
  __device__ __forceinline__ std::uint32_t bias() const { return base + S::kBiasMemory; }
  __device__ __forceinline__ std::uint32_t barrier(int set, int i) const {
    return base + S::kBarriers + 32 * set + 8 * i;
  }
  __device__ __forceinline__ std::uint32_t query_full(int g) const { return barrier(0, g); }
  __device__ __forceinline__ std::uint32_t query_empty(int g) const { return barrier(1, g); }
  __device__ __forceinline__ std::uint32_t key_full(int s) const { return barrier(2, s); }
  __device__ __forceinline__ std::uint32_t key_empty(int s) const { return barrier(3, s); }
  __device__ __forceinline__ std::uint32_t value_full(int s) const { return barrier(4, s); }
  __device__ __forceinline__ std::uint32_t value_empty(int s) const { return barrier(5, s); }
  __device__ __forceinline__ std::uint32_t tile_full(int s) const { return barrier(6, s); }
  __device__ __forceinline__ std::uint32_t tile_empty(int s) const { return barrier(7, s); }

  // By one thread, before all others use them. One thread signals that a buffer is full, each warp that it is empty.
  __device__ __forceinline__ void init_barriers() const {
    for (int g = 0; g < S::kGroups; ++g) {
      barrier_init(query_full(g), 1);
      barrier_init(query_empty(g), 4);
    }
    for (int s = 0; s < S::kStages; ++s) {
      barrier_init(key_full(s), 1);
      barrier_init(value_full(s), 1);
      barrier_init(key_empty(s), 4 * S::kGroups);
      barrier_init(value_empty(s), 4 * S::kGroups);
    }
    for (int s = 0; s < 2; ++s) {
      barrier_init(tile_full(s), 1);
      barrier_init(tile_empty(s), 4 * S::kGroups);
    }
    barrier_init_fence();
  }

  // The work of two tiles: of one that is under way, and of the next that the producer took.
  __device__ __forceinline__ std::uint32_t work(int s) const {
    return base + S::kBarriers + 384 + s * static_cast<int>(sizeof(ForwardWork));
  }
  // By the producer.
  __device__ __forceinline__ void give_work(Ring<2>& slots, const ForwardWork& given) const {
    int words[kWorkWords];
    memcpy(words, &given, sizeof(given));
    barrier_wait(tile_empty(slots.stage()), slots.parity() ^ 1);
    for (int i = 0; i < kWorkWords; ++i) store_shared(work(slots.stage()) + 4 * i, words[i]);
    barrier_arrive(tile_full(slots.stage()));
    slots.advance();
  }
  // By all threads of a warp.
  __device__ __forceinline__ ForwardWork read_work(const Ring<2>& slots) const {
    int words[kWorkWords];
#pragma unroll
    for (int i = 0; i < kWorkWords; ++i) words[i] = warps_value(load_shared_word(work(slots.stage()) + 4 * i));
    ForwardWork result;
    memcpy(&result, words, sizeof(result));
    return result;
  }
  __device__ __forceinline__ ForwardWork await_work(const Ring<2>& slots) const {
    barrier_wait(tile_full(slots.stage()), slots.parity());
    return read_work(slots);
  }
  // After the last read.
  __device__ __forceinline__ void release_work(Ring<2>& slots) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(tile_empty(slots.stage()));
    slots.advance();
  }
};

// The tile of an index: heads in sections, the last rows, which see the most keys under a causal mask, first.
template <class S>
__device__ __forceinline__ ForwardWork find_work(const ForwardParams& p, int index) {
  ForwardWork work;
  if (S::kLimits && p.packed_tiles) {
    const int2 place = p.packed_tiles[index / p.heads];
    work.head = index % p.heads;
    work.sequence = place.x;
    work.row = place.y;
    work.batch = 0;
  } else {
    const int per_section = p.section * p.row_tiles, all_heads = p.tiles / p.row_tiles;
    const int section = index / per_section, rest = index - section * per_section;
    const int first = section * p.section, count = min(p.section, all_heads - first);
    const int head = first + rest % count;
    work.batch = work.sequence = head / p.heads;
    work.head = head % p.heads;
    work.row = (p.row_tiles - 1 - rest / count) * S::kRows;
  }
  work.limits = p.sequence;
  work.first = 0;
  int keys = p.sequence.key_count;
  if constexpr (S::kLimits) {
    if (p.sequences) work.limits = p.sequences[work.sequence];
    const int last = min(work.row + S::kRows, work.limits.query_length) - 1;
    keys = min(work.limits.key_count, max(0, last + work.limits.high + 1));
    work.first = min(max(0, work.row + work.limits.low), keys) / S::kKeys;
  }
  work.end = max(work.first, (keys + S::kKeys - 1) / S::kKeys);
  return work;
}

// The end of the blocks that the rows of consumer warpgroup `group` see.
template <class S>
__device__ __forceinline__ int own_end(const ForwardWork& work, int group) {
  const int low_row = work.row + group * 64;
  if (low_row >= work.limits.query_length) return work.first;
  if constexpr (!S::kLimits) return work.end;
  return min(work.end, (max(0, low_row + 63 + work.limits.high + 1) + S::kKeys - 1) / S::kKeys);
}

// The producer: one thread takes tiles and loads their queries, keys and values, the last block first.
template <class S>
__device__ __forceinline__ void produce(const ForwardParams& p, const SharedLayout<S>& shared) {
  prefetch_map(&p.query.map);
  prefetch_map(&p.key.map);
  prefetch_map(&p.value.map);
  Ring<S::kStages> keys, values;
  Ring<2> slots;
  int query_parity = 0;
  const auto load = [](const HopperMap& from, std::uint32_t to, std::uint32_t barrier, int rows, int row, int head,
                       int batch) {
    for (int c = 0; c < from.loads; ++c) {
      tma_load_columns(to + c * rows * 128, &from.map, barrier, 64 * c, row, head, batch);
    }
  };
  const auto load_key = [&](const ForwardWork& work, int block) {
    const int s = keys.stage();
    barrier_wait(shared.key_empty(s), keys.parity() ^ 1);
    barrier_expect(shared.key_full(s), S::kKeyBytes);
    load(p.key, shared.key(s), shared.key_full(s), S::kKeys, work.limits.key_begin + block * S::kKeys,
         work.head / p.group, work.batch);
    keys.advance();
  };
  const auto load_value = [&](const ForwardWork& work, int block) {
    const int s = values.stage();
    barrier_wait(shared.value_empty(s), values.parity() ^ 1);
    barrier_expect(shared.value_full(s), S::kKeyBytes);
    load(p.value, shared.value(s), shared.value_full(s), S::kKeys, work.limits.key_begin + block * S::kKeys,
         work.head / p.group, work.batch);
    values.advance();
  };
  for (int index = blockIdx.x;;) {
    ForwardWork work = {};
    work.sequence = -1;
    if (index < p.tiles) work = find_work<S>(p, index);
    shared.give_work(slots, work);
    if (index >= p.tiles) return;
    if (work.end > work.first) load_key(work, work.end - 1);
    for (int g = 0; g < S::kGroups; ++g) {
      barrier_wait(shared.query_empty(g), query_parity ^ 1);
      barrier_expect(shared.query_full(g), S::kQueryBytes);
      load(p.query, shared.query(g), shared.query_full(g), 64, work.limits.query_begin + work.row + g * 64, work.head,
           work.batch);
    }
    query_parity ^= 1;
    for (int n = work.end - 2; n >= work.first; --n) {
      load_key(work, n);
      load_value(work, n + 1);
    }
    // Taken before the last load, so that the counter's answer comes while that one waits.
    // Every tile takes one more, so that the counter wraps to 0 with the last.
    index = p.counter ? static_cast<int>(count_blocks() + atomicInc(p.counter, p.tiles - 1)) : p.tiles;
    if (work.end > work.first) load_value(work, work.first);
  }
}

}  // namespace headway::inline v0::internal::cuda
