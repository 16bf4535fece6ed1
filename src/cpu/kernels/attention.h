// Inputs and results of the attention kernels: plain structs, the same for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/random.h"
#include "headway/dtype.h"

namespace headway::inline v0::internal {

// (length, dim) of one head in a user's tensor; the last dimension is contiguous.
struct Rows {
  std::byte* data = nullptr;
  std::int64_t stride = 0;  // elements from one row to the next
  DType dtype = DType::float32;
};

// (query_length, key_length) of one head of a broadcast mask or bias; a stride of 0 repeats.
struct Plane {
  const std::byte* data = nullptr;  // null where it was not given
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  DType dtype = DType::boolean;
};

inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 4;

// The operations between Q K^T and the softmax for one head of one sequence.
struct ScoreRule {
  std::int64_t key_count = 0;  // non-padding keys
  std::int64_t query_offset = 0;
  std::int64_t left = kUnlimited;   // query q sees the keys q + query_offset - left ..
  std::int64_t right = kUnlimited;  // .. q + query_offset + right; causal is right = 0
  double softcap = 0;               // 0: none
  double alibi_slope = 0;
  Plane mask = {};
  bool mask_true_keeps = true;
  Plane bias = {};
  DropoutRule dropout = {};  // threshold 0: none
  std::int64_t dropout_batch = 0;
  std::int64_t dropout_head = 0;
  std::int64_t dropout_row = 0;     // of query 0
  std::int64_t dropout_column = 0;  // of key 0

