// BERT, RoBERTa, XLM-RoBERTa and CamemBERT, which differ in their positions and in the names of their heads.
#include "models/family_options.h"

namespace headway::inline v0::internal {
namespace {

BlockOptions bert_block(const ModelConfig& config) {
  BlockOptions block;
  block.width = config.size("hidden_size", 768);
  block.heads = config.heads("num_attention_heads", 12, block.width, "hidden_size");
  block.hidden = config.size("intermediate_size", 3072);
  block.norm_place = NormPlace::after;
  block.norm_epsilon = config.positive("layer_norm_eps", 1e-12);
  block.activation = config.activation("hidden_act", "gelu");
  block.dropout = config.probability("hidden_dropout_prob", 0.1);
  block.attention_dropout = config.probability("attention_probs_dropout_prob", 0.1);
  return block;
}

void check_bert(const ModelConfig& config) {
  config.require("is_decoder", false);
  config.require("add_cross_attention", false);
  if (config.string("position_embedding_type", "absolute") != "absolute") {
    config.refuse("position_embedding_type", "\"absolute\"");
  }
}

// All but the head.
TransformerModelOptions read_bert_base(const ModelConfig& config, const TokenDefaults& tokens,
                                       std::int64_t vocab_size) {
  check_bert(config);
  TransformerModelOptions options = {.kind = ModelKind::encoder};
  options.vocab_size = config.size("vocab_size", vocab_size);
  read_tokens(config, tokens, options);
  options.padding_row = options.pad_id;
  const BlockOptions block = bert_block(config);
  StackOptions& stack = options.encoder;
  stack.layers = same_layers(config.layers("num_hidden_layers", 12), block);
  stack.width = block.width;
  stack.embedding_norm = true;
  stack.embedding_dropout = block.dropout;
  stack.token_types = config.size("type_vocab_size", 2, 0);
  stack.positions = PositionKind::learned;
  stack.max_positions = config.size("max_position_embeddings", 512);
  stack.norm_epsilon = block.norm_epsilon;
  options.initial_values.deviation = config.positive("initializer_range", 0.02);
  return options;
}

void set_bert_head(const ModelConfig& config, HeadKind kind, TransformerModelOptions& options) {
  HeadOptions& head = options.head;
  head.kind = kind;
  set_head_size(config, options);
  // RoBERTa's classifier has a layer of its own instead.
  options.pooler = kind == HeadKind::none || kind == HeadKind::sequence;
  const double hidden_dropout = config.probability("hidden_dropout_prob", 0.1);
  if (kind == HeadKind::language_model) {
    head.tied = config.boolean("tie_word_embeddings", true);
    head.dense = true;
    head.dense_norm = true;
    head.dense_activation = config.activation("hidden_act", "gelu");
  }
  if (kind == HeadKind::sequence || kind == HeadKind::tokens) {
    head.dropout = config.probability("classifier_dropout", hidden_dropout);
  }
}

TransformerModelOptions read_bert(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options = read_bert_base(config, {.pad = 0}, 30522);
  set_bert_head(config, kind, options);
  return options;
}

TransformerModelOptions read_roberta_of(const ModelConfig& config, HeadKind kind, std::int64_t vocab_size) {
  TransformerModelOptions options = read_bert_base(config, {.bos = 0, .eos = 2, .pad = 1}, vocab_size);
  set_bert_head(config, kind, options);
  // Positions are counted from the one after <pad>.
  StackOptions& stack = options.encoder;
  stack.position_offset = config.size("pad_token_id", 1, 0) + 1;
  check(stack.max_positions > stack.position_offset, config.name(), ": max_position_embeddings is ",
        stack.max_positions, ", expected more than pad_token_id + 1, ", stack.position_offset);
  stack.max_positions -= stack.position_offset;
  HeadOptions& head = options.head;
  if (kind == HeadKind::language_model) head.dense_activation = Activation::gelu;
  if (kind == HeadKind::sequence) {
    options.pooler = false;
    head.dense = true;
    head.dense_activation = Activation::tanh;
    head.dropout_before_dense = true;
  }
  return options;
}
TransformerModelOptions read_roberta(const ModelConfig& config, HeadKind kind) {
  return read_roberta_of(config, kind, 50265);
}
TransformerModelOptions read_xlm_roberta(const ModelConfig& config, HeadKind kind) {
  return read_roberta_of(config, kind, 30522);
}

std::vector<TensorName> bert_base_names() {
  const std::string layer = "encoder.layer.{}.";
  return {{"embedding", "embeddings.word_embeddings"},
          {"encoder.positions", "embeddings.position_embeddings"},
          {"encoder.token_types", "embeddings.token_type_embeddings"},
          {"encoder.embedding_norm", "embeddings.LayerNorm"},
          {"encoder.layers.{}.attention.query", layer + "attention.self.query"},
          {"encoder.layers.{}.attention.key", layer + "attention.self.key"},
          {"encoder.layers.{}.attention.value", layer + "attention.self.value"},
          {"encoder.layers.{}.attention.output", layer + "attention.output.dense"},
          {"encoder.layers.{}.attention_norm", layer + "attention.output.LayerNorm"},
          {"encoder.layers.{}.feed_forward.up", layer + "intermediate.dense"},
          {"encoder.layers.{}.feed_forward.down", layer + "output.dense"},
          {"encoder.layers.{}.feed_forward_norm", layer + "output.LayerNorm"},
          {"pooler", "pooler.dense"}};
}

// The output's bias has two names; where the output is not tied, only the second one is used.
void add_output_bias(const std::string& module, const TransformerModelOptions& options,
                     std::vector<TensorName>& names) {
  if (options.head.tied) {
    names.push_back({"head.output.bias", module + ".bias"});
  } else {
    names.push_back({.ours = "head.output.bias", .theirs = module + ".decoder.bias", .copy = module + ".bias"});
  }
}

std::vector<TensorName> bert_names(const TransformerModelOptions& options) {
  std::vector<TensorName> names = bert_base_names();
  if (options.head.kind == HeadKind::language_model) {
    names.push_back({"head.dense", "cls.predictions.transform.dense"});
    names.push_back({"head.norm", "cls.predictions.transform.LayerNorm"});
    names.push_back({"head.output.weight", "cls.predictions.decoder.weight"});
    add_output_bias("cls.predictions", options, names);
  } else {
    names.push_back({"head.output", options.head.kind == HeadKind::span ? "qa_outputs" : "classifier"});
  }
  return names;
}

std::vector<TensorName> roberta_names(const TransformerModelOptions& options) {
  std::vector<TensorName> names = bert_base_names();
  if (options.head.kind == HeadKind::language_model) {
    names.push_back({"head.dense", "lm_head.dense"});
    names.push_back({"head.norm", "lm_head.layer_norm"});
    names.push_back({"head.output.weight", "lm_head.decoder.weight"});
    add_output_bias("lm_head", options, names);
  } else if (options.head.kind == HeadKind::sequence) {
    names.push_back({"head.dense", "classifier.dense"});
    names.push_back({"head.output", "classifier.out_proj"});
  } else {
    names.push_back({"head.output", options.head.kind == HeadKind::span ? "qa_outputs" : "classifier"});
  }
  return names;
}

Family roberta_family(const char* model_type, const char* class_name,
                      TransformerModelOptions (*read)(const ModelConfig&, HeadKind)) {
  return {.model_type = model_type,
          .kind = ModelKind::encoder,
          .class_name = class_name,
          .language_model = "ForMaskedLM",
          .prefixes = {"roberta."},
          .ignored = {"embeddings.position_ids", "embeddings.token_type_ids", "lm_head.decoder.bias", "lm_head.bias"},
          .embedding_copies = {},
          .read = read,
          .names = roberta_names};
}

}  // namespace

std::vector<Family> bert_families() {
  Family bert = {.model_type = "bert",
                 .kind = ModelKind::encoder,
                 .class_name = "Bert",
                 .language_model = "ForMaskedLM",
                 .prefixes = {"bert."},
                 .ignored = {"embeddings.position_ids", "embeddings.token_type_ids", "cls.seq_relationship.",
                             "cls.predictions.decoder.bias", "cls.predictions.bias"},
                 .embedding_copies = {},
                 .read = read_bert,
                 .names = bert_names};
  return {bert, roberta_family("roberta", "Roberta", read_roberta),
          roberta_family("xlm-roberta", "XLMRoberta", read_xlm_roberta),
          roberta_family("camembert", "Camembert", read_xlm_roberta)};
}

}  // namespace headway::inline v0::internal
