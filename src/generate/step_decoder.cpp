#include "generate/step_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/check.h"
#include "generate/device_decoding.h"
#include "headway/attention.h"
#include "headway/autograd.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kFirstTokens = 32;

std::size_t count(std::int64_t value) { return static_cast<std::size_t>(value); }

// keys (first = 0) or values (first = d_model) of caches [rows, tokens, 2 * d_model] as [rows, heads, tokens,
// head_dim].
Tensor heads_of(const Tensor& cache, std::int64_t first, std::int64_t d_model, std::int64_t heads) {
  return cache.slice(2, first, first + d_model)
      .view({cache.size(0), cache.size(1), heads, d_model / heads})
      .transpose(1, 2);
}

Tensor normed(const Tensor& x, const Norm& norm) { return layer_norm(x, norm.weight, norm.bias); }

// Reads parameters of one layer by name.
class LayerReader {
 public:
  LayerReader(const StateDict& state, std::size_t layer)
      : state_(state), prefix_("decoder.layers." + std::to_string(layer) + ".") {}

  Tensor get(const std::string& name) const { return state_.at(prefix_ + name).detach(); }
  StepProduct product(const std::string& weight, const std::string& bias) const { return {get(weight), get(bias)}; }
  Norm norm(const std::string& name) const { return {get(name + ".weight"), get(name + ".bias")}; }

 private:
  const StateDict& state_;
  std::string prefix_;
};

StepLayer make_layer(const LayerReader& reader, std::int64_t d_model) {
  StepLayer layer;
  layer.self_in = reader.product("self_attn.in_proj_weight", "self_attn.in_proj_bias");
  layer.self_out = reader.product("self_attn.out_proj.weight", "self_attn.out_proj.bias");
  layer.self_norm = reader.norm("norm1");
  const Tensor weight = reader.get("multihead_attn.in_proj_weight"), bias = reader.get("multihead_attn.in_proj_bias");
  layer.cross_query = StepProduct(weight.slice(0, 0, d_model), bias.slice(0, 0, d_model));
  layer.cross_memory_weight = weight.slice(0, d_model, 3 * d_model);
  layer.cross_memory_bias = bias.slice(0, d_model, 3 * d_model);
  layer.cross_out = reader.product("multihead_attn.out_proj.weight", "multihead_attn.out_proj.bias");
  layer.cross_norm = reader.norm("norm2");
  layer.first = reader.product("linear1.weight", "linear1.bias");
  layer.second = reader.product("linear2.weight", "linear2.bias");
  layer.last_norm = reader.norm("norm3");
  return layer;
}

}  // namespace

StepDecoder::StepDecoder(const TranslationModel& model) : model_(model) {
  const NoGradGuard guard;
  const StateDict state = model.state_dict();
  const Tensor weight = state.at("shared.weight");
  check(weight.dtype() == DType::float32 || !weight.device().is_cpu(), "search: the model is of ", weight.dtype(),
        " on the CPU, expected float32");
  for (const auto& [name, tensor] : state) versions_.emplace_back(tensor, tensor.version());
  const TranslationModelOptions& options = model.options();
  for (std::int64_t i = 0; i < options.decoder_layers; ++i) {
    layers_.push_back(make_layer(LayerReader(state, count(i)), options.d_model));
  }
  embedding_ = weight.detach().contiguous();
  output_ = StepProduct(embedding_, state.at("final_logits_bias").detach().reshape({options.vocab_size}));
  positions_ = sinusoidal_positions(options.max_position_embeddings, options.d_model, Sinusoid::halves)
                   .to(embedding_.dtype())
                   .to(embedding_.device());
}

StepDecoder::~StepDecoder() = default;

bool StepDecoder::is_current() const {
  const StateDict state = model_.state_dict();
  std::size_t i = 0;
  for (const auto& [name, tensor] : state) {
    const auto& [made_from, version] = versions_[i++];
    if (tensor.raw_data() != made_from.raw_data() || tensor.version() != version) return false;
  }
  return true;
}

std::unique_ptr<DecodingRoom> StepDecoder::take_room(const RoomSize& size) const {
  {
    const std::lock_guard lock(room_mutex_);
    for (auto room = idle_rooms_.begin(); room != idle_rooms_.end(); ++room) {
      const bool holds = (*room)->size().holds(size);
      if (!holds && (*room)->size().best != size.best) continue;
      std::unique_ptr<DecodingRoom> found = std::move(*room);
      idle_rooms_.erase(room);
      if (holds) return found;
      break;  // its memory serves the larger one
    }
  }
  return std::make_unique<DecodingRoom>(*this, size);
}

void StepDecoder::give_room_back(std::unique_ptr<DecodingRoom> room) const {
  constexpr std::size_t kMostIdle = 2;  // one for greedy search and one for beams
  const std::lock_guard lock(room_mutex_);
  if (idle_rooms_.size() == kMostIdle) idle_rooms_.erase(idle_rooms_.begin());
  idle_rooms_.push_back(std::move(room));
}

