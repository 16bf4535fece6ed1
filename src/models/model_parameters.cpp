#include "models/model_parameters.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

class ParameterShapes {
 public:
  void add(const std::string& name, const Shape& shape) { found_.push_back({prefix_ + name, shape}); }
  void linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
    add(name + ".weight", {out, in});
    if (bias) add(name + ".bias", {out});
  }
  void norm(const std::string& name, NormKind kind, std::int64_t width, bool bias) {
    add(name + ".weight", {width});
    if (kind == NormKind::layer && bias) add(name + ".bias", {width});
  }

  void block(const std::string& prefix, const BlockOptions& options) {
    prefix_ = prefix;
    const std::int64_t head_dim = options.head_dim > 0 ? options.head_dim : options.width / options.heads;
    attention(options, head_dim);
    if (options.cross_attention) {
      projections("cross", options, options.heads * head_dim, options.heads * head_dim);
      norm("cross_norm", options.norm, options.width, options.norm_bias);
    }
    feed_forward(options, options.hidden > 0 ? options.hidden : 4 * options.width);
    prefix_.clear();
  }

  void stack(const std::string& name, const StackOptions& options, bool own_embedding, std::int64_t vocab_size) {
    const std::string start = name + ".";
    if (options.front.kind != FrontKind::tokens) front(start + "front.", options.front, options.width);
    if (own_embedding) add(start + "embedding.weight", {vocab_size, options.width});
    if (options.positions == PositionKind::learned) {
      add(start + "positions.weight", {options.max_positions + options.position_offset, options.width});
    }
    if (options.token_types > 0) add(start + "token_types.weight", {options.token_types, options.width});
    if (options.embedding_norm) norm(start + "embedding_norm", options.norm, options.width, options.norm_bias);
    if (options.positions == PositionKind::relative_bias && !options.layers.empty()) {
      add(start + "relative_bias.weight", {options.relative_buckets, options.layers.front().heads});
    }
    for (std::size_t i = 0; i < options.layers.size(); ++i) {
      block(start + "layers." + std::to_string(i) + ".", options.layers[i]);
    }
    if (options.final_norm) norm(start + "norm", options.norm, options.width, options.norm_bias);
  }

  void front(const std::string& start, const FrontOptions& options, std::int64_t width) {
    if (options.kind == FrontKind::sound) {
      for (const auto& [name, in] : {std::pair{"conv1", options.bins}, std::pair{"conv2", width}}) {
        add(start + name + ".weight", {width, in, 3});
        add(start + name + ".bias", {width});
      }
      return;
    }
    linear(start + "projection", width, options.channels * options.patch_height * options.patch_width, options.bias);
    if (options.class_token) add(start + "class_token", {width});
    if (options.distillation_token) add(start + "distillation_token", {width});
  }

  void head(const HeadOptions& options, const StackOptions& stack) {
    if (options.kind == HeadKind::none) return;
    if (options.dense) linear("head.dense", stack.width, stack.width, options.dense_bias);
    if (options.dense_norm) norm("head.norm", stack.norm, stack.width, stack.norm_bias);
    if (!options.tied) add("head.output.weight", {options.labels, stack.width});
    if (options.bias) add("head.output.bias", {options.labels});
  }

  std::vector<ParameterShape> take() { return std::move(found_); }

 private:
  void attention(const BlockOptions& options, std::int64_t head_dim) {
    const std::int64_t queries = options.heads * head_dim;
    const std::int64_t keys = (options.kv_heads > 0 ? options.kv_heads : options.heads) * head_dim;
    if (options.fused_qkv) {
      linear("attention.qkv", queries + 2 * keys, options.width, options.query_bias);
      linear("attention.output", options.width, queries, options.output_bias);
    } else {
      projections("attention", options, queries, keys);
    }
    if (options.query_key_norm) {
      add("attention.query_norm.weight", {head_dim});
      add("attention.key_norm.weight", {head_dim});
    }
    if (options.sinks) add("attention.sinks", {options.heads});
    if (options.has_attention_norm) norm("attention_norm", options.norm, options.width, options.norm_bias);
    if (options.norm_place == NormPlace::both) {
      norm("attention_output_norm", options.norm, options.width, options.norm_bias);
    }
  }

  void projections(const std::string& name, const BlockOptions& options, std::int64_t queries, std::int64_t keys) {
    linear(name + ".query", queries, options.width, options.query_bias);
    linear(name + ".key", keys, options.width, options.key_bias);
    linear(name + ".value", keys, options.width, options.value_bias);
    linear(name + ".output", options.width, queries, options.output_bias);
  }

  void feed_forward(const BlockOptions& options, std::int64_t hidden) {
    const bool bias = options.feed_forward_bias;
    if (options.gated && options.fused_gate_up) {
      linear("feed_forward.gate_up", 2 * hidden, options.width, bias);
    } else {
      if (options.gated) linear("feed_forward.gate", hidden, options.width, bias);
      linear("feed_forward.up", hidden, options.width, bias);
    }
    linear("feed_forward.down", options.width, hidden, bias);
    norm("feed_forward_norm", options.norm, options.width, options.norm_bias);
    if (options.norm_place == NormPlace::both) {
      norm("feed_forward_output_norm", options.norm, options.width, options.norm_bias);
    }
  }

  std::string prefix_;
  std::vector<ParameterShape> found_;
};

