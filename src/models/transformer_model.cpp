// TransformerModel: checks, the stacks, what the head is given.
#include "headway/transformer_model.h"

#include <utility>

#include "base/check.h"
#include "dist/sequence_guard.h"
#include "models/model_initial_values.h"
#include "models/model_input.h"
#include "models/text_rows.h"
#include "models/transformer_model_parts.h"
#include "nn/attention_masks.h"
#include "nn/initial_values.h"

namespace headway::inline v0 {

using internal::check;
using internal::first_rows;
using internal::last_rows;
using internal::lengths_of;
using internal::mean_rows;
using internal::padded_rows;
using internal::StackInput;
using internal::StackResult;
using internal::TextRows;

namespace internal {
namespace {

void check_transformer_options(const TransformerModelOptions& options) {
  constexpr std::int64_t kMostWords = std::int64_t{1} << 24;
  const bool reads_features = options.encoder.front.kind != FrontKind::tokens && options.kind != ModelKind::decoder;
  const std::int64_t fewest = reads_features && options.kind == ModelKind::encoder ? 0 : 1;
  check(options.vocab_size >= fewest && options.vocab_size <= kMostWords, "TransformerModel: vocab_size is ",
        options.vocab_size, ", expected ", fewest, " to 2^24");
  check(options.decoder.front.kind == FrontKind::tokens, "TransformerModel: the decoder has a front, expected tokens");
  check(!reads_features || !options.separate_embeddings,
        "TransformerModel: separate_embeddings is set, and the encoder reads features");
  check(!options.padding_row || (*options.padding_row >= 0 && *options.padding_row < options.vocab_size),
        "TransformerModel: padding_row is ", options.padding_row.value_or(0), ", expected one of the vocabulary's ",
        options.vocab_size);
  check(options.kind == ModelKind::encoder_decoder || !options.memory_projection,
        "TransformerModel: memory_projection is set, and the model has one stack");
  check(options.kind != ModelKind::encoder_decoder || options.memory_projection ||
            options.encoder.width == options.decoder.width,
        "TransformerModel: the encoder's width is ", options.encoder.width, " and the decoder's ",
        options.decoder.width, ", expected one width");
  const auto check_layers = [&](const char* name, const StackOptions& stack, bool crosses) {
    for (std::size_t i = 0; i < stack.layers.size(); ++i) {
      check(stack.layers[i].cross_attention == crosses, "TransformerModel: ", name, " layer ", i,
            crosses ? " has no" : " has", " cross_attention, expected it in an encoder-decoder alone");
    }
  };
  check_layers("encoder", options.encoder, false);
  check_layers("decoder", options.decoder, options.kind == ModelKind::encoder_decoder);
  check(!options.separate_embeddings || options.kind == ModelKind::encoder_decoder,
        "TransformerModel: separate_embeddings is set, and the model has one stack");
}

}  // namespace

TransformerModel make_transformer_model(const TransformerModelOptions& options, std::string family, std::string config,
                                        std::string generation_config, DType dtype, bool with_initial_values) {
  check_transformer_options(options);
  const SkipInitialValues guard;  // drawn below, or read from a file
  auto parts = std::make_shared<TransformerModel::Parts>();
  parts->options = options;
  parts->family = std::move(family);
  parts->config = std::move(config);
  parts->generation_config = std::move(generation_config);
  const bool has_encoder = options.kind != ModelKind::decoder, has_decoder = options.kind != ModelKind::encoder;
  const StackOptions& last = has_decoder ? options.decoder : options.encoder;
  const bool has_embedding = has_decoder || options.encoder.front.kind == FrontKind::tokens;
  if (has_embedding && !options.separate_embeddings) {
    parts->embedding.emplace(EmbeddingOptions{
        .count = options.vocab_size, .width = last.width, .padding_index = options.padding_row, .dtype = dtype});
  }
  if (has_encoder) parts->encoder.emplace(options.encoder, options, parts->embedding, /*is_decoder=*/false, dtype);
  if (has_decoder) parts->decoder.emplace(options.decoder, options, parts->embedding, /*is_decoder=*/true, dtype);
  if (options.memory_projection) {
    parts->memory_projection.emplace(
        LinearOptions{.in_features = options.encoder.width, .out_features = options.decoder.width, .dtype = dtype});
  }
  if (options.pooler) {
    parts->pooler.emplace(LinearOptions{
        .in_features = last.width, .out_features = last.width, .activation = Activation::tanh, .dtype = dtype});
  }
  if (options.head.kind != HeadKind::none) {
    HeadOptions head = options.head;
    if (head.labels == 0 && head.kind == HeadKind::language_model) head.labels = options.vocab_size;
    if (head.labels == 0 && head.kind == HeadKind::span) head.labels = 2;
    parts->head.emplace(head, last, (has_decoder ? parts->decoder : parts->encoder)->embedding(), dtype);
  }
  const TransformerModel model(parts);
  if (with_initial_values) set_initial_values(model, options);
  return model;
}

}  // namespace internal

void ModelCache::reorder(const std::vector<std::int64_t>& entries) {
  for (KeyValueCache& cache : self_attention) cache.reorder(entries);
  for (KeyValueCache& cache : memory_attention) cache.reorder(entries);
}

TransformerModel::TransformerModel(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {
  if (parts_->embedding) add_module("embedding", *parts_->embedding);
  if (parts_->encoder) add_module("encoder", *parts_->encoder);
  if (parts_->decoder) add_module("decoder", *parts_->decoder);
  if (parts_->memory_projection) add_module("memory_projection", *parts_->memory_projection);
  if (parts_->pooler) add_module("pooler", *parts_->pooler);
  if (parts_->head) add_module("head", *parts_->head);
}

const TransformerModelOptions& TransformerModel::options() const { return parts_->options; }
const std::string& TransformerModel::family() const { return parts_->family; }
const std::string& TransformerModel::generation_config() const { return parts_->generation_config; }

namespace {

// Pooled states and logits of the last hidden states, whose texts lie as `text` says.
void finish_model(const char* function, const TransformerModel::Parts& parts, const StackInput& text, bool last_only,
                  ModelResult& result) {
  using Pooling = HeadOptions::Pooling;
  const HeadOptions& head = parts.options.head;
  const bool classifies_texts = head.kind == HeadKind::sequence;
  if (!parts.pooler && !parts.head) return;
  if (parts.pooler || classifies_texts || last_only) {
    internal::check_not_cut(function, "what one token of a text says for all, as a pooler or a classifier's head,");
  }
  TextRows texts;
  if (parts.pooler || classifies_texts || last_only) texts = internal::rows_of(text);
  if (parts.pooler) result.pooled = parts.pooler->forward(first_rows(function, result.hidden, texts));
  if (!parts.head) return;
  Tensor chosen = result.hidden;
  if (classifies_texts) {
    if (head.pooling == Pooling::mean) {
      chosen = mean_rows(result.hidden, texts);
    } else if (head.pooling == Pooling::last) {
      chosen = last_rows(function, result.hidden, texts);
    } else {
      chosen = parts.pooler ? result.pooled : first_rows(function, result.hidden, texts);
    }
  } else if (last_only) {
    chosen = last_rows(function, result.hidden, texts).unsqueeze(1);
  }
  result.logits = parts.head->forward(chosen);
}

constexpr const char* kForward = "TransformerModel::forward";
constexpr const char* kEncode = "TransformerModel::encode";
constexpr const char* kDecode = "TransformerModel::decode";

// The encoder's hidden states as the decoder reads them: padded, with their lengths.
void set_memory(const StackInput& source, const Tensor& hidden, StackInput& target) {
  if (!source.packed.defined()) {
    target.memory = hidden;
    target.memory_lengths = source.lengths;
    target.memory_padding_mask = source.padding_mask;
    return;
  }
  internal::check_not_cut(kForward, "a packed batch of sources");
  const TextRows texts = internal::rows_of(source);
  target.memory = padded_rows(hidden, texts);
  target.memory_lengths = lengths_of(texts);
}

}  // namespace

ModelResult TransformerModel::forward(const ModelInput& input) const {
  const TransformerModelOptions& options = parts_->options;
  const bool is_decoder = options.kind == ModelKind::decoder;
  const StackOptions& stack = is_decoder ? options.decoder : options.encoder;
  const StackInput text = internal::checked_tokens(kForward, input, options, stack, 0);
  check(!input.last_only || options.kind != ModelKind::encoder, kForward,
        ": last_only is set, and the model has no decoder");
  ModelResult result;
  StackResult first = internal::run_stack(is_decoder ? *parts_->decoder : *parts_->encoder, stack, kForward, text);
  (is_decoder ? result.decoder_weights : result.encoder_weights) = std::move(first.weights);
  if (options.kind != ModelKind::encoder_decoder) {
    check(!input.target.defined(), kForward, ": target is given, and the model is no encoder-decoder");
    result.hidden = first.hidden;
    finish_model(kForward, *parts_, text, input.last_only, result);
    return result;
  }
  if (parts_->memory_projection) first.hidden = parts_->memory_projection->forward(first.hidden);
  result.memory = first.hidden;
  StackInput target = internal::checked_text(kForward, {"target", "target_lengths", "target_padding_mask"},
                                             input.target, input.target_lengths, input.target_padding_mask, options, 0);
  set_memory(text, first.hidden, target);
  check(target.memory.size(0) == input.target.size(0), kForward, ": target is ", input.target,
        ", expected one row for each of ", target.memory.size(0), " texts");
  target.weights = input.weights;
  StackResult second = parts_->decoder->forward(kForward, target);
  result.hidden = second.hidden;
  result.decoder_weights = std::move(second.weights);
  result.cross_weights = std::move(second.cross_weights);
  finish_model(kForward, *parts_, target, input.last_only, result);
  return result;
}

ModelResult TransformerModel::encode(const ModelInput& input) const {
  check(parts_->encoder.has_value(), kEncode, ": the model has no encoder");
  const StackInput text = internal::checked_tokens(kEncode, input, parts_->options, parts_->options.encoder, 0);
  StackResult encoded = internal::run_stack(*parts_->encoder, parts_->options.encoder, kEncode, text);
  ModelResult result;
  result.hidden = parts_->memory_projection ? parts_->memory_projection->forward(encoded.hidden) : encoded.hidden;
  result.encoder_weights = std::move(encoded.weights);
  return result;
}

ModelResult TransformerModel::decode(const ModelInput& input, ModelCache& cache, const Tensor& memory,
                                     const PerEntry& memory_lengths) const {
  const TransformerModelOptions& options = parts_->options;
  check(parts_->decoder.has_value(), kDecode, ": the model has no decoder");
  check(!input.packed.defined(), kDecode, ": packed is given, and a cache holds one text per row");
  const bool has_memory = options.kind == ModelKind::encoder_decoder;
  const std::size_t layers = options.decoder.layers.size();
  if (cache.self_attention.empty()) cache.self_attention.resize(layers);
  if (cache.memory_attention.empty() && has_memory) cache.memory_attention.resize(layers);
  check(cache.self_attention.size() == layers && cache.memory_attention.size() == (has_memory ? layers : 0), kDecode,
        ": the cache has ", cache.self_attention.size(), " layers, expected the model's ", layers);
  StackInput text = internal::checked_tokens(kDecode, input, options, options.decoder, cache.length());
  check(memory.defined() == has_memory, kDecode,
        has_memory ? ": memory is not given, expected the encoder's hidden states"
                   : ": memory is given, and the model has no encoder");
  if (has_memory) {
    check(memory.rank() == 3 && memory.size(0) == input.tokens.size(0) && memory.size(2) == options.decoder.width,
          kDecode, ": memory is ", memory, ", expected [", input.tokens.size(0), ", source_length, ",
          options.decoder.width, "]");
    text.memory = memory;
    text.memory_lengths =
        internal::checked_lengths(kDecode, "memory_lengths", memory_lengths, memory.size(0), memory.size(1));
  }
  text.cache = &cache;
  StackResult decoded = parts_->decoder->forward(kDecode, text);
  ModelResult result;
  result.hidden = decoded.hidden;
  result.decoder_weights = std::move(decoded.weights);
  result.cross_weights = std::move(decoded.cross_weights);
  finish_model(kDecode, *parts_, text, input.last_only, result);
  return result;
}

Tensor TransformerModel::logits_of(const Tensor& hidden) const {
  check(parts_->head && parts_->options.head.kind == HeadKind::language_model,
        "TransformerModel::logits_of: the model has no language_model head");
  return parts_->head->forward(hidden);
}

}  // namespace headway::inline v0
