#include "models/clip_config.h"

#include "models/vit_layout.h"

namespace headway::inline v0::internal {
namespace {

// What both towers have alike.
BlockOptions clip_block(const ModelConfig& config, std::int64_t width, std::int64_t heads) {
  BlockOptions block;
  block.width = config.size("hidden_size", width);
  block.heads = config.heads("num_attention_heads", heads, block.width, "hidden_size");
  block.hidden = config.size("intermediate_size", 4 * width);
  block.norm_epsilon = config.positive("layer_norm_eps", 1e-5);
  block.activation = config.activation("hidden_act", "quick_gelu");
  block.attention_dropout = config.probability("attention_dropout", 0.0);
  return block;
}

StackOptions clip_stack(const ModelConfig& config, const BlockOptions& block) {
  StackOptions stack;
  stack.layers = same_layers(config.layers("num_hidden_layers", 12), block);
  stack.width = block.width;
  stack.positions = PositionKind::learned;
  stack.norm_epsilon = block.norm_epsilon;
  return stack;
}

TransformerModelOptions read_text(const ModelConfig& config) {
  TransformerModelOptions options = {.kind = ModelKind::encoder};
  options.vocab_size = config.size("vocab_size", 49408);
  BlockOptions block = clip_block(config, 512, 8);
  block.causal = true;
  options.encoder = clip_stack(config, block);
  options.encoder.max_positions = config.size("max_position_embeddings", 77);
  options.encoder.final_norm = true;
  options.bos_id = config.token("bos_token_id", 49406, options.vocab_size);
  options.eos_ids = config.tokens("eos_token_id", 49407, options.vocab_size);
  options.pad_id = config.token("pad_token_id", 1, options.vocab_size);
  return options;
}

TransformerModelOptions read_picture(const ModelConfig& config) {
  TransformerModelOptions options = {.kind = ModelKind::encoder};
  options.encoder = clip_stack(config, clip_block(config, 768, 12));
  StackOptions& stack = options.encoder;
  stack.front = read_patches(config, 224, 32);
  stack.front.bias = false;
  stack.max_positions =
      front_positions(stack.front, {stack.front.channels, stack.front.image_height, stack.front.image_width});
  stack.embedding_norm = true;
  return options;
}

// The config of a tower. Older files have it twice, where the second one counts.
ModelConfig tower_config(const ModelConfig& config, const char* field, const char* older) {
  return config.find(older) ? config.nested(older) : config.nested(field);
}

std::vector<TensorName> layer_names() {
  const std::string ours = "encoder.layers.{}.", theirs = "encoder.layers.{}.";
  std::vector<TensorName> names;
  for (const auto& [our, their] : {std::pair{"attention.query", "self_attn.q_proj"},
                                   {"attention.key", "self_attn.k_proj"},
                                   {"attention.value", "self_attn.v_proj"},
                                   {"attention.output", "self_attn.out_proj"},
                                   {"attention_norm", "layer_norm1"},
                                   {"feed_forward.up", "mlp.fc1"},
                                   {"feed_forward.down", "mlp.fc2"},
                                   {"feed_forward_norm", "layer_norm2"}}) {
    names.push_back({ours + our, theirs + their});
  }
  names.push_back({"encoder.positions", "embeddings.position_embedding"});
  return names;
}

std::vector<TensorName> text_names(const TransformerModelOptions&) {
  std::vector<TensorName> names = layer_names();
  names.push_back({"embedding", "embeddings.token_embedding"});
  names.push_back({"encoder.norm", "final_layer_norm"});
  return names;
}

std::vector<TensorName> picture_names(const TransformerModelOptions& options) {
  const FrontOptions& front = options.encoder.front;
  std::vector<TensorName> names = layer_names();
  names.push_back({.ours = "encoder.front.projection.weight",
                   .theirs = "embeddings.patch_embedding.weight",
                   .shape = {options.encoder.width, front.channels, front.patch_height, front.patch_width}});
  names.push_back({"encoder.front.class_token", "embeddings.class_embedding"});
  names.push_back({"encoder.embedding_norm", "pre_layrnorm"});  // spelt so in the files
  return names;
}

Family tower_family(const char* model_type, std::vector<TensorName> (*names)(const TransformerModelOptions&)) {
  return {.model_type = model_type,
          .kind = ModelKind::encoder,
          .class_name = "CLIP",
          .language_model = nullptr,
          .prefixes = {},
          .ignored = {},
          .embedding_copies = {},
          .read = nullptr,
          .names = names};
}

}  // namespace

ClipPlan plan_clip(const ModelConfig& config) {
  if (config.string("model_type", "") != "clip") config.refuse("model_type", "\"clip\"");
  const std::vector<std::string> architectures = config.strings("architectures");
  if (!architectures.empty() && architectures.front() != "CLIPModel") config.refuse("architectures", "CLIPModel");
  const ModelConfig text = tower_config(config, "text_config", "text_config_dict");
  const ModelConfig picture = tower_config(config, "vision_config", "vision_config_dict");
  ClipPlan plan;
  plan.options.text = read_text(text);
  plan.options.picture = read_picture(picture);
  plan.options.projection = config.size("projection_dim", 512);
  plan.options.initial_logit_scale = config.number("logit_scale_init_value", 2.6592);
  // 2 is what configs had before they were corrected; the token is the greatest of the vocabulary all the same.
  const std::int64_t eos = text.integer("eos_token_id", 49407);
  if (eos != 2) plan.options.pooled_id = eos;
  plan.initial_values = {.factor = config.number("initializer_factor", 1.0),
                         .text_factor = text.number("initializer_factor", 1.0),
                         .picture_factor = picture.number("initializer_factor", 1.0),
                         .picture_deviation = picture.positive("initializer_range", 0.02)};
  return plan;
}

std::vector<ClipTensor> clip_tensors(const ClipOptions& options) {
  std::vector<ClipTensor> tensors;
  const auto add_tower = [&](const std::string& ours, const std::string& theirs, const TransformerModelOptions& tower,
                             const Family& family) {
    for (const FileTensor& tensor : file_tensors(tower, family)) {
      tensors.push_back(
          {ours + tensor.parameter, tensor.shape, theirs + tensor.pieces.front(), tensor.piece_shapes.front()});
    }
  };
  add_tower("text.", "text_model.", options.text, tower_family("clip_text_model", text_names));
  add_tower("picture.", "vision_model.", options.picture, tower_family("clip_vision_model", picture_names));
  const std::int64_t text = options.text.encoder.width, picture = options.picture.encoder.width;
  const auto add = [&](const char* ours, const char* theirs, const Shape& shape) {
    tensors.push_back({ours, shape, theirs, shape});
  };
  add("picture_norm.weight", "vision_model.post_layernorm.weight", {picture});
  add("picture_norm.bias", "vision_model.post_layernorm.bias", {picture});
  add("text_projection.weight", "text_projection.weight", {options.projection, text});
  add("picture_projection.weight", "visual_projection.weight", {options.projection, picture});
  add("logit_scale", "logit_scale", {});
  return tensors;
}

}  // namespace headway::inline v0::internal