  std::int64_t first_key(std::int64_t query) const {
    const std::int64_t position = query + query_offset;
    const std::int64_t first = left >= kUnlimited ? 0 : position - left;
    return first < 0 ? 0 : (first > key_count ? key_count : first);
  }
  std::int64_t end_key(std::int64_t query) const {
    const std::int64_t position = query + query_offset;
    const std::int64_t end = right >= kUnlimited ? key_count : position + right + 1;
    return end < 0 ? 0 : (end > key_count ? key_count : end);
  }
  // True when the visible keys of a query are all that matters: no bias, mask tensor, softcap or ALiBi.
  bool is_plain() const { return softcap == 0 && alibi_slope == 0 && !mask.data && !bias.data; }
};

// Copies keys or values of one head into the layout that the products read.
struct PackTask {
  Rows source = {};
  std::int64_t begin = 0;  // first row; a multiple of the kernels' tile_columns
  std::int64_t end = 0;
  std::int64_t dim = 0;
  double factor = 1;  // multiplies every element where the arithmetic allows (see AttentionKernels::folds_scale)
  void* packed = nullptr;
};

// The attention of up to kQueryChunk queries of one head.
struct ForwardTask {
  Rows query = {};                    // (query_length, head_dim)
  const void* packed_keys = nullptr;  // (key tiles, head_dim, tile_columns)
  const void* values = nullptr;       // (keys, value_stride)
  std::int64_t value_stride = 0;
  Rows output = {};           // (query_length, value_dim)
  void* logsumexp = nullptr;  // (query_length)
  std::int64_t query_begin = 0;
  std::int64_t query_end = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  double scale = 1;
  bool has_sink = false;
  double sink = 0;
  const ScoreRule* rule = nullptr;
};

// P = exp2(S - reference - rest), in base 2. Next to a log-sum-exp of -1e9, as a bias makes it, the logarithm of the
// sum would be lost: such rows have their maximum as the reference and the logarithm as the rest.
struct RowReferences {
  void* reference = nullptr;  // (query_length); null: the log-sum-exp is the reference of all rows
  void* rest = nullptr;       // (query_length)
};

// Whether the logarithm of a row's sum would be lost in its log-sum-exp.
template <typename Real>
bool is_large_logsumexp(Real logsumexp) {
  const Real magnitude = logsumexp < 0 ? -logsumexp : logsumexp;
  return magnitude >= 1024 && magnitude <= std::numeric_limits<Real>::max();
}

// One head's part in a tile of returned weights.
struct WeightsHead {
  Rows query = {};
  const void* packed_keys = nullptr;
  const void* logsumexp = nullptr;  // (query_length)
  const ScoreRule* rule = nullptr;
  RowReferences references = {};  // in place of the log-sum-exp, where there are any
};

// base2: masked scores as the kernels have them, times log2(e).
enum class WeightsKind { softmax, scores, softcapped, masked, base2 };

// The weights of some queries, averaged over head_count heads.
struct WeightsTask {
  const WeightsHead* heads = nullptr;
  std::int64_t head_count = 1;
  std::int64_t query_begin = 0;
  std::int64_t query_end = 0;
  std::int64_t key_length = 0;  // columns of the output, padding included
  std::int64_t head_dim = 0;
  double scale = 1;
  WeightsKind kind = WeightsKind::softmax;
  Rows weights = {};  // (query_length, key_length)
};

// A few rows (the queries of all heads that share a key head) over a part of the keys.
struct DecodeTask {
  const Rows* queries = nullptr;            // one per row: its data is that row
  const ScoreRule* const* rules = nullptr;  // one per row
  const std::int64_t* positions = nullptr;  // one per row: the query's index in its sequence
  std::int64_t row_count = 0;               // at most kDecodeRows
  Rows keys = {};
  Rows values = {};
  std::int64_t key_begin = 0;
  std::int64_t key_end = 0;  // at most kDecodeKeys past key_begin
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  double scale = 1;
  void* partial = nullptr;  // per row: (value_dim) unnormalised output, then maximum (base 2), sum
};

// Joins the parts of one decoded row in key order.
struct CombineTask {
  const void* partials = nullptr;  // (part_count, part_stride): this row's parts
  std::int64_t part_count = 0;
  std::int64_t part_stride = 0;
  std::int64_t value_dim = 0;
  Rows output = {};
  void* logsumexp = nullptr;
  bool has_sink = false;
  double sink = 0;
};

inline constexpr std::int64_t kQueryChunk = 192;  // queries of one task
inline constexpr std::int64_t kKeyBlock = 512;    // keys between two visits of a row block: K and V stay in L2
inline constexpr std::int64_t kDecodeRows = 16;
inline constexpr std::int64_t kDecodeKeys = 512;

// Per row: what the backward subtracts from dP, and the log-sum-exp in base 2.
struct RowStatisticsTask {
  Rows output = {};                   // (rows, value_dim)
  Rows d_output = {};                 // likewise; data null: zero
  const void* logsumexp = nullptr;    // (rows)
  const void* d_logsumexp = nullptr;  // (rows), or null
  std::int64_t rows = 0;
  std::int64_t value_dim = 0;
  void* reference = nullptr;  // (rows): a huge number for rows without keys, so that exp2(S - it) is 0
  void* delta = nullptr;      // (rows): sum(d_output * output) - d_logsumexp
};

// The references of some queries of one head; its own `references` are what is written.
struct ReferencesTask {
  WeightsHead head = {};
  std::int64_t query_begin = 0;
  std::int64_t query_end = 0;
  std::int64_t head_dim = 0;
  double scale = 1;
  bool has_sink = false;
  double sink = 0;
};

// delta += sum over keys of P * d_weights, for some queries of one head.
struct WeightsDotTask {
  WeightsHead head = {};
  std::int64_t query_begin = 0;
  std::int64_t query_end = 0;
  std::int64_t head_dim = 0;
  double scale = 1;
  Plane d_weights = {};
  double factor = 1;
  void* delta = nullptr;  // (query_length)
};

// One block of keys of one key head, and the memory that a worker carries through the tiles of its queries.
struct BackwardBlock {
  Rows key = {};
  Rows value = {};
  std::int64_t key_begin = 0;
  std::int64_t key_end = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  double scale = 1;
  std::byte* workspace = nullptr;  // of backward_workspace() bytes
};

// Up to backward_queries queries of one query head against the block's keys.
struct BackwardTile {
  Rows query = {};
  Rows d_output = {};             // data null: zero
  RowReferences references = {};  // without a rest: zero for all rows
  const void* delta = nullptr;    // (query_length)
  std::int64_t query_begin = 0;
  std::int64_t query_end = 0;
  std::byte* packed = nullptr;             // the tile as backward_pack wrote it
  const std::byte* next_packed = nullptr;  // the tile that comes next, to be prefetched
  const ScoreRule* rule = nullptr;
  Plane d_weights = {};         // gradient of the returned weights; data null: none
  double d_weights_factor = 1;  // 1 / heads for the mean
  WeightsKind weights_kind = WeightsKind::softmax;
  bool wants_bias = false;
  void* d_query_sums = nullptr;  // (query_length, d_query_stride): unscaled, float or double
  std::int64_t d_query_stride = 0;
  Rows d_query = {};        // (query_length, head_dim): the gradient itself
  bool first_keys = false;  // nothing was added to these rows of d_query_sums yet
  bool last_keys = false;   // nothing will be: d_query is written

