// A step whose attention is asked for: the same cache, by attention() itself, one row after the other.
#include <algorithm>

#include "generate/decoder_step.h"
#include "generate/decoding_buffers.h"
#include "generate/prompt_attention.h"

namespace headway::inline v0::internal {
namespace {

std::vector<std::int64_t> host_numbers(const Tensor& tensor) {
  const Tensor here = tensor.to(Device::cpu()).to(DType::int64).contiguous();
  return {here.data<std::int64_t>(), here.data<std::int64_t>() + here.element_count()};
}

// Weights of all rows as one tensor: each [1, heads, 1, keys] -> [rows, heads, longest], with zeros after a row's own.
Tensor joined_weights(const std::vector<Tensor>& rows) {
  std::int64_t longest = 0;
  for (const Tensor& row : rows) longest = std::max(longest, row.size(3));
  const Tensor all = Tensor::zeros({static_cast<std::int64_t>(rows.size()), rows.front().size(1), longest});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    all.select(0, static_cast<std::int64_t>(i))
        .slice(1, 0, rows[i].size(3))
        .copy_from(rows[i].select(0, 0).select(1, 0));
  }
  return all;
}

}  // namespace

StepAttention DecodingBuffers::step_with_weights(std::int64_t rows, StepEnd end, bool reorders,
                                                 std::int64_t end_position) {
  prepare_step(end, end_position);
  if (reorders) origins_.slice(0, 0, rows).copy_from(gather_rows(origins_, parents(rows)));
  RowTables tables = {.lengths = host_numbers(positions(rows)),
                      .origins = origins_.slice(0, 0, rows).to(Device::cpu()).contiguous(),
                      .sources = host_numbers(source_of_.slice(0, 0, rows)),
                      .source_lengths = host_numbers(lengths_)};
  const std::vector<std::int64_t> entries = host_numbers(entries_);
  for (std::size_t row = 0; row < tables.lengths.size(); ++row) {
    // The newest token is put into the row's own entry.
    const std::int64_t place = static_cast<std::int64_t>(row) * size_.tokens + tables.lengths[row]++;
    tables.origins.data<std::int32_t>()[place] = static_cast<std::int32_t>(entries[row]);
  }
  StepAttention found;
  found.self.resize(weights_.layers.size());
  found.cross.resize(memory_.size());
  const Tensor x = run_layers(
      weights_, weights_.layers.size(), embed_tokens(weights_, newest(rows), positions(rows)),
      [&](std::size_t layer, const Tensor& projected) {
        return attend_with_weights(layer, projected, tables, found.self[layer]);
      },
      [&](std::size_t layer, const Tensor& query) {
        return attend_source_with_weights(layer, query, tables, found.cross[layer]);
      });
  end_step(logits_of(weights_, x), rows, end);
  return found;
}

Tensor DecodingBuffers::attend_with_weights(std::size_t layer, const Tensor& projected, const RowTables& tables,
                                            Tensor& weights) const {
  cache_append(append_of(layer, projected));
  const Tensor& past = past_[layer];
  const Tensor flat = past.view({past.size(0) * past.size(1), past.size(2)});
  std::vector<Tensor> outputs, found;
  for (std::int64_t row = 0; row < projected.size(0); ++row) {
    const std::int64_t length = tables.lengths[static_cast<std::size_t>(row)];
    std::vector<std::int64_t> indices;
    for (std::int64_t t = 0; t < length; ++t) {
      indices.push_back(tables.origins.data<std::int32_t>()[row * size_.tokens + t] * size_.tokens + t);
    }
    const Tensor tokens = gather_rows(flat, Tensor::from(indices, {length}).to(weights_.device()));
    const PromptAttention attended =
        attend_prompt(weights_.layers[layer].self.scores, projected.slice(0, row, row + 1), tokens, Weights::per_head);
    outputs.push_back(attended.output);
    found.push_back(attended.weights.to(Device::cpu()));
  }
  weights = joined_weights(found);
  return concat(outputs);
}

Tensor DecodingBuffers::attend_source_with_weights(std::size_t layer, const Tensor& query, const RowTables& tables,
                                                   Tensor& weights) const {
  std::vector<Tensor> outputs, found;
  for (std::int64_t row = 0; row < query.size(0); ++row) {
    const std::int64_t source = tables.sources[static_cast<std::size_t>(row)];
    const std::int64_t length = tables.source_lengths[static_cast<std::size_t>(source)];
    const PromptAttention attended =
        attend_memory(weights_.layers[layer].cross->scores, query.slice(0, row, row + 1),
                      memory_[layer].select(0, source).slice(0, 0, length), Weights::per_head);
    outputs.push_back(attended.output);
    found.push_back(attended.weights.to(Device::cpu()));
  }
  weights = joined_weights(found);
  return concat(outputs);
}

}  // namespace headway::inline v0::internal
