#include <span>

#include "base/divide.h"
#include "cuda/attention_call.h"

namespace headway::inline v0::internal::cuda {
namespace {

// True when the sequences differ in nothing but their place in the batch.
bool are_alike(const AttentionProblem& problem) {
  if (problem.packed) return false;
  for (const Sequence& sequence : problem.sequences) {
    const Sequence& first = problem.sequences.front();
    if (sequence.key_count != first.key_count || sequence.query_offset != first.query_offset) return false;
    if (sequence.first_row != first.first_row || sequence.first_column != first.first_column) return false;
  }
  return true;
}

}  // namespace

HeadRows head_rows(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {.data = tensor.raw_data(),
          .batch_stride = tensor.stride(0),
          .head_stride = tensor.stride(1),
          .row_stride = tensor.stride(2)};
}

ScorePlane score_plane(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {.data = tensor.raw_data(),
          .batch_stride = tensor.stride(0),
          .head_stride = tensor.stride(1),
          .query_stride = tensor.stride(2),
          .key_stride = tensor.stride(3),
          .dtype = tensor.dtype()};
}

UploadedCall::UploadedCall(const AttentionProblem& problem) : problem_(problem) {
  const auto keep = [&]<typename Element>(const std::vector<Element>& values) {
    buffers_.push_back(upload(std::span<const Element>(values)));
    return buffers_.back().template as<const Element>();
  };
  call_.query = head_rows(problem.query);
  call_.key = head_rows(problem.key);
  call_.value = head_rows(problem.value);
  call_.batch = problem.batch;
  call_.heads = problem.heads;
  call_.kv_heads = problem.kv_heads;
  call_.group = problem.group();
  call_.query_length = problem.query_length;
  call_.key_length = problem.key_length;
  call_.head_dim = problem.head_dim;
  call_.value_dim = problem.value_dim;
  call_.scale = problem.scale;
  call_.softcap = problem.softcap;
  call_.left = problem.left.value_or(kUnlimited);
  call_.right = problem.right.value_or(kUnlimited);
  call_.mask = score_plane(problem.mask);
  call_.mask_true_keeps = problem.mask_true_keeps;
  call_.bias = score_plane(problem.bias);
  if (!problem.alibi_slopes.empty()) call_.alibi_slopes = keep(problem.alibi_slopes);
  if (!problem.sinks.empty()) call_.sinks = keep(problem.sinks);
  call_.dropout = problem.dropout;
  call_.first_head = problem.first_head;
  call_.part_of_keys = problem.part_of_keys;
  call_.sequence_count = static_cast<std::int64_t>(problem.sequences.size());
  if (call_.sequence_count == 0) return;
  call_.first_sequence = problem.sequences.front();
  if (!are_alike(problem)) call_.sequences = keep(problem.sequences);
}

TileTable UploadedCall::query_tiles(std::int64_t rows) {
  return make_tiles(rows, problem_.query_length, &Sequence::query_length);
}

TileTable UploadedCall::key_tiles(std::int64_t rows) {
  return make_tiles(rows, problem_.key_length, &Sequence::key_length);
}

TileTable UploadedCall::make_tiles(std::int64_t rows, std::int64_t length, std::int64_t Sequence::*sequence_length) {
  TileTable table = {.places = nullptr, .per_sequence = 0, .rows = rows, .count = 0};
  if (!problem_.packed) {
    table.per_sequence = divide_up(length, rows);
    table.count = table.per_sequence * call_.sequence_count;
    return table;
  }
  std::vector<TilePlace> places;
  for (std::int64_t s = 0; s < call_.sequence_count; ++s) {
    const std::int64_t end = problem_.sequences[static_cast<std::size_t>(s)].*sequence_length;
    for (std::int64_t first = 0; first < end; first += rows) places.push_back({s, first});
  }
  table.count = static_cast<std::int64_t>(places.size());
  buffers_.push_back(upload(std::span<const TilePlace>(places)));
  table.places = buffers_.back().as<const TilePlace>();
  return table;
}

}  // namespace headway::inline v0::internal::cuda
