// DistilBERT: BERT without token types and pooler.
#include "models/family_options.h"

namespace headway::inline v0::internal {
namespace {

void set_distilbert_head(const ModelConfig& config, HeadKind kind, TransformerModelOptions& options) {
  HeadOptions& head = options.head;
  head.kind = kind;
  set_head_size(config, options);
  if (kind == HeadKind::language_model) {
    head.tied = config.boolean("tie_word_embeddings", true);
    head.dense = true;
    head.dense_norm = true;
    head.dense_activation = config.activation("activation", "gelu");
  } else if (kind == HeadKind::sequence) {
    head.dense = true;
    head.dense_activation = Activation::relu;
    head.dropout = config.probability("seq_classif_dropout", 0.2);
  } else if (kind == HeadKind::tokens) {
    head.dropout = config.probability("dropout", 0.1);
  } else if (kind == HeadKind::span) {
    head.dropout = config.probability("qa_dropout", 0.1);
  }
}

TransformerModelOptions read_distilbert(const ModelConfig& given, HeadKind kind) {
  ModelConfig config = given;
  config.alias("dim", "hidden_size");
  config.alias("n_heads", "num_attention_heads");
  config.alias("n_layers", "num_hidden_layers");
  BlockOptions block;
  block.width = config.size("dim", 768);
  block.heads = config.heads("n_heads", 12, block.width, "dim");
  block.hidden = config.size("hidden_dim", 3072);
  block.norm_place = NormPlace::after;
  block.norm_epsilon = 1e-12;
  block.activation = config.activation("activation", "gelu");
  block.dropout = config.probability("dropout", 0.1);
  block.attention_dropout = config.probability("attention_dropout", 0.1);

  TransformerModelOptions options = {.kind = ModelKind::encoder};
  options.vocab_size = config.size("vocab_size", 30522);
  read_tokens(config, {.pad = 0}, options);
  options.padding_row = options.pad_id;
  StackOptions& stack = options.encoder;
  stack.layers = same_layers(config.layers("n_layers", 6), block);
  stack.width = block.width;
  stack.embedding_norm = true;
  stack.embedding_dropout = block.dropout;
  stack.positions = PositionKind::learned;
  stack.max_positions = config.size("max_position_embeddings", 512);
  stack.norm_epsilon = block.norm_epsilon;
  options.initial_values.deviation = config.positive("initializer_range", 0.02);
  set_distilbert_head(config, kind, options);
  return options;
}

std::vector<TensorName> distilbert_names(const TransformerModelOptions& options) {
  const std::string layer = "transformer.layer.{}.";
  std::vector<TensorName> names = {{"embedding", "embeddings.word_embeddings"},
                                   {"encoder.positions", "embeddings.position_embeddings"},
                                   {"encoder.embedding_norm", "embeddings.LayerNorm"},
                                   {"encoder.layers.{}.attention.query", layer + "attention.q_lin"},
                                   {"encoder.layers.{}.attention.key", layer + "attention.k_lin"},
                                   {"encoder.layers.{}.attention.value", layer + "attention.v_lin"},
                                   {"encoder.layers.{}.attention.output", layer + "attention.out_lin"},
                                   {"encoder.layers.{}.attention_norm", layer + "sa_layer_norm"},
                                   {"encoder.layers.{}.feed_forward.up", layer + "ffn.lin1"},
                                   {"encoder.layers.{}.feed_forward.down", layer + "ffn.lin2"},
                                   {"encoder.layers.{}.feed_forward_norm", layer + "output_layer_norm"}};
  if (options.head.kind == HeadKind::language_model) {
    names.push_back({"head.dense", "vocab_transform"});
    names.push_back({"head.norm", "vocab_layer_norm"});
    names.push_back({"head.output", "vocab_projector"});
  } else {
    names.push_back({"head.dense", "pre_classifier"});
    names.push_back({"head.output", options.head.kind == HeadKind::span ? "qa_outputs" : "classifier"});
  }
  return names;
}

}  // namespace

std::vector<Family> distilbert_families() {
  return {{.model_type = "distilbert",
           .kind = ModelKind::encoder,
           .class_name = "DistilBert",
           .language_model = "ForMaskedLM",
           .prefixes = {"distilbert."},
           .ignored = {"embeddings.position_ids"},
           .embedding_copies = {},
           .read = read_distilbert,
           .names = distilbert_names}};
}

}  // namespace headway::inline v0::internal
