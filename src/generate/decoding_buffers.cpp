#include "generate/decoding_buffers.h"

#include <algorithm>
#include <functional>

namespace headway::inline v0::internal {
namespace {

// Up to this many rows a step on a device takes no longer than with fewer.
constexpr std::int64_t kSmallStep = 128;

Tensor normed(const Tensor& x, const NormWeights& norm) { return layer_norm(x, norm.weight, norm.bias); }

// `values` and then zeros: int64 (count).
Tensor padded_with_zeros(const std::vector<std::int64_t>& values, std::int64_t count) {
  std::vector<std::int64_t> all = values;
  all.resize(static_cast<std::size_t>(count));
  return Tensor::from(all, {count});
}

}  // namespace

DecodingBuffers::DecodingBuffers(const DecoderWeights& weights, const BufferSize& size)
    : weights_(weights), size_(size) {
  const Device device = weights.device();
  const DType dtype = weights.embedding.dtype();
  const std::int64_t width = 2 * weights.width();
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    past_.push_back(Tensor::empty({size.rows, size.tokens, width}, dtype, device));
    memory_.push_back(Tensor::empty({size.sources, size.source_length, width}, dtype, device));
  }
  origins_ = Tensor::zeros({size.rows, size.tokens}, DType::int32, device);
  lengths_ = Tensor::zeros({size.sources}, DType::int64, device);
  source_of_ = Tensor::zeros({size.rows}, DType::int32, device);
  state_ = Tensor::zeros({1 + 2 * size.rows}, DType::int64, device);
  chosen_tokens_ = Tensor::zeros({size.tokens * size.rows}, DType::int64, device);
  chosen_scores_ = Tensor::zeros({size.tokens * size.rows}, DType::float32, device);
  top_tokens_ = Tensor::zeros({size.rows * size.best}, DType::int64, device);
  top_logits_ = Tensor::zeros({size.rows * size.best}, DType::float32, device);
  logsumexp_ = Tensor::zeros({size.rows}, DType::float32, device);
}

void DecodingBuffers::reserve(std::int64_t tokens) {
  const std::int64_t before = size_.tokens;
  if (tokens <= before) return;
  size_.tokens = std::max(tokens, 2 * before);
  const auto grow = [&](Tensor& buffer) {  // (rows, tokens, ...)
    Shape shape = buffer.shape();
    shape[1] = size_.tokens;
    const Tensor larger = Tensor::empty(shape, buffer.dtype(), buffer.device());
    larger.slice(1, 0, before).copy_from(buffer);
    buffer = larger;
  };
  for (Tensor& past : past_) grow(past);
  grow(origins_);
  chosen_tokens_ = Tensor::zeros({size_.tokens * size_.rows}, DType::int64, weights_.device());
  chosen_scores_ = Tensor::zeros({size_.tokens * size_.rows}, DType::float32, weights_.device());
  steps_.clear();  // they were recorded on the buffers before
}

void DecodingBuffers::set_sources(const Tensor& memory, const std::vector<std::int64_t>& lengths) {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const DecoderLayerWeights& layer = weights_.layers[i];
    memory_[i]
        .slice(0, 0, memory.size(0))
        .slice(1, 0, memory.size(1))
        .copy_from(linear(memory, layer.cross_memory_weight, layer.cross_memory_bias));
  }
  lengths_.copy_from(padded_with_zeros(lengths, size_.sources));
}

void DecodingBuffers::set_source_of(const std::vector<std::int64_t>& source_of) {
  source_of_.copy_from(padded_with_zeros(source_of, size_.rows).to(DType::int32));
}

void DecodingBuffers::set_state(std::int64_t position, const std::vector<std::int64_t>& tokens,
                                const std::vector<std::int64_t>& parents) {
  const Tensor state = Tensor::zeros({1 + 2 * size_.rows}, DType::int64);
  auto* values = state.data<std::int64_t>();
  *values++ = position;
  std::copy(tokens.begin(), tokens.end(), values);
  std::copy(parents.begin(), parents.end(), values + size_.rows);
  state_.copy_from(state);
}

void DecodingBuffers::keep_rows(const std::vector<std::int64_t>& kept) {
  const auto rows = static_cast<std::int64_t>(kept.size());
  const Tensor indices = Tensor::from(kept, {rows}).to(weights_.device());
  for (Tensor& table : {std::ref(origins_), std::ref(source_of_)}) {
    table.slice(0, 0, rows).copy_from(gather_rows(table, indices));
  }
  newest(rows).copy_from(gather_rows(newest(size_.rows), indices));
}

std::int64_t DecodingBuffers::padded(std::int64_t rows) const {
  if (weights_.device().is_cpu()) return rows;
  std::int64_t size = size_.rows;
  while (size > kSmallStep && size / 2 >= rows) size /= 2;
  return size;
}

void DecodingBuffers::step(std::int64_t rows) {
  const std::int64_t size = padded(rows);
  Step& step = steps_[size];
  ++step.uses;
  if (step.uses == 1) return compute(size);
  if (!step.graph.defined()) step.graph = DeviceGraph(weights_.device(), [this, size] { compute(size); });
  step.graph.replay();
}

// One token through the decoder in each of the first `rows` rows.
void DecodingBuffers::compute(std::int64_t rows) const {
  const bool chooses = size_.best == 1;
  // Hypotheses continue others. Keys and values stay in their rows; the table of origins says in which.
  if (!chooses) origins_.slice(0, 0, rows).copy_from(gather_rows(origins_, parents(rows)));
  Tensor x = embed_step(weights_.embedding, newest(rows), weights_.positions, position(), weights_.embedding_scale);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const DecoderLayerWeights& layer = weights_.layers[i];
    x = normed(attend_self(i, x), layer.self_norm);
    x = normed(attend_source(i, x), layer.cross_norm);
    const Tensor hidden = linear_step(x, layer.first, weights_.activation);
    x = normed(linear_step(hidden, layer.second, Activation::none, x), layer.last_norm);
  }
  top_tokens(linear_step(x, weights_.output), weights_.excluded_token, top(rows));
  if (chooses) take_best(top(rows), newest(rows), history(rows), position());
}

Tensor DecodingBuffers::attend_self(std::size_t layer, const Tensor& x) const {
  const DecoderLayerWeights& weights = weights_.layers[layer];
  const Tensor attended = self_attention_step(
      linear_step(x, weights.self_in), {past_[layer], origins_.slice(0, 0, x.size(0))}, position(), weights_.heads);
  return linear_step(attended, weights.self_out, Activation::none, x);
}

Tensor DecodingBuffers::attend_source(std::size_t layer, const Tensor& x) const {
  const DecoderLayerWeights& weights = weights_.layers[layer];
  const Tensor attended =
      cross_attention_step(linear_step(x, weights.cross_query),
                           {memory_[layer], lengths_, source_of_.slice(0, 0, x.size(0))}, weights_.heads);
  return linear_step(attended, weights.cross_out, Activation::none, x);
}

GreedyHistory DecodingBuffers::history(std::int64_t rows) const {
  const std::int64_t values = size_.tokens * rows;
  return {chosen_tokens_.slice(0, 0, values).view({size_.tokens, rows}),
          chosen_scores_.slice(0, 0, values).view({size_.tokens, rows})};
}

TopTokens DecodingBuffers::top(std::int64_t rows) const {
  const std::int64_t values = rows * size_.best;
  return {top_tokens_.slice(0, 0, values).view({rows, size_.best}),
          top_logits_.slice(0, 0, values).view({rows, size_.best}), logsumexp_.slice(0, 0, rows)};
}

}  // namespace headway::inline v0::internal
