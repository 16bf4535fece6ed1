// One call of attention as the kernels take it: addresses, strides and options in one plain struct.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "backend/attention_problem.h"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

// No limit to the left or right; sums with any position stay in range.
inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 4;

// (batch, heads, rows, columns) of the device, the last dimension contiguous; strides in elements.
struct HeadRows {
  void* data = nullptr;  // null where it was not given
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
};

// (batch, heads, query_length, key_length) of the device; a stride of 0 repeats.
struct ScorePlane {
  const void* data = nullptr;  // null where it was not given
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t query_stride = 0;
  std::int64_t key_stride = 0;
  DType dtype = DType::boolean;
};

// Where a tile of queries or keys begins: the index of its sequence, and its first row there.
struct TilePlace {
  std::int64_t sequence = 0;
  std::int64_t first = 0;
};

// The tiles of all sequences, in their order.
struct TileTable {
  const TilePlace* places = nullptr;  // (count); null: all sequences have equally many
  std::int64_t per_sequence = 0;
  std::int64_t rows = 0;  // of a tile
  std::int64_t count = 0;

  __device__ TilePlace at(std::int64_t tile) const {
    if (places) return places[tile];
    return {tile / per_sequence, tile % per_sequence * rows};
  }
};

struct AttentionCall {
  HeadRows query;  // (batch, heads, query_length, head_dim)
  HeadRows key;    // (batch, kv_heads, key_length, head_dim)
  HeadRows value;  // (batch, kv_heads, key_length, value_dim)
  std::int64_t batch = 0, heads = 0, kv_heads = 0, group = 1;
  std::int64_t query_length = 0, key_length = 0;
  std::int64_t head_dim = 0, value_dim = 0;

  double scale = 1;
  double softcap = 0;  // 0: none
  std::int64_t left = kUnlimited;
  std::int64_t right = kUnlimited;
  ScorePlane mask;
  bool mask_true_keeps = true;
  ScorePlane bias;
  const double* alibi_slopes = nullptr;  // (sequences, heads), or null
  const double* sinks = nullptr;         // (heads), or null
  DropoutRule dropout;
  std::int64_t first_head = 0;  // for dropout: the place of the first head
  bool part_of_keys = false;    // a log-sum-exp is over more keys than these

  std::int64_t sequence_count = 0;
  const Sequence* sequences = nullptr;  // (sequence_count); null: all are like `first_sequence`, one per batch entry
  Sequence first_sequence;

  __device__ Sequence sequence_at(std::int64_t index) const {
    if (sequences) return sequences[index];
    Sequence sequence = first_sequence;
    sequence.batch = index;
    return sequence;
  }
  // Where the rows of one head of a sequence begin in (batch, heads, query_length).
  __device__ std::int64_t first_row(const Sequence& sequence, std::int64_t head) const {
    return (sequence.batch * heads + head) * query_length + sequence.query_begin;
  }
};

// Addresses and strides of a tensor (batch, heads, rows, columns); an undefined one has none.
HeadRows head_rows(const Tensor& tensor);

// Addresses and strides of a tensor broadcast to (batch, heads, query_length, key_length); an undefined one has none.
ScorePlane score_plane(const Tensor& tensor);

// An AttentionCall and the device memory that it points to.
class UploadedCall {
 public:
  explicit UploadedCall(const AttentionProblem& problem);

  const AttentionCall& call() const { return call_; }
  // Tiles of `rows` queries or keys, padding included.
  TileTable query_tiles(std::int64_t rows);
  TileTable key_tiles(std::int64_t rows);

 private:
  TileTable make_tiles(std::int64_t rows, std::int64_t length, std::int64_t Sequence::*sequence_length);

  const AttentionProblem& problem_;
  AttentionCall call_;
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace headway::inline v0::internal::cuda