EncodedSources::EncodedSources(const TranslationModel& model,
                               const std::vector<const std::vector<std::int64_t>*>& sources) {
  const auto sentences = static_cast<std::int64_t>(sources.size());
  std::size_t longest = 0;
  for (const auto* source : sources) longest = std::max(longest, source->size());
  const Tensor ids = Tensor::full({sentences, static_cast<std::int64_t>(longest)},
                                  static_cast<double>(model.options().pad_token_id), DType::int64);
  std::int64_t* row = ids.data<std::int64_t>();
  for (const auto* source : sources) {
    std::copy(source->begin(), source->end(), row);
    row += longest;
    lengths.push_back(static_cast<std::int64_t>(source->size()));
    is_padded = is_padded || source->size() < longest;
  }
  memory = model.encode(ids, lengths).output;
}

DecodingBatch::DecodingBatch(const StepDecoder& decoder, const std::vector<const std::vector<std::int64_t>*>& sources)
    : decoder_(decoder),
      d_model_(decoder.model_.options().d_model),
      heads_(decoder.model_.options().decoder_attention_heads),
      sentences_(static_cast<std::int64_t>(sources.size())),
      rows_(sentences_) {
  EncodedSources encoded(decoder.model_, sources);
  if (encoded.is_padded) key_lengths_ = Tensor::from(encoded.lengths, {sentences_});
  source_lengths_ = std::move(encoded.lengths);
  for (const StepLayer& layer : decoder.layers_) {
    memory_.push_back(linear(encoded.memory, layer.cross_memory_weight, layer.cross_memory_bias));
  }
  past_.resize(decoder.layers_.size());
}

Tensor DecodingBatch::embed(const std::vector<std::int64_t>& tokens) const {
  const Tensor x = Tensor::empty({rows_, d_model_});
  const float scale = decoder_.model_.options().scale_embedding ? std::sqrt(static_cast<float>(d_model_)) : 1.0F;
  const float* position = decoder_.positions_.data<float>() + length_ * d_model_;
  const float* table = decoder_.embedding_.data<float>();
  float* to = x.data<float>();
  for (const std::int64_t token : tokens) {
    const float* from = table + token * d_model_;
    for (std::int64_t i = 0; i < d_model_; ++i) to[i] = from[i] * scale + position[i];
    to += d_model_;
  }
  return x;
}

Tensor DecodingBatch::step(const std::vector<std::int64_t>& tokens) {
  const StepDecoder& decoder = decoder_;
  if (rows_ > row_capacity_ || length_ + 1 > token_capacity_) make_room(rows_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    origin_[count(row * token_capacity_ + length_)] = static_cast<std::int32_t>(row);
  }
  Tensor x = embed(tokens);
  for (std::size_t i = 0; i < decoder.layers_.size(); ++i) {
    const StepLayer& layer = decoder.layers_[i];
    x = normed(attend_self(i, x), layer.self_norm);
    x = normed(attend_memory(i, x), layer.cross_norm);
    const Tensor hidden = layer.first(x, decoder.model_.options().activation);
    x = normed(layer.second(hidden, Activation::none, x), layer.last_norm);
  }
  ++length_;
  return decoder.output_(x);
}

Tensor DecodingBatch::attend_self(std::size_t layer, const Tensor& x) {
  const StepLayer& weights = decoder_.layers_[layer];
  const Tensor projected = weights.self_in(x);  // (rows, 3 * d_model)
  append(layer, projected);
  const Tensor past = past_[layer].slice(0, 0, rows_).slice(1, 0, length_ + 1);
  const Tensor query = projected.slice(1, 0, d_model_).view({rows_, 1, heads_, d_model_ / heads_}).transpose(1, 2);
  const Tensor attended =
      attention(query, heads_of(past, 0, d_model_, heads_), heads_of(past, d_model_, d_model_, heads_)).output;
  return weights.self_out(attended.transpose(1, 2).reshape({rows_, d_model_}), Activation::none, x);
}

Tensor DecodingBatch::attend_memory(std::size_t layer, const Tensor& x) const {
  const StepLayer& weights = decoder_.layers_[layer];
  const std::int64_t beams = rows_ / sentences_;
  // The beams of a sentence are queries to one set of keys.
  const Tensor query = weights.cross_query(x).view({sentences_, beams, heads_, d_model_ / heads_}).transpose(1, 2);
  AttentionOptions options;
  if (key_lengths_.defined()) options.key_lengths = key_lengths_;
  const Tensor attended = attention(query, heads_of(memory_[layer], 0, d_model_, heads_),
                                    heads_of(memory_[layer], d_model_, d_model_, heads_), options)
                              .output;
  return weights.cross_out(attended.transpose(1, 2).reshape({rows_, d_model_}), Activation::none, x);
}

