#include "generate/device_decoding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/divide.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {
namespace {

// Up to here a step takes as long as with fewer rows.
constexpr std::int64_t kSmallStep = 128;

std::int64_t power_of_two_from(std::int64_t count) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

Tensor normed_rows(const Tensor& x, const Norm& norm) { return layer_norm(x, norm.weight, norm.bias); }

// `values` and then zeros: int64 (count).
Tensor padded_with_zeros(const std::vector<std::int64_t>& values, std::int64_t count) {
  std::vector<std::int64_t> all = values;
  all.resize(static_cast<std::size_t>(count));
  return Tensor::from(all, {count});
}

}  // namespace

DecodingRoom::DecodingRoom(const StepDecoder& decoder, const RoomSize& size) : decoder_(decoder), size_(size) {
  const Device device = decoder.device();
  const DType dtype = decoder.embedding_.dtype();
  const std::int64_t width = 2 * decoder.model_.options().d_model;
  for (std::size_t i = 0; i < decoder.layers_.size(); ++i) {
    past_.push_back(Tensor::empty({size.rows, size.tokens, width}, dtype, device));
    memory_.push_back(Tensor::empty({size.sentences, size.source_length, width}, dtype, device));
  }
  origins_ = Tensor::zeros({size.rows, size.tokens}, DType::int32, device);
  lengths_ = Tensor::zeros({size.sentences}, DType::int64, device);
  sentence_of_ = Tensor::zeros({size.rows}, DType::int32, device);
  state_ = Tensor::zeros({1 + 2 * size.rows}, DType::int64, device);
  chosen_ = Tensor::zeros({size.tokens * size.rows}, DType::int64, device);
  chosen_scores_ = Tensor::zeros({size.tokens * size.rows}, DType::float32, device);
  top_tokens_ = Tensor::zeros({size.rows * size.best}, DType::int64, device);
  top_logits_ = Tensor::zeros({size.rows * size.best}, DType::float32, device);
  logsumexp_ = Tensor::zeros({size.rows}, DType::float32, device);
}

void DecodingRoom::set_memory(std::size_t layer, const Tensor& keys_values) {
  memory_[layer].slice(0, 0, keys_values.size(0)).slice(1, 0, keys_values.size(1)).copy_from(keys_values);
}

void DecodingRoom::set_lengths(const std::vector<std::int64_t>& lengths) {
  lengths_.copy_from(padded_with_zeros(lengths, size_.sentences));
}

void DecodingRoom::set_sentences(const std::vector<std::int64_t>& sentence_of) {
  sentence_of_.copy_from(padded_with_zeros(sentence_of, size_.rows).to(DType::int32));
}

void DecodingRoom::set_state(std::int64_t position, const std::vector<std::int64_t>& tokens,
                             const std::vector<std::int64_t>& parents) {
  const Tensor state = Tensor::zeros({1 + 2 * size_.rows}, DType::int64);
  auto* values = state.data<std::int64_t>();
  *values++ = position;
  std::copy(tokens.begin(), tokens.end(), values);
  std::copy(parents.begin(), parents.end(), values + size_.rows);
  state_.copy_from(state);
}

void DecodingRoom::keep_rows(const std::vector<std::int64_t>& kept) {
  const auto rows = static_cast<std::int64_t>(kept.size());
  const Tensor indices = Tensor::from(kept, {rows}).to(decoder_.device());
  for (Tensor& table : {std::ref(origins_), std::ref(sentence_of_)}) {
    table.slice(0, 0, rows).copy_from(gather_rows(table, indices));
  }
  newest(rows).copy_from(gather_rows(newest(size_.rows), indices));
}

std::int64_t DecodingRoom::padded(std::int64_t rows) const {
  std::int64_t size = size_.rows;
  while (size > kSmallStep && size / 2 >= rows) size /= 2;
  return size;
}

void DecodingRoom::step(std::int64_t rows) {
  const std::int64_t size = padded(rows);
  Step& step = steps_[size];
  ++step.uses;
  if (step.uses == 1) return compute(size);
  if (!step.graph.defined()) step.graph = DeviceGraph(decoder_.device(), [this, size] { compute(size); });
  step.graph.replay();
}

// One token through the decoder in each of the first `rows` rows.
void DecodingRoom::compute(std::int64_t rows) const {
  const TranslationModelOptions& options = decoder_.model_.options();
  const bool chooses = size_.best == 1;
  // Hypotheses go on from others: what is theirs is known by where it lies, and stays there.
  if (!chooses) origins_.slice(0, 0, rows).copy_from(gather_rows(origins_, parents(rows)));
  const double scale = options.scale_embedding ? std::sqrt(static_cast<double>(options.d_model)) : 1.0;
  Tensor x = embed_step(decoder_.embedding_, newest(rows), decoder_.positions_, position(), scale);
  for (std::size_t i = 0; i < decoder_.layers_.size(); ++i) {
    const StepLayer& layer = decoder_.layers_[i];
    x = normed_rows(attend_self(i, x), layer.self_norm);
    x = normed_rows(attend_memory(i, x), layer.cross_norm);
    const Tensor hidden = layer.first(x, options.activation);
    x = normed_rows(layer.second(hidden, Activation::none, x), layer.last_norm);
  }
  top_tokens(decoder_.output_(x), options.pad_token_id, top(rows));
  if (chooses) take_best(top(rows), newest(rows), history(rows), position());
}

