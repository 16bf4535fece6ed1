// The Transformer of "Attention Is All You Need": with the names, defaults and results of torch.nn, batch first.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "headway/export.h"
#include "headway/layers.h"
#include "headway/multi_head_attention.h"

namespace headway {
inline namespace v0 {

struct TransformerLayerOptions {
  std::int64_t d_model = 512;
  std::int64_t nhead = 8;
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::optional<double> attention_dropout = {};   // on attention weights; default: dropout
  std::optional<double> activation_dropout = {};  // between the two products; default: dropout
  Activation activation = Activation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = true;
  bool norm_first = false;
  bool bias = true;
  DType dtype = DType::float32;
};

// The input of an encoder or of one of its layers.
struct EncoderInput {
  Tensor source = {};            // [batch, length, d_model]
  PerEntry source_lengths = {};  // non-padding tokens of each entry, which come first
  Mask mask = {};                // [length, length], or [batch, heads, length, length] where a size of 1 broadcasts
  Mask padding_mask = {};        // [batch, length]: padding at any position; excludes source_lengths
  Causal causal = Causal::none;
  Weights weights = Weights::none;
};

struct EncoderLayerResult {
  Tensor output;   // the source's shape
  Tensor weights;  // [batch, heads, length, length], or [batch, length, length] for the mean; only on request
};

struct EncoderResult {
  Tensor output;                // the source's shape
  std::vector<Tensor> weights;  // a layer's weights, for each layer; only on request
};

struct DecoderInput {
  Tensor target = {};            // [batch, target_length, d_model]
  Tensor memory = {};            // [batch, source_length, d_model]: the encoder's output
  PerEntry target_lengths = {};  // non-padding tokens of each entry, which come first
  PerEntry memory_lengths = {};  // likewise
  Mask target_mask = {};
  Mask memory_mask = {};
  Mask target_padding_mask = {};
  Mask memory_padding_mask = {};
  Causal target_causal = Causal::none;
  Weights weights = Weights::none;
};

struct DecoderLayerResult {
  Tensor output;          // the target's shape
  Tensor self_weights;    // [batch, heads, target_length, target_length], or without heads for the mean; on request
  Tensor memory_weights;  // [batch, heads, target_length, source_length], likewise
};

struct DecoderResult {
  Tensor output;                       // the target's shape
  std::vector<Tensor> self_weights;    // a layer's weights, for each layer; only on request
  std::vector<Tensor> memory_weights;  // likewise
};

// Keys and values that a decoder has computed so far, one pair of caches per layer.
struct DecoderCache {
  std::vector<KeyValueCache> self_attention;
  std::vector<KeyValueCache> memory_attention;

  // Keeps the given batch entries in the given order, as beam search needs.
  HEADWAY_API void reorder(const std::vector<std::int64_t>& entries);
  // Tokens seen so far.
  std::int64_t length() const { return self_attention.empty() ? 0 : self_attention.front().length(); }
};

// Self-attention, then a feed-forward network. Parameters: self_attn.*, linear1.*, linear2.*, norm1.*, norm2.*.
class HEADWAY_API TransformerEncoderLayer : public Module {
 public:
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options);
  EncoderLayerResult forward(const EncoderInput& input) const;

 private:
  TransformerLayerOptions options_;
  MultiHeadAttention self_attn_;
  Linear linear1_;
  Linear linear2_;
  LayerNorm norm1_;
  LayerNorm norm2_;
  Dropout dropout_;
  Dropout activation_dropout_;
};

// Self-attention, attention to the memory, a feed-forward network. Parameters: self_attn.*, multihead_attn.*,
// linear1.*, linear2.*, norm1.*, norm2.*, norm3.*.
class HEADWAY_API TransformerDecoderLayer : public Module {
 public:
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options);
  DecoderLayerResult forward(const DecoderInput& input) const;
  // `target` holds only the new tokens; the caches hold the keys and values of the tokens before them.
  DecoderLayerResult forward(const DecoderInput& input, KeyValueCache* self_cache, KeyValueCache* memory_cache) const;

 private:
  TransformerLayerOptions options_;
  MultiHeadAttention self_attn_;
  MultiHeadAttention multihead_attn_;
  Linear linear1_;
  Linear linear2_;
  LayerNorm norm1_;
  LayerNorm norm2_;
  LayerNorm norm3_;
  Dropout dropout_;
  Dropout activation_dropout_;
};

struct TransformerStackOptions {
  TransformerLayerOptions layer = {};
  std::int64_t num_layers = 6;
  bool final_norm = false;  // a LayerNorm after the last layer: norm.*
};

// Parameters: layers.0.*, layers.1.*, ..., norm.* where there is a final norm.
class HEADWAY_API TransformerEncoder : public Module {
 public:
  explicit TransformerEncoder(const TransformerStackOptions& options);
  EncoderResult forward(const EncoderInput& input) const;

 private:
  std::vector<TransformerEncoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

class HEADWAY_API TransformerDecoder : public Module {
 public:
  explicit TransformerDecoder(const TransformerStackOptions& options);
  DecoderResult forward(const DecoderInput& input) const;
  // New tokens after those in the cache, which grows by them; an empty cache is filled. Causality is implied.
  DecoderResult forward(const DecoderInput& input, DecoderCache& cache) const;

 private:
  DecoderResult run(const DecoderInput& input, DecoderCache* cache) const;

  std::vector<TransformerDecoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

struct TransformerOptions {
  TransformerLayerOptions layer = {};  // of every layer, in encoder and decoder
  std::int64_t num_encoder_layers = 6;
  std::int64_t num_decoder_layers = 6;
};

struct TransformerInput {
  Tensor source = {};            // [batch, source_length, d_model]
  Tensor target = {};            // [batch, target_length, d_model]
  PerEntry source_lengths = {};  // non-padding tokens of each source, for the encoder and for the attention to it
  PerEntry target_lengths = {};  // non-padding tokens of each target
  Mask source_mask = {};
  Mask target_mask = {};
  Mask memory_mask = {};
  Mask source_padding_mask = {};
  Mask target_padding_mask = {};
  Mask memory_padding_mask = {};
  Causal source_causal = Causal::none;
  Causal target_causal = Causal::none;
  Weights weights = Weights::none;
};

struct TransformerResult {
  Tensor output;                        // the target's shape
  std::vector<Tensor> encoder_weights;  // of the encoder's self-attention, for each layer; only on request
  std::vector<Tensor> decoder_weights;  // of the decoder's self-attention, likewise
  std::vector<Tensor> cross_weights;    // of the decoder's attention to the memory, likewise
};

// Encoder and decoder, each with a final norm. Parameters: encoder.*, decoder.*; matrices are Xavier-uniform.
class HEADWAY_API Transformer : public Module {
 public:
  explicit Transformer(const TransformerOptions& options);
  TransformerResult forward(const TransformerInput& input) const;
  const TransformerEncoder& encoder() const { return encoder_; }
  const TransformerDecoder& decoder() const { return decoder_; }

 private:
  TransformerEncoder encoder_;
  TransformerDecoder decoder_;
};

}  // namespace v0
}  // namespace headway
