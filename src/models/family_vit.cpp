// ViT and DeiT: encoders of pictures.
#include "models/vit_layout.h"

namespace headway::inline v0::internal {

PictureSize read_picture_size(const ModelConfig& config, const char* field, std::int64_t otherwise) {
  constexpr std::int64_t kMost = std::int64_t{1} << 16;
  const Json* value = config.find(field);
  if (!value || !value->is_array()) {
    const std::int64_t both = config.size(field, otherwise, 1, kMost);
    return {both, both};
  }
  const std::vector<double> sizes = config.numbers(field);
  const auto is_size = [](double size) {
    return size >= 1 && size <= static_cast<double>(kMost) &&
           size == static_cast<double>(static_cast<std::int64_t>(size));
  };
  if (sizes.size() != 2 || !is_size(sizes[0]) || !is_size(sizes[1])) {
    config.refuse(field, "one number of pixels, or a height and a width");
  }
  return {static_cast<std::int64_t>(sizes[0]), static_cast<std::int64_t>(sizes[1])};
}

FrontOptions read_patches(const ModelConfig& config, std::int64_t image_size, std::int64_t patch_size) {
  const PictureSize image = read_picture_size(config, "image_size", image_size);
  const PictureSize patch = read_picture_size(config, "patch_size", patch_size);
  if (image.height % patch.height != 0 || image.width % patch.width != 0) {
    config.refuse("patch_size", "a size that divides image_size, " + std::to_string(image.height) + " x " +
                                    std::to_string(image.width));
  }
  return {.kind = FrontKind::patches,
          .channels = config.size("num_channels", 3, 1, 1024),
          .image_height = image.height,
          .image_width = image.width,
          .patch_height = patch.height,
          .patch_width = patch.width};
}

StackOptions read_vit_encoder(const ModelConfig& config) {
  BlockOptions block;
  block.width = config.size("hidden_size", 768);
  block.heads = config.heads("num_attention_heads", 12, block.width, "hidden_size");
  block.hidden = config.size("intermediate_size", 3072);
  block.norm_epsilon = config.positive("layer_norm_eps", 1e-12);
  block.activation = config.activation("hidden_act", "gelu");
  block.query_bias = block.key_bias = block.value_bias = config.boolean("qkv_bias", true);
  block.dropout = config.probability("hidden_dropout_prob", 0.0);
  block.attention_dropout = config.probability("attention_probs_dropout_prob", 0.0);

  StackOptions stack;
  stack.front = read_patches(config, 224, 16);
  stack.layers = same_layers(config.layers("num_hidden_layers", 12), block);
  stack.width = block.width;
  stack.embedding_dropout = block.dropout;
  stack.positions = PositionKind::learned;
  stack.max_positions =
      front_positions(stack.front, {stack.front.channels, stack.front.image_height, stack.front.image_width});
  stack.norm_epsilon = block.norm_epsilon;
  stack.final_norm = true;
  return stack;
}

std::vector<TensorName> vit_encoder_names(const StackOptions& encoder, const std::string& prefix) {
  const std::string ours = "encoder.layers.{}.", theirs = prefix + "encoder.layer.{}.";
  const std::string embeddings = prefix + "embeddings.";
  const FrontOptions& front = encoder.front;
  return {{.ours = "encoder.front.projection.weight",
           .theirs = embeddings + "patch_embeddings.projection.weight",
           .shape = {encoder.width, front.channels, front.patch_height, front.patch_width}},
          {"encoder.front.projection.bias", embeddings + "patch_embeddings.projection.bias"},
          {.ours = "encoder.front.class_token", .theirs = embeddings + "cls_token", .shape = {1, 1, encoder.width}},
          {.ours = "encoder.front.distillation_token",
           .theirs = embeddings + "distillation_token",
           .shape = {1, 1, encoder.width}},
          {.ours = "encoder.positions.weight",
           .theirs = embeddings + "position_embeddings",
           .shape = {1, encoder.max_positions, encoder.width}},
          {ours + "attention.query", theirs + "attention.attention.query"},
          {ours + "attention.key", theirs + "attention.attention.key"},
          {ours + "attention.value", theirs + "attention.attention.value"},
          {ours + "attention.output", theirs + "attention.output.dense"},
          {ours + "attention_norm", theirs + "layernorm_before"},
          {ours + "feed_forward.up", theirs + "intermediate.dense"},
          {ours + "feed_forward.down", theirs + "output.dense"},
          {ours + "feed_forward_norm", theirs + "layernorm_after"},
          {"encoder.norm", prefix + "layernorm"},
          {"pooler", prefix + "pooler.dense"}};
}

namespace {

TransformerModelOptions read_vit(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options = {.kind = ModelKind::encoder};
  options.encoder = read_vit_encoder(config);
  options.initial_values.deviation = config.positive("initializer_range", 0.02);
  options.pooler = kind == HeadKind::none;
  const std::int64_t pooled = config.size("pooler_output_size", options.encoder.width);
  if (options.pooler && (pooled != options.encoder.width || config.string("pooler_act", "tanh") != "tanh")) {
    config.refuse("pooler_output_size", "hidden_size, with pooler_act tanh");
  }
  options.head.kind = kind;
  set_head_size(config, options);
  return options;
}

// One more learned token, which is distilled into and not classified.
TransformerModelOptions read_deit(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options = read_vit(config, kind);
  options.encoder.front.distillation_token = true;
  ++options.encoder.max_positions;
  options.initial_values.rule = InitialValues::Rule::deit;
  return options;
}

std::vector<TensorName> vit_names(const TransformerModelOptions& options) {
  std::vector<TensorName> names = vit_encoder_names(options.encoder, "");
  names.push_back({"head.output", "classifier"});
  return names;
}

Family vit_family(const char* model_type, const char* class_name, const char* prefix,
                  TransformerModelOptions (*read)(const ModelConfig&, HeadKind)) {
  return {.model_type = model_type,
          .kind = ModelKind::encoder,
          .class_name = class_name,
          .language_model = nullptr,
          .prefixes = {prefix},
          .ignored = {"embeddings.mask_token"},
          .embedding_copies = {},
          .read = read,
          .names = vit_names};
}

}  // namespace

std::vector<Family> vit_families() {
  return {vit_family("vit", "ViT", "vit.", read_vit), vit_family("deit", "DeiT", "deit.", read_deit)};
}

}  // namespace headway::inline v0::internal