// "encoder.layers.3.attention.query" -> "encoder.layers.{}.attention.query" and "3"; no number where there is no layer.
std::pair<std::string, std::string> without_number(const std::string& name) {
  constexpr std::string_view kLayers = ".layers.";
  const std::size_t layers = name.find(kLayers);
  if (layers == std::string::npos) return {name, ""};
  const std::size_t begin = layers + kLayers.size();
  const std::size_t end = name.find('.', begin);
  return {name.substr(0, begin) + "{}" + name.substr(end), name.substr(begin, end - begin)};
}

// A name of the table with the layer's number and what follows the module.
std::string completed(std::string name, const std::string& number, const std::string& rest) {
  const std::size_t at = name.find("{}");
  if (at != std::string::npos) name.replace(at, 2, number);
  return name + rest;
}

std::vector<std::string> split_pieces(const std::string& names) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('|', begin), names.size());
    pieces.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}

void set_piece_shapes(const std::vector<std::int64_t>& file_shape, FileTensor& tensor) {
  Shape piece = file_shape.empty() ? tensor.shape : Shape(file_shape);
  const auto count = static_cast<std::int64_t>(tensor.pieces.size());
  check(piece[0] % count == 0, "parameter ", tensor.parameter, " cannot be joined of ", count, " tensors");
  piece[0] = piece[0] / count * tensor.parts;
  if (tensor.transposed && piece.rank() == 2) piece = {piece[1], piece[0]};
  tensor.transposed = tensor.transposed && piece.rank() == 2;
  // Buffers of BART's kind have one row.
  if (tensor.pieces.front() == "final_logits_bias") piece = {1, piece[0]};
  tensor.piece_shapes.assign(tensor.pieces.size(), piece);
}

}  // namespace

std::vector<ParameterShape> parameter_shapes(const TransformerModelOptions& options) {
  ParameterShapes shapes;
  const bool decodes = options.kind != ModelKind::encoder;
  const bool encodes = options.kind != ModelKind::decoder;
  const StackOptions& last = decodes ? options.decoder : options.encoder;
  const bool separate = options.separate_embeddings;
  const bool has_embedding = decodes || options.encoder.front.kind == FrontKind::tokens;
  if (has_embedding && !separate) shapes.add("embedding.weight", {options.vocab_size, last.width});
  if (encodes) shapes.stack("encoder", options.encoder, separate, options.vocab_size);
  if (decodes) shapes.stack("decoder", options.decoder, separate, options.vocab_size);
  if (options.memory_projection) shapes.linear("memory_projection", last.width, options.encoder.width, true);
  if (options.pooler) shapes.linear("pooler", last.width, last.width, true);
  shapes.head(options.head, last);
  return shapes.take();
}

std::vector<FileTensor> file_tensors(const TransformerModelOptions& options, const Family& family) {
  std::map<std::string, TensorName> table;
  for (TensorName& name : family.names(options)) {
    const std::string ours = name.ours;
    table.emplace(ours, std::move(name));
  }
  std::vector<FileTensor> tensors;
  for (auto& [parameter, shape] : parameter_shapes(options)) {
    const auto [name, number] = without_number(parameter);
    const std::size_t dot = name.rfind('.');
    auto entry = table.find(name);
    std::string rest;
    if (entry == table.end()) {
      entry = table.find(name.substr(0, dot));
      rest = name.substr(dot);
    }
    check(entry != table.end(), "the family ", family.model_type, " has no name for the parameter ", parameter);
    FileTensor tensor;
    tensor.parameter = parameter;
    tensor.shape = shape;
    tensor.transposed = entry->second.transposed;
    tensor.copy = entry->second.copy;
    tensor.part = entry->second.part;
    tensor.parts = entry->second.parts;
    for (const std::string& piece : split_pieces(entry->second.theirs)) {
      tensor.pieces.push_back(completed(piece, number, rest));
    }
    tensor.in_head = parameter.starts_with("head.");
    set_piece_shapes(entry->second.shape, tensor);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace headway::inline v0::internal
