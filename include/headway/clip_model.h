// CLIP: a tower of text and a tower of pictures whose embeddings of what belongs together are near each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/module.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

struct ClipOptions {
  // Both are encoders without a head: the one of text is causal, the one of pictures has StackOptions::front.
  TransformerModelOptions text = {};
  TransformerModelOptions picture = {};
  std::int64_t projection = 512;  // the width of embeddings
  // The token whose last hidden state stands for a text: the first of this id, and the first token of all where a text
  // has none. Without one it is the token with the greatest id, as in OpenAI's files (eos_token_id 2).
  std::optional<std::int64_t> pooled_id = {};
  double initial_logit_scale = 2.6592;  // ln(1 / 0.07)
};

// What one tower makes of its input.
struct ClipEmbeddings {
  Tensor embeddings;            // [texts or pictures, projection], of length 1
  Tensor projected;             // the same before they are divided by their length
  Tensor hidden;                // [batch, positions, width]: the last hidden states; of text after the final norm
  std::vector<Tensor> weights;  // of each layer [batch, heads, positions, positions]; only on request
};

struct ClipInput {
  Tensor tokens = {};     // int64 [texts, length]
  PerEntry lengths = {};  // non-padding tokens of each text, which come first; default: all
  Tensor pictures = {};   // floating [pictures, channels, height, width], of the model's size
  Weights weights = Weights::none;
};

struct ClipResult {
  Tensor logits_per_text;     // [texts, pictures]: exp(logit_scale) times the cosine
  Tensor logits_per_picture;  // its transpose
  ClipEmbeddings text;
  ClipEmbeddings picture;
};

// Two towers, a projection of each, and the scale of the logits. Parameters: text.* and picture.* as TransformerModel
// names them; picture_norm.{weight,bias}, of the class token alone; text_projection.weight, picture_projection.weight;
// logit_scale, a number.
class HEADWAY_API ClipModel : public Module {
 public:
  // A model with initial values, from the text of a config.json with model_type "clip". It is in training mode.
  static ClipModel from_config(const std::string& config_json, DType dtype = DType::float32);
  // Reads a directory as TransformerModel::load() does; ModelLoading::new_head does not apply. In evaluation mode.
  static ClipModel load(const std::filesystem::path& directory, const ModelLoading& loading = {});
  // Writes config.json and model.safetensors (with tensors of `dtype`; default: as they are), each file atomically.
  void save(const std::filesystem::path& directory, std::optional<DType> dtype = {}) const;

  ClipEmbeddings embed_texts(const Tensor& tokens, const PerEntry& lengths = {}, Weights weights = Weights::none) const;
  ClipEmbeddings embed_pictures(const Tensor& pictures, Weights weights = Weights::none) const;
  // Every text with every picture.
  ClipResult forward(const ClipInput& input) const;
  // The mean cross-entropy of finding each text's picture and each picture's text, where text i belongs to picture i.
  static Tensor contrastive_loss(const Tensor& logits_per_text);

  const ClipOptions& options() const;
  const TransformerModel& text_tower() const;
  const TransformerModel& picture_tower() const;
  // The text of the config.json that save() would write.
  std::string config() const;

  struct Parts;
  explicit ClipModel(std::shared_ptr<Parts> parts);

 private:
  std::shared_ptr<Parts> parts_;
};

}  // namespace v0
}  // namespace headway