  // True when gradients of raw scores come in: then masked keys have a gradient too.
  bool reaches_masked_keys() const {
    return d_weights.data && (weights_kind == WeightsKind::scores || weights_kind == WeightsKind::softcapped);
  }
};

// Where a tile adds its part of the bias gradient: float or double, at [query 0, key 0]; a stride of 0 sums.
struct BiasGradient {
  void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
};

// The entry points of one arithmetic (float32, float64 or bf16 dot products) on one instruction set.
struct AttentionKernels {
  std::int64_t tile_columns = 0;      // keys per packed tile
  std::int64_t real_bytes = 0;        // of logsumexp, delta and sums
  std::int64_t backward_queries = 0;  // queries of a backward tile
  std::int64_t backward_keys = 0;     // keys of a backward block

  // Bytes of one head's packed keys or values.
  std::size_t (*packed_keys_bytes)(std::int64_t key_count, std::int64_t dim) noexcept = nullptr;
  std::size_t (*packed_values_bytes)(std::int64_t key_count, std::int64_t dim) noexcept = nullptr;
  std::int64_t (*packed_value_stride)(std::int64_t dim) noexcept = nullptr;
  // True when the products can read the values where they lie.
  bool (*values_in_place)(const Rows& values, std::int64_t dim) noexcept = nullptr;
  void (*pack_keys)(const PackTask&) noexcept = nullptr;
  void (*pack_values)(const PackTask&) noexcept = nullptr;
  std::size_t (*forward_workspace)(std::int64_t head_dim, std::int64_t value_dim) noexcept = nullptr;
  void (*forward)(const ForwardTask&, std::byte* workspace) noexcept = nullptr;
  void (*weights)(const WeightsTask&, std::byte* workspace) noexcept = nullptr;
  void (*decode)(const DecodeTask&, std::byte* workspace) noexcept = nullptr;
  void (*combine)(const CombineTask&, std::byte* workspace) noexcept = nullptr;

  std::size_t (*backward_workspace)(std::int64_t head_dim, std::int64_t value_dim) noexcept = nullptr;
  void (*row_statistics)(const RowStatisticsTask&, std::byte* workspace) noexcept = nullptr;
  void (*references)(const ReferencesTask&, std::byte* workspace) noexcept = nullptr;
  void (*weights_dot)(const WeightsDotTask&, std::byte* workspace) noexcept = nullptr;
  // Packs a tile of queries for all blocks of keys, into backward_packed_bytes() at tile.packed.
  std::size_t (*backward_packed_bytes)(std::int64_t head_dim, std::int64_t value_dim) noexcept = nullptr;
  void (*backward_pack)(const BackwardTile&, std::int64_t head_dim, std::int64_t value_dim,
                        double scale) noexcept = nullptr;
  // Packs the block's keys and values, and zeroes dK and dV.
  void (*backward_begin)(const BackwardBlock&) noexcept = nullptr;
  // dV += P^T dO and dK += dS^T Q of one tile; leaves dS in the workspace.
  void (*backward_tile)(const BackwardBlock&, const BackwardTile&) noexcept = nullptr;
  // dQ += dS K of the tile just computed.
  void (*backward_query)(const BackwardBlock&, const BackwardTile&) noexcept = nullptr;
  // Adds the gradients of the tile just computed to the bias gradient.
  void (*backward_bias)(const BackwardBlock&, const BackwardTile&, const BiasGradient&) noexcept = nullptr;
  // Writes dK and dV of the block.
  void (*backward_end)(const BackwardBlock&, const Rows& d_key, const Rows& d_value) noexcept = nullptr;
};

}  // namespace headway::inline v0::internal
