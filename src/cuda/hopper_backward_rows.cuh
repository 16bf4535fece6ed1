// Rows of the Hopper backward's tensors, for the passes around its kernel.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/element.cuh"
#include "cuda/hopper_backward_passes.h"
#include "cuda/hopper_backward_rules.cuh"

namespace headway::inline v0::internal::cuda {

// A sequence, which one it is, and where it lies in the tensors.
struct SequencePlace : BackwardSequence {
  int sequence, batch;
};

// A query of one head, counted inside its sequence.
struct QueryPlace {
  SequencePlace its;
  int head, row;
  bool inside;  // else padding
};

// The query of a slot (batch, heads, padded_rows).
__device__ inline QueryPlace query_at(const BackwardParameters& p, int slot) {
  const int index = slot / kBackwardRows, tile = index % p.row_tiles, batch = index / p.row_tiles / p.heads;
  const int sequence = p.tile_sequences == nullptr ? batch : p.tile_sequences[tile];
  QueryPlace place = {{sequence_at(p, sequence), sequence, batch}, index / p.row_tiles % p.heads, 0, false};
  place.row = (tile - place.its.first_tile) * kBackwardRows + slot % kBackwardRows;
  place.inside = place.row < place.its.query_length;
  return place;
}

// The sequence of a key of the tensors.
__device__ inline SequencePlace sequence_of_key(const BackwardParameters& p, int batch, int key) {
  if (p.packed_blocks == nullptr) return {sequence_at(p, batch), batch, batch};
  int first = 0, last = p.sequence_count - 1;  // the last sequence that does not begin after the key
  while (first < last) {
    const int middle = (first + last + 1) / 2;
    if (p.sequences[middle].key_begin <= key) {
      first = middle;
    } else {
      last = middle - 1;
    }
  }
  return {p.sequences[first], first, batch};
}

// Rows are counted in the tensor.
template <typename T>
__device__ T* row_of(const RowTensor& tensor, int batch, int head, int row) {
  return static_cast<T*>(tensor.data) + batch * tensor.stride[0] + head * tensor.stride[1] + row * tensor.stride[2];
}

// Eight neighbouring elements as float32.
template <typename T>
__device__ void load_eight(const T* from, float (&to)[8]) {
  const uint4 words = *reinterpret_cast<const uint4*>(from);
  const T* values = reinterpret_cast<const T*>(&words);
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = to_compute(values[i]);
}

template <typename T>
__device__ void store_eight(T* to, const float (&from)[8], float factor) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = pack<T>(from[2 * i] * factor, from[2 * i + 1] * factor);
  *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ inline bool all_finite(const float (&values)[8]) {
  bool finite = true;
#pragma unroll
  for (int i = 0; i < 8; ++i) finite = finite && isfinite(values[i]);
  return finite;
}

// Whether a row's gradients are NaN because of a visible element.
__device__ inline bool is_broken(float reference, float delta) { return isnan(reference) || !isfinite(delta); }

// What a row's probabilities and gradients are computed from.
struct RowStatistics {
  float reference, rest, delta;
};

__device__ inline RowStatistics statistics_of(const BackwardPasses& passes, std::int64_t slot) {
  return {passes.reference[slot], passes.rest == nullptr ? 0.f : passes.rest[slot], passes.delta[slot]};
}

// Calls f.template operator()<T>() with the 16-bit type.
template <typename Function>
void dispatch_16_bit(DType dtype, const Function& f) {
  if (dtype == DType::float16) return f.template operator()<__half>();
  f.template operator()<__nv_bfloat16>();
}

}  // namespace headway::inline v0::internal::cuda
