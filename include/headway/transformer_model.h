// Models of every Transformer family, from their Hugging Face directories: encoders (BERT, RoBERTa, XLM-R, DistilBERT,
// ModernBERT; ViT and DeiT, which read pictures), decoders (GPT-2, Llama, Mistral, Qwen 2 and 3, Gemma 2 and 3, Phi-3),
// encoder-decoders (Marian, BART, mBART, T5, Pegasus; Whisper, which reads sound, and ViT with GPT-2, which describes
// pictures).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/module.h"
#include "headway/transformer_block.h"

namespace headway {
inline namespace v0 {

enum class ModelKind { encoder, decoder, encoder_decoder };

enum class PositionKind {
  none,           // or within the attention: rotary, ALiBi
  learned,        // a table
  sinusoidal,     // sines and cosines, laid out as StackOptions::sinusoid says
  relative_bias,  // T5's: a learned number per head and bucket of distances, added to the scores
};

// What an encoder reads, and how it becomes rows of the model's width.
enum class FrontKind {
  tokens,   // ids, by a table
  patches,  // a picture [channels, height, width]: a product with each patch's pixels, row by row from the top left
  sound,    // frames [bins, frames]: two convolutions over 3 frames, each with GELU; the second halves their number
};
struct FrontOptions {
  FrontKind kind = FrontKind::tokens;
  // patches: rows of patches * columns of patches positions, after that of the class token where there is one. The
  // picture's size must be a multiple of the patch's.
  std::int64_t channels = 3;
  std::int64_t image_height = 0;
  std::int64_t image_width = 0;
  std::int64_t patch_height = 0;
  std::int64_t patch_width = 0;
  bool class_token = true;          // a learned row before the patches
  bool distillation_token = false;  // one more behind it, as in DeiT
  bool bias = true;                 // of the product
  // sound: (frames + 1) / 2 positions, at most the stack's max_positions
  std::int64_t bins = 80;
};
// The positions that the encoder has for features of this shape, without their batch: [channels, height, width] of
// patches, [bins, frames] of sound. Throws where the shape does not fit.
HEADWAY_API std::int64_t front_positions(const FrontOptions& options, const Shape& features);

// Embeddings, blocks and the norm after them: an encoder or a decoder.
struct StackOptions {
  FrontOptions front = {};                // of an encoder; a decoder reads tokens
  std::vector<BlockOptions> layers = {};  // one per block, since windows and positions may differ
  std::int64_t width = 0;
  double embedding_scale = 1.0;
  bool embedding_norm = false;
  double embedding_dropout = 0.0;
  std::int64_t token_types = 0;  // rows of a table that is added, as BERT has for the texts of a pair

  PositionKind positions = PositionKind::none;
  std::int64_t max_positions = 0;    // the most tokens; 0: no limit of the model's own
  std::int64_t position_offset = 0;  // the row of the first position: 2 in RoBERTa and BART
  Sinusoid sinusoid = Sinusoid::halves;
  std::int64_t relative_buckets = 32;        // relative_bias
  std::int64_t relative_max_distance = 128;  // relative_bias

  NormKind norm = NormKind::layer;  // of embedding_norm and final_norm
  double norm_epsilon = 1e-5;
  bool norm_bias = true;
  bool final_norm = false;
  double final_dropout = 0.0;  // after the final norm, as in T5
};

// What is computed from the last hidden states.
enum class HeadKind {
  none,
  language_model,  // logits of the next token, or of masked words in an encoder
  sequence,        // logits of the whole text: classification
  tokens,          // logits of each token
  span,            // two logits of each token: where an answer begins and ends
};

struct HeadOptions {
  HeadKind kind = HeadKind::none;
  std::int64_t labels = 0;                      // of sequence and tokens; span: 2; language_model: the vocabulary
  bool tied = false;                            // the output is the embedding again: language_model
  bool bias = true;                             // of the output
  bool trained_bias = true;                     // false: the output's bias is a buffer, as in BART
  std::optional<std::int64_t> frozen_row = {};  // of a tied output: this row of the embedding gets no gradient by it
  double logit_scale = 1.0;                     // hidden states times this before the output, as in T5
  std::optional<double> softcap = {};           // of the logits, as in Gemma 2
  // A layer before the output: norm(activation(x W^T + b)).
  bool dense = false;
  bool dense_bias = true;
  Activation dense_activation = Activation::none;
  bool dense_norm = false;
  // sequence: the hidden states that are classified.
  enum class Pooling { first, last, mean };  // `last`: of the non-padding tokens
  Pooling pooling = Pooling::first;
  double dropout = 0.0;  // before the output, and before the layer where it is there and the family has it so
  bool dropout_before_dense = false;
};

// How parameters begin, as the family does it.
struct InitialValues {
  enum class Rule { normal, gpt2, t5, modernbert, deit };
  Rule rule = Rule::normal;
  double deviation = 0.02;
  double cutoff = 2.0;  // modernbert: truncation, in deviations
};

struct TransformerModelOptions {
  ModelKind kind = ModelKind::encoder;
  std::int64_t vocab_size = 0;       // 0: an encoder that reads features
  bool separate_embeddings = false;  // of encoder and decoder
  StackOptions encoder = {};         // of encoders and encoder-decoders
  StackOptions decoder = {};         // of decoders and encoder-decoders
  HeadOptions head = {};
  bool pooler = false;  // BERT's: tanh(x W^T + b) of the first token, in ModelResult::pooled
  // A product between the encoder and the decoder, whose widths may differ then.
  bool memory_projection = false;

  std::optional<std::int64_t> bos_id = {};
  std::vector<std::int64_t> eos_ids = {};
  std::optional<std::int64_t> pad_id = {};
  // The row of the embedding that starts at zero and gets no gradient as an input, where the family has one.
  std::optional<std::int64_t> padding_row = {};
  std::optional<std::int64_t> decoder_start_id = {};
  std::vector<std::string> labels = {};  // id2label of the config: names of sequence's and tokens' classes
  InitialValues initial_values = {};
  std::optional<InitialValues> encoder_initial_values = {};  // of the encoder, where they differ
};

struct ModelInput {
  Tensor tokens = {};  // int64 [batch, length]; the source of an encoder-decoder
  // In the place of tokens where the encoder reads no text (StackOptions::front); floating, of any dtype and device.
  // patches: [batch, channels, height, width], of the model's size. sound: [batch, bins, frames], as log_mel() gives.
  Tensor features = {};
  // Non-padding tokens of each entry, which come first; default: all. Sound: positions of the encoder that count,
  // front_positions() of the entry's own frames. The features behind them should be zero; then an entry with an even
  // number of frames gives what it gives alone.
  PerEntry lengths = {};
  Mask padding_mask = {};  // [batch, length]: padding at any position; excludes lengths. Positions count the others
  CumulativeLengths packed = {};  // tokens is [1, total] and holds texts end to end; excludes lengths and padding_mask
  Tensor token_types = {};        // int64, shaped like tokens; default: zeros
  Tensor positions = {};          // int64, shaped like tokens; default: 0, 1, ... of the non-padding tokens
  Tensor target = {};             // int64 [batch, target_length]: the decoder's input in an encoder-decoder
  PerEntry target_lengths = {};
  Mask target_padding_mask = {};
  Weights weights = Weights::none;
  bool last_only = false;  // decoders: logits of each entry's last token alone, [batch, 1, vocab_size]
};

struct ModelResult {
  Tensor logits;  // of the head; undefined without one. language_model: [batch, length, vocab_size]; sequence: [batch,
                  // labels]; tokens: [batch, length, labels]; span: [batch, length, 2]. Packed: [1, total, ...] or
                  // [texts, labels]
  Tensor hidden;  // [batch, length, width]: the last hidden states, after the final norm; of the decoder where there is
                  // one
  Tensor pooled;  // [batch, width], where the model has a pooler
  Tensor memory;  // [batch, source_length, width]: the encoder's of an encoder-decoder, as the decoder reads it (after
                  // memory_projection, in the decoder's width)
  std::vector<Tensor> encoder_weights;  // a layer's [batch, heads, queries, keys], for each layer; only on request
  std::vector<Tensor> decoder_weights;
  std::vector<Tensor> cross_weights;
};

// Keys and values of the decoder, one pair of caches per layer.
struct ModelCache {
  std::vector<KeyValueCache> self_attention;
  std::vector<KeyValueCache> memory_attention;
  HEADWAY_API void reorder(const std::vector<std::int64_t>& entries);
  std::int64_t length() const { return self_attention.empty() ? 0 : self_attention.front().length(); }
};

struct ModelLoading {
  // Converts the parameters; default: that of the embedding (or of the patches' product) in the files. int8: weights of
  // linear layers and of embeddings are whole numbers with a scale for each row, which are computed on the CPU and not
  // trained; everything else is float32.
  std::optional<DType> dtype = {};
  Device device = Device::cpu();
  // Parameters are read-only views of the mapped files where dtype and layout allow it; optimizers refuse them. Where
  // the model is to be trained, false gives every parameter memory of its own.
  bool mapped = true;
  // Replaces the head of the file by a new one with these labels, for fine-tuning.
  std::optional<HeadKind> new_head = {};
  std::vector<std::string> new_labels = {};
};

// Embeddings, blocks and a head. Parameters: embedding.weight; for S = encoder or decoder, where the options have them:
//   S.embedding.weight (where they are separate, in the place of embedding.weight), S.positions.weight,
//   S.front.projection.{weight,bias}, weight [width, channels * patch_height * patch_width], S.front.class_token
//   [width], S.front.distillation_token [width] of patches; S.front.{conv1,conv2}.{weight,bias}, weight [out, in, 3],
//   of sound; S.token_types.weight, S.embedding_norm.*, S.relative_bias.weight [buckets, heads], S.layers.N.* (see
//   TransformerBlock), S.norm.*, memory_projection.{weight,bias}, pooler.{weight,bias}; head.dense.{weight,bias},
//   head.norm.{weight,bias}, head.output.{weight,bias} (a tied output has its bias alone, which is a buffer without
//   trained_bias)
class HEADWAY_API TransformerModel : public Module {
 public:
  // A model with initial values, from the text of a config.json: {"model_type": "gpt2", "architectures": [...], ...}.
  // The architecture says which head it has.
  static TransformerModel from_config(const std::string& config_json, DType dtype = DType::float32);

  // Reads config.json, generation_config.json where it is there, and model.safetensors or the files that
  // model.safetensors.index.json lists. Parameters are views of the mapped files where dtype and layout allow it. All
  // missing, unexpected and mis-shaped tensors are named in one Error; a directory that has only pytorch_model.bin is
  // refused with the command that converts it. The model is in evaluation mode.
  static TransformerModel load(const std::filesystem::path& directory, const ModelLoading& loading = {});
  // Writes config.json, generation_config.json and model.safetensors (with tensors of `dtype`; default: as they are),
  // each file atomically, so that Hugging Face's from_pretrained() reads the directory. A model in 8 bits is written
  // for load() alone, unless `dtype` is a floating one.
  void save(const std::filesystem::path& directory, std::optional<DType> dtype = {}) const;

  // Encoders and decoders alone read `tokens`; encoder-decoders `tokens` and `target`. `features` takes the place of
  // `tokens` where the encoder's front is not FrontKind::tokens.
  ModelResult forward(const ModelInput& input) const;
  // The encoder of an encoder-decoder alone: hidden [batch, source_length, width], as the decoder reads it.
  ModelResult encode(const ModelInput& input) const;
  // The decoder: new tokens after those in the cache, which grows by them; an empty cache is filled. `memory` and its
  // lengths are the encoder's, undefined for a decoder alone. input.tokens are the new tokens [batch, length], and
  // input.padding_mask, where given, covers all tokens so far; windows, ALiBi and relative biases count padding between
  // tokens, so that prompts of such models are padded before the text.
  ModelResult decode(const ModelInput& input, ModelCache& cache, const Tensor& memory = {},
                     const PerEntry& memory_lengths = {}) const;
  // Logits of hidden states [..., width] by the head's output, for HeadKind::language_model.
  Tensor logits_of(const Tensor& hidden) const;

  const TransformerModelOptions& options() const;
  // "bert", "gpt2", ...: model_type of the config.
  const std::string& family() const;
  // The text of the config.json that save() would write.
  std::string config() const;
  // The text of generation_config.json; empty where there is none.
  const std::string& generation_config() const;

  // The model_type names that load() knows.
  static std::vector<std::string> families();

  // The modules, which only the library itself knows.
  struct Parts;
  explicit TransformerModel(std::shared_ptr<Parts> parts);
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<Parts> parts_;
};

}  // namespace v0
}  // namespace headway
