// A model of one text, written out in loops of doubles.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "headway/ops.h"
#include "headway/transformer_model.h"
#include "models/relative_bias.h"
#include "support/plain_block.h"

namespace headway_test {

using Ids = std::vector<std::int64_t>;

inline Rows plain_stack(const headway::StateDict& state, const headway::StackOptions& options,
                        const std::string& prefix, bool is_decoder, const Ids& tokens, const Ids& types,
                        const Rows& memory) {
  const PlainParameters all(state, ""), own(state, prefix + ".");
  const headway::Tensor embedding =
      own.has("embedding.weight") ? own.get("embedding.weight") : all.get("embedding.weight");
  Rows x;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    x.push_back(embedding.select(0, tokens[i]).to_vector());
    for (double& value : x.back()) value *= options.embedding_scale;
    std::vector<headway::Tensor> added;
    const auto position = static_cast<std::int64_t>(i);
    if (own.has("positions.weight")) {
      added.push_back(own.get("positions.weight").select(0, position + options.position_offset));
    }
    if (options.positions == headway::PositionKind::sinusoidal) {
      added.push_back(headway::sinusoidal_positions(20, options.width, options.sinusoid).select(0, position));
    }
    if (own.has("token_types.weight")) {
      added.push_back(own.get("token_types.weight").select(0, types.empty() ? 0 : types[i]));
    }
    for (const headway::Tensor& row : added) x.back() = plain_sum({x.back()}, {row.to_vector()})[0];
  }
  x = own.norm(x, "embedding_norm", options.norm, options.norm_epsilon);
  for (std::size_t layer = 0; layer < options.layers.size(); ++layer) {
    PlainText text = {.x = x, .memory = memory};
    if (own.has("relative_bias.weight")) {
      const headway::Tensor table = own.get("relative_bias.weight");
      text.score_bias = [=](int head, int query, int key) {
        const std::int64_t bucket = headway::internal::relative_bucket(
            key - query, {options.relative_buckets, options.relative_max_distance, !is_decoder});
        return table.at({bucket, head});
      };
    }
    x = plain_block(text, own.below("layers." + std::to_string(layer)), options.layers[layer]).output;
  }
  return own.norm(x, "norm", options.norm, options.norm_epsilon);
}

struct PlainModelResult {
  Rows hidden, logits;
};

inline PlainModelResult plain_model(const headway::TransformerModel& model, const Ids& tokens, const Ids& target,
                                    const Ids& types = {}) {
  const headway::TransformerModelOptions& options = model.options();
  const headway::StateDict state = model.state_dict();
  const bool is_decoder = options.kind == headway::ModelKind::decoder;
  const headway::StackOptions& last = options.kind == headway::ModelKind::encoder ? options.encoder : options.decoder;
  PlainModelResult result;
  result.hidden = plain_stack(state, is_decoder ? options.decoder : options.encoder, is_decoder ? "decoder" : "encoder",
                              is_decoder, tokens, types, {});
  if (options.kind == headway::ModelKind::encoder_decoder) {
    result.hidden = plain_stack(state, options.decoder, "decoder", true, target, {}, result.hidden);
  }
  const headway::HeadOptions& head = options.head;
  if (head.kind == headway::HeadKind::none) return result;
  Rows x = result.hidden;
  if (head.kind == headway::HeadKind::sequence) {
    if (head.pooling == headway::HeadOptions::Pooling::first) x = {x.front()};
    if (head.pooling == headway::HeadOptions::Pooling::last) x = {x.back()};
    if (head.pooling == headway::HeadOptions::Pooling::mean) {
      for (std::size_t i = 1; i < x.size(); ++i) x[0] = plain_sum({x[0]}, {x[i]})[0];
      for (double& value : x[0]) value /= static_cast<double>(x.size());
      x = {x[0]};
    }
  }
  const auto activated = [](Rows rows, headway::Activation activation) {
    for (auto& row : rows) {
      for (double& value : row) value = plain_activation(value, activation);
    }
    return rows;
  };
  const PlainParameters parameters(state, "");
  if (options.pooler) x = activated(parameters.linear(x, "pooler"), headway::Activation::tanh);
  if (head.dense) x = activated(parameters.linear(x, "head.dense"), head.dense_activation);
  x = parameters.norm(x, "head.norm", last.norm, last.norm_epsilon);
  for (auto& row : x) {
    for (double& value : row) value *= head.logit_scale;
  }
  headway::StateDict output = {};
  const std::string embedding = options.separate_embeddings ? "decoder.embedding.weight" : "embedding.weight";
  output["o.weight"] = head.tied ? state.at(embedding) : state.at("head.output.weight");
  if (head.bias) output["o.bias"] = state.at("head.output.bias");
  result.logits = PlainParameters(output, "").linear(x, "o");
  if (head.softcap) {
    for (auto& row : result.logits) {
      for (double& value : row) value = *head.softcap * std::tanh(value / *head.softcap);
    }
  }
  return result;
}

}  // namespace headway_test
