#include "generate/decoding_batch.h"

#include <bit>
#include <numeric>
#include <utility>

#include "base/divide.h"

namespace headway::inline v0::internal {
namespace {

std::int64_t power_of_two_from(std::int64_t count) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

}  // namespace

DecodingBatch::DecodingBatch(const StepDecoder& decoder, const SourceList& sources, std::int64_t beam,
                             std::int64_t most_tokens)
    : decoder_(decoder), rows_(static_cast<std::int64_t>(sources.size())), source_of_(sources.size()) {
  constexpr std::int64_t kLengths = 32;  // buffers have a multiple of it, so that the next batch fits into them
  const EncodedSources encoded = decoder.encode(sources);
  const std::int64_t source_count = power_of_two_from(rows_);
  // Most hypotheses end long before they may: on the CPU the buffers grow. A device records its steps on them.
  const std::int64_t tokens = decoder.weights().device().is_cpu() ? kLengths : most_tokens;
  buffers_ = decoder.acquire_buffers({.sources = source_count,
                                      .rows = source_count * power_of_two_from(beam),
                                      .source_length = divide_up(encoded.memory.size(1), kLengths) * kLengths,
                                      .tokens = divide_up(tokens, kLengths) * kLengths,
                                      .best = beam == 1 ? 1 : 2 * beam});
  buffers_->set_sources(encoded.memory, encoded.lengths);
  std::iota(source_of_.begin(), source_of_.end(), 0);
  buffers_->set_source_of(source_of_);
  buffers_->set_state(0, first_rows().tokens, source_of_);
}

DecodingBatch::~DecodingBatch() { decoder_.release_buffers(std::move(buffers_)); }

DecodingBatch::ChosenTokens DecodingBatch::take_steps(std::int64_t steps) {
  buffers_->reserve(length_ + steps);
  for (std::int64_t i = 0; i < steps; ++i) buffers_->step(rows_);
  const GreedyHistory history = buffers_->history(buffers_->padded(rows_));
  const auto newest = [&](const Tensor& all) { return all.slice(0, length_, length_ + steps).to(Device::cpu()); };
  ChosenTokens chosen = {newest(history.tokens), newest(history.scores)};
  length_ += steps;
  return chosen;
}

void DecodingBatch::keep_rows(const std::vector<std::int64_t>& kept) {
  rows_ = static_cast<std::int64_t>(kept.size());
  buffers_->keep_rows(kept);
}

DecodingBatch::BeamRows DecodingBatch::first_rows() const {
  return {.tokens = std::vector<std::int64_t>(source_of_.size(), decoder_.weights().start_token),
          .parents = source_of_,
          .sources = source_of_};
}

TopTokens DecodingBatch::step(const BeamRows& rows) {
  const auto count = static_cast<std::int64_t>(rows.tokens.size());
  if (rows.sources != source_of_) {
    source_of_ = rows.sources;
    buffers_->set_source_of(source_of_);
  }
  buffers_->reserve(length_ + 1);
  buffers_->set_state(length_, rows.tokens, rows.parents);
  buffers_->step(count);
  ++length_;
  const TopTokens top = buffers_->top(count);
  return {top.tokens.to(Device::cpu()), top.logits.to(Device::cpu()), top.logsumexp.to(Device::cpu())};
}

}  // namespace headway::inline v0::internal
