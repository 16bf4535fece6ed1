// Starts the forward kernel of one dimension: chooses its tiles, makes maps and the order of work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/hopper_forward.cuh"
#include "cuda/hopper_launch.h"
#include "cuda/hopper_maps.h"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

// The tiles of packed sequences, those that see the most keys first: (sequence, first row).
inline std::vector<int2> order_packed_tiles(const std::vector<HopperSequence>& sequences, int rows) {
  struct Entry {
    int2 place;
    int keys;
  };
  std::vector<Entry> entries;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const HopperSequence& sequence = sequences[s];
    for (int row = 0; row < sequence.query_length; row += rows) {
      const int last = std::min(row + rows, sequence.query_length) - 1;
      const int keys = std::min(sequence.key_count, last + sequence.high + 1) - std::max(0, row + sequence.low);
      entries.push_back({make_int2(static_cast<int>(s), row), keys});
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.keys > b.keys; });
  std::vector<int2> places;
  for (const Entry& entry : entries) places.push_back(entry.place);
  return places;
}

// How many heads are worked on together: no more than have their keys and values fit the part of the L2 cache that they
// may fill. Where all tiles take equally long, as few as give every multiprocessor a tile, so that memory is read
// evenly all the time; else as many as fit, in sections of one size, since short tiles at the end of a section even out
// its long ones.
inline int section_of(const AttentionProblem& problem, std::int64_t row_tiles, bool tiles_differ) {
  constexpr std::int64_t kCacheBytes = std::int64_t{32} << 20;
  const std::int64_t head_bytes = problem.key_length * (problem.head_dim + problem.value_dim) * 2;
  const std::int64_t fitting = std::max<std::int64_t>(1, kCacheBytes / head_bytes);
  const std::int64_t all = problem.kv_heads * problem.batch;
  if (tiles_differ) {
    const std::int64_t sections = std::max<std::int64_t>(1, all / fitting);
    return static_cast<int>((all + sections - 1) / sections * problem.group());
  }
  const std::int64_t tiles = row_tiles * problem.group();  // of a key/value head
  const std::int64_t busy = (device_properties().multiprocessors + tiles - 1) / tiles;
  return static_cast<int>(std::min(std::min(fitting, busy), all) * problem.group());
}

// Lets a kernel have more shared memory than kernels get unasked; once on each GPU.
template <class S>
void allow_shared_memory() {
  static std::atomic<std::uint64_t> allowed{0};  // a bit for each GPU
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const std::uint64_t bit = std::uint64_t{1} << (device % 64);
  if (allowed.load(std::memory_order_relaxed) & bit) return;
  check_cuda(cudaFuncSetAttribute(hopper_forward_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes),
             "cudaFuncSetAttribute");
  allowed.fetch_or(bit, std::memory_order_relaxed);
}

template <class S>
void launch_shape(const ForwardCall& call) {
  const AttentionProblem& problem = call.problem;
  ForwardParams p = call.params;
  p.query = make_tensor_map(problem.query, 64, S::kDim);
  p.key = make_tensor_map(problem.key, S::kKeys, S::kDim);
  p.value = make_tensor_map(problem.value, S::kKeys, S::kDim);
  p.output = make_tensor_map(call.result.output, 64, S::kDim);
  p.row_tiles = static_cast<int>((problem.query_length + S::kRows - 1) / S::kRows);
  p.tiles = static_cast<int>(p.row_tiles * problem.heads * problem.batch);
  p.section = section_of(problem, p.row_tiles, problem.left || problem.right || call.params.sequences);
  DeviceBuffer packed_tiles;
  if (problem.packed) {
    const std::vector<int2> places = order_packed_tiles(call.sequences, S::kRows);
    packed_tiles = upload(std::span<const int2>(places));
    p.packed_tiles = packed_tiles.as<const int2>();
    p.tiles = static_cast<int>(static_cast<std::int64_t>(places.size()) * problem.heads);
  }
  if (p.tiles == 0) return;
  const int blocks = std::min(p.tiles, device_properties().multiprocessors);
  p.counter = p.tiles > blocks ? call.counter : nullptr;
  allow_shared_memory<S>();
  launch_early(hopper_forward_kernel<S>, static_cast<unsigned>(blocks), S::kThreads, S::kBytes, p);
}

template <typename T, int kDim, int kRuleSet>
void launch_rules(const ForwardCall& call) {
  // Two sizes of tiles for the commonest dimensions alone.
  constexpr bool kCommon = kDim == 64 || kDim == 128 || kDim == 256;
  constexpr bool kHasShort = kCommon && (kRuleSet | rules::kLimits) == rules::kLimits;
  if constexpr (kHasShort) {
    if (call.is_short) return launch_shape<ForwardShape<T, kDim, kRuleSet, true>>(call);
  }
  launch_shape<ForwardShape<T, kDim, kRuleSet, false>>(call);
}

template <typename T, int kDim>
void launch_forward(const ForwardCall& call) {
  switch (call.rule_set) {
    case rules::kPlain:
      return launch_rules<T, kDim, rules::kPlain>(call);
    case rules::kLimits:
      return launch_rules<T, kDim, rules::kLimits>(call);
    case rules::kLimits | rules::kBias:
      return launch_rules<T, kDim, rules::kLimits | rules::kBias>(call);
    case rules::kLimits | rules::kMask:
      return launch_rules<T, kDim, rules::kLimits | rules::kMask>(call);
    case rules::kLimits | rules::kDropout:
      return launch_rules<T, kDim, rules::kLimits | rules::kDropout>(call);
    case rules::kLimits | rules::kScores:
      return launch_rules<T, kDim, rules::kLimits | rules::kScores>(call);
    default:
      return launch_rules<T, kDim, rules::kAll>(call);
  }
}

}  // namespace headway::inline v0::internal::cuda