Tensor DecodingRoom::attend_self(std::size_t layer, const Tensor& x) const {
  const StepLayer& weights = decoder_.layers_[layer];
  const Tensor attended = self_attention_step(weights.self_in(x), {past_[layer], origins_.slice(0, 0, x.size(0))},
                                              position(), decoder_.model_.options().decoder_attention_heads);
  return weights.self_out(attended, Activation::none, x);
}

Tensor DecodingRoom::attend_memory(std::size_t layer, const Tensor& x) const {
  const StepLayer& weights = decoder_.layers_[layer];
  const Tensor attended =
      cross_attention_step(weights.cross_query(x), {memory_[layer], lengths_, sentence_of_.slice(0, 0, x.size(0))},
                           decoder_.model_.options().decoder_attention_heads);
  return weights.cross_out(attended, Activation::none, x);
}

GreedyHistory DecodingRoom::history(std::int64_t rows) const {
  const std::int64_t values = size_.tokens * rows;
  return {chosen_.slice(0, 0, values).view({size_.tokens, rows}),
          chosen_scores_.slice(0, 0, values).view({size_.tokens, rows})};
}

TopTokens DecodingRoom::top(std::int64_t rows) const {
  const std::int64_t values = rows * size_.best;
  return {top_tokens_.slice(0, 0, values).view({rows, size_.best}),
          top_logits_.slice(0, 0, values).view({rows, size_.best}), logsumexp_.slice(0, 0, rows)};
}

DeviceDecoding::DeviceDecoding(const StepDecoder& decoder, const std::vector<const std::vector<std::int64_t>*>& sources,
                               std::int64_t beam, std::int64_t most_tokens)
    : decoder_(decoder), rows_(static_cast<std::int64_t>(sources.size())) {
  constexpr std::int64_t kLengths = 32;  // rooms have a multiple of it, so that the next batch finds one that holds it
  const EncodedSources encoded(decoder.model_, sources);
  const std::int64_t sentences = power_of_two_from(rows_);
  room_ = decoder.take_room({.sentences = sentences,
                             .rows = sentences * power_of_two_from(beam),
                             .source_length = divide_up(encoded.memory.size(1), kLengths) * kLengths,
                             .tokens = divide_up(most_tokens, kLengths) * kLengths,
                             .best = beam == 1 ? 1 : 2 * beam});
  for (std::size_t i = 0; i < decoder.layers_.size(); ++i) {
    const StepLayer& layer = decoder.layers_[i];
    room_->set_memory(i, linear(encoded.memory, layer.cross_memory_weight, layer.cross_memory_bias));
  }
  room_->set_lengths(encoded.lengths);
  for (std::int64_t row = 0; row < rows_; ++row) sentences_.push_back(row);
  room_->set_sentences(sentences_);
  const std::vector<std::int64_t> start(sources.size(), decoder.model_.options().decoder_start_token_id);
  room_->set_state(0, start, sentences_);
}

DeviceDecoding::~DeviceDecoding() { decoder_.give_room_back(std::move(room_)); }

DeviceDecoding::Chosen DeviceDecoding::take_steps(std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) room_->step(rows_);
  const GreedyHistory history = room_->history(room_->padded(rows_));
  const auto newest = [&](const Tensor& all) { return all.slice(0, length_, length_ + steps).to(Device::cpu()); };
  Chosen chosen = {newest(history.tokens), newest(history.scores)};
  length_ += steps;
  return chosen;
}

void DeviceDecoding::keep_rows(const std::vector<std::int64_t>& kept) {
  rows_ = static_cast<std::int64_t>(kept.size());
  room_->keep_rows(kept);
}

TopTokens DeviceDecoding::step(const Rows& rows) {
  const auto count = static_cast<std::int64_t>(rows.tokens.size());
  if (rows.sentences != sentences_) {
    sentences_ = rows.sentences;
    room_->set_sentences(sentences_);
  }
  room_->set_state(length_, rows.tokens, rows.parents);
  room_->step(count);
  ++length_;
  const TopTokens top = room_->top(count);
  return {top.tokens.to(Device::cpu()), top.logits.to(Device::cpu()), top.logsumexp.to(Device::cpu())};
}

}  // namespace headway::inline v0::internal
