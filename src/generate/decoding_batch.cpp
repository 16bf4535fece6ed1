#include "generate/decoding_batch.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include "base/divide.h"

namespace headway::inline v0::internal {
namespace {

std::int64_t power_of_two_from(std::int64_t count) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

EncodedSources encode_sources(const StepDecoder& decoder, const std::vector<BatchSequence>& sequences) {
  if (decoder.front().kind != FrontKind::tokens) {
    FeatureList features;
    for (const BatchSequence& sequence : sequences) features.push_back(sequence.features);
    return decoder.encode(features);
  }
  SourceList sources;
  for (const BatchSequence& sequence : sequences) sources.push_back(sequence.source);
  return decoder.encode(sources);
}

}  // namespace

DecodingBatch::DecodingBatch(const StepDecoder& decoder, std::vector<BatchSequence> sequences,
                             const BatchOptions& options)
    : decoder_(decoder), sequences_(std::move(sequences)), options_(options) {
  constexpr std::int64_t kLeastTokens = 256;
  constexpr std::int64_t kLengths = 32;  // buffers have a multiple of it, so that the next batch fits into them
  const auto count = static_cast<std::int64_t>(sequences_.size());
  BufferSize size = {.rows = power_of_two_from(count) * power_of_two_from(options.forks),
                     .tokens = divide_up(options.most_tokens, kLengths) * kLengths,
                     .best = options.best};
  // On the CPU this is address space alone: the next batch may well be longer.
  if (decoder.weights().device().is_cpu()) size.tokens = power_of_two_from(std::max(size.tokens, kLeastTokens));
  EncodedSources encoded;
  if (decoder.weights().has_sources) {
    encoded = encode_sources(decoder, sequences_);
    size.sources = power_of_two_from(count);
    size.source_length = divide_up(encoded.memory.size(1), kLengths) * kLengths;
  }
  buffers_ = decoder.acquire_buffers(size);
  if (decoder.weights().has_sources) buffers_->set_sources(encoded.memory, encoded.lengths);
  for (std::int64_t slot = 0; slot < count; ++slot) {
    slots_.insert(slots_.end(), static_cast<std::size_t>(options.forked ? options.forks : 1), slot);
  }
  buffers_->set_step(0);
  buffers_->set_excluded(options.excluded);
}

DecodingBatch::~DecodingBatch() { decoder_.release_buffers(std::move(buffers_)); }

bool DecodingBatch::has_single_tokens() const {
  return std::all_of(sequences_.begin(), sequences_.end(),
                     [](const BatchSequence& sequence) { return sequence.prompt.size() == 1; });
}

RowState DecodingBatch::row_state(const NextRows& next) const {
  RowState state = {.newest = next.tokens, .parents = next.parents, .sources = next.slots};
  std::map<std::int64_t, std::int64_t> forks;  // rows of each slot so far
  for (const std::int64_t slot : next.slots) {
    const BatchSequence& sequence = sequences_[static_cast<std::size_t>(slot)];
    const std::int64_t fork = forks[slot]++;
    state.positions.push_back(static_cast<std::int64_t>(sequence.prompt.size()) - 1 + steps_);
    state.entries.push_back(slot * options_.forks + fork);
    // Every text that is drawn has a number of its own.
    state.sequences.push_back(sequence.number * options_.forks + fork);
  }
  return state;
}

void DecodingBatch::take_prompts(StepEnd end, bool all) {
  std::vector<PromptPart> prompts;
  NextRows first = {.tokens = {}, .parents = {}, .slots = slots_};
  std::vector<std::int64_t> entries, lengths;
  for (const std::int64_t slot : slots_) {
    const BatchSequence& sequence = sequences_[static_cast<std::size_t>(slot)];
    first.tokens.push_back(sequence.prompt.back());
    first.parents.push_back(0);
    entries.push_back(slot * options_.forks);
    lengths.push_back(static_cast<std::int64_t>(sequence.prompt.size()) - (all ? 0 : 1));
  }
  for (std::size_t slot = 0; slot < sequences_.size(); ++slot) {
    const BatchSequence& sequence = sequences_[slot];
    std::span<const std::int64_t> tokens = sequence.prompt;
    if (!all) tokens = tokens.first(tokens.size() - 1);
    PromptPart part = {.entry = static_cast<std::int64_t>(slot) * options_.forks,
                       .source = static_cast<std::int64_t>(slot),
                       .length = static_cast<std::int64_t>(tokens.size())};
    if (sequence.kept) {
      buffers_->restore_entry(part.entry, *sequence.kept);
      part.past = sequence.kept->front().size(0);
    }
    part.tokens = tokens.subspan(static_cast<std::size_t>(part.past));
    if (!part.tokens.empty()) prompts.push_back(part);
  }
  buffers_->set_rows(row_state(first));
  buffers_->set_origins(entries, lengths);
  if (prompts.empty()) return;
  const Tensor hidden = buffers_->prefill(prompts);
  if (!all) return;
  // Rows that a device computes beside those that are used repeat the first.
  std::vector<std::int64_t> of_rows = slots_;
  of_rows.resize(static_cast<std::size_t>(buffers_->padded(rows())));
  const Tensor indices = Tensor::from(of_rows, {static_cast<std::int64_t>(of_rows.size())}).to(hidden.device());
  buffers_->finish(gather_rows(hidden, indices), end);
}

void DecodingBatch::step(StepEnd end, StepAttention* attention) {
  if (steps_ == 0 && !attention && !has_single_tokens()) {
    take_prompts(end, /*all=*/true);
    ++steps_;
    return;
  }
  if (steps_ == 0) take_prompts(end, /*all=*/false);
  std::int64_t longest = 0;
  for (const BatchSequence& sequence : sequences_) {
    longest = std::max(longest, static_cast<std::int64_t>(sequence.prompt.size()));
  }
  const std::int64_t end_position = longest + steps_;
  if (attention) {
    *attention = buffers_->step_with_weights(rows(), end, reorders_, end_position);
  } else {
    buffers_->step(rows(), end, reorders_, end_position);
  }
  ++steps_;
}

DecodingBatch::ChosenTokens DecodingBatch::take_steps(std::int64_t steps, StepEnd end) {
  const std::int64_t before = steps_;
  for (std::int64_t i = 0; i < steps; ++i) step(end);
  const TokenHistory history = buffers_->history(buffers_->padded(rows()));
  const auto newest = [&](const Tensor& all) { return all.slice(0, before, before + steps).to(Device::cpu()); };
  return {newest(history.tokens), newest(history.scores)};
}

void DecodingBatch::keep_rows(const std::vector<std::int64_t>& kept) {
  std::vector<std::int64_t> slots;
  slots.reserve(kept.size());
  for (const std::int64_t row : kept) slots.push_back(slots_[static_cast<std::size_t>(row)]);
  slots_ = std::move(slots);
  buffers_->keep_rows(kept);
}

void DecodingBatch::set_next(const NextRows& next) {
  buffers_->set_rows(row_state(next));
  std::vector<std::int64_t> same(slots_.size());
  std::iota(same.begin(), same.end(), 0);
  reorders_ = next.parents != same;
  slots_ = next.slots;
}

TopTokens DecodingBatch::step_to_candidates() {
  step(StepEnd::candidates);
  const TopTokens top = buffers_->top(rows());
  return {top.tokens.to(Device::cpu()), top.logits.to(Device::cpu()), top.logsumexp.to(Device::cpu())};
}

Tensor DecodingBatch::step_to_logits() {
  step(StepEnd::logits);
  return buffers_->logits(rows()).to(Device::cpu()).to(DType::float32);
}

Tensor DecodingBatch::step_to_logits(StepAttention& attention) {
  step(StepEnd::logits, &attention);
  return buffers_->logits(rows()).to(Device::cpu()).to(DType::float32);
}

KeptTokens DecodingBatch::keep_tokens(std::int64_t slot, std::int64_t count) const {
  return buffers_->copy_entry(slot * options_.forks, count);
}

}  // namespace headway::inline v0::internal