// Puts the keys and values of the newest token at the end of every row's past.
void DecodingBatch::append(std::size_t layer, const Tensor& projected) {
  const float* from = projected.data<float>() + d_model_;
  float* to = past_[layer].data<float>() + length_ * 2 * d_model_;
  for (std::int64_t row = 0; row < rows_; ++row) {
    std::memcpy(to, from, count(2 * d_model_) * sizeof(float));
    from += 3 * d_model_;
    to += token_capacity_ * 2 * d_model_;
  }
}

// Caches for so many rows and one more token.
void DecodingBatch::make_room(std::int64_t rows) {
  const std::int64_t tokens =
      std::max({kFirstTokens, token_capacity_, length_ + 1 > token_capacity_ ? 2 * length_ : 0});
  const std::int64_t old_rows = std::min(rows_, row_capacity_);
  std::vector<std::int32_t> origin(count(rows * tokens), -1);
  for (std::int64_t row = 0; row < old_rows; ++row) {
    std::copy_n(origin_.begin() + row * token_capacity_, length_, origin.begin() + row * tokens);
  }
  for (Tensor& cache : past_) {
    const Tensor larger = Tensor::empty({rows, tokens, 2 * d_model_});
    for (std::int64_t row = 0; row < old_rows && length_ > 0; ++row) {
      std::memcpy(larger.data<float>() + row * tokens * 2 * d_model_,
                  cache.data<float>() + row * token_capacity_ * 2 * d_model_,
                  count(length_ * 2 * d_model_) * sizeof(float));
    }
    cache = larger;
  }
  origin_ = std::move(origin);
  row_capacity_ = rows;
  token_capacity_ = tokens;
}

void DecodingBatch::reorder(const std::vector<std::int64_t>& parents, const std::vector<std::int64_t>& sentences) {
  const auto rows = static_cast<std::int64_t>(parents.size());
  if (rows > row_capacity_) make_room(rows);
  move_rows(parents);
  rows_ = rows;
  if (static_cast<std::int64_t>(sentences.size()) != sentences_) keep_sentences(sentences);
}

void DecodingBatch::move_rows(const std::vector<std::int64_t>& parents) {
  // Runs of tokens that differ between what a row holds and what it shall hold.
  struct Copy {
    std::int64_t from, to, first, last;
  };
  std::vector<Copy> copies;
  std::int64_t tokens = 0;
  const auto origin = [&](std::int64_t row, std::int64_t token) {
    return origin_[count(row * token_capacity_ + token)];
  };
  for (std::size_t i = 0; i < parents.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const std::int64_t from = parents[i];
    if (from == row) continue;
    for (std::int64_t t = 0; t < length_;) {
      if (origin(row, t) == origin(from, t)) {
        ++t;
        continue;
      }
      const std::int64_t first = t;
      while (t < length_ && origin(row, t) != origin(from, t)) ++t;
      copies.push_back({from, row, first, t});
      tokens += t - first;
    }
  }
  // All is read before anything is written: rows may change places.
  const std::int64_t width = 2 * d_model_;
  if (held_.size() < count(tokens * width)) held_.resize(count(tokens * width));
  for (const Tensor& cache : past_) {
    float* data = cache.data<float>();
    float* next = held_.data();
    for (const Copy& copy : copies) {
      const std::int64_t values = (copy.last - copy.first) * width;
      std::memcpy(next, data + (copy.from * token_capacity_ + copy.first) * width, count(values) * sizeof(float));
      next += values;
    }
    next = held_.data();
    for (const Copy& copy : copies) {
      const std::int64_t values = (copy.last - copy.first) * width;
      std::memcpy(data + (copy.to * token_capacity_ + copy.first) * width, next, count(values) * sizeof(float));
      next += values;
    }
  }
  std::vector<std::int32_t> origins;
  for (const Copy& copy : copies) {
    for (std::int64_t t = copy.first; t < copy.last; ++t) origins.push_back(origin(copy.from, t));
  }
  auto next = origins.begin();
  for (const Copy& copy : copies) {
    std::copy_n(next, copy.last - copy.first, origin_.begin() + copy.to * token_capacity_ + copy.first);
    next += copy.last - copy.first;
  }
}

void DecodingBatch::keep_sentences(const std::vector<std::int64_t>& sentences) {
  const auto left = static_cast<std::int64_t>(sentences.size());
  for (Tensor& memory : memory_) {
    const std::int64_t values = memory.size(1) * memory.size(2);
    float* data = memory.data<float>();
    for (std::int64_t i = 0; i < left; ++i) {
      const std::int64_t from = sentences[count(i)];
      if (from != i) std::memcpy(data + i * values, data + from * values, count(values) * sizeof(float));
    }
    memory = memory.slice(0, 0, left);
  }
  for (std::int64_t i = 0; i < left; ++i) source_lengths_[count(i)] = source_lengths_[count(sentences[count(i)])];
  source_lengths_.resize(sentences.size());
  sentences_ = left;
  if (key_lengths_.defined()) key_lengths_ = Tensor::from(source_lengths_, {left});
}

}  // namespace headway::inline v0::internal
