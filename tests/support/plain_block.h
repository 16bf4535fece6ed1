// A Transformer block of one text, written out in loops of doubles.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "headway/transformer_block.h"

namespace headway_test {

using Rows = std::vector<std::vector<double>>;
using Scores = std::vector<Rows>;  // (heads, queries, keys)

inline Rows rows_of(const headway::Tensor& matrix) {
  Rows rows;
  for (std::int64_t i = 0; i < matrix.size(0); ++i) rows.push_back(matrix.select(0, i).to_vector());
  return rows;
}

// Parameters by name, below a prefix.
class PlainParameters {
 public:
  PlainParameters(const headway::StateDict& state, std::string prefix) : state_(state), prefix_(std::move(prefix)) {}
  bool has(const std::string& name) const { return state_.contains(prefix_ + name); }
  headway::Tensor get(const std::string& name) const { return state_.at(prefix_ + name); }
  PlainParameters below(const std::string& name) const { return {state_, prefix_ + name + "."}; }

  // x W^T + b with the rows [begin, end) of weight and bias; all rows for end = -1.
  Rows linear(const Rows& x, const std::string& name, std::int64_t begin = 0, std::int64_t end = -1) const {
    const headway::Tensor whole = get(name + ".weight");
    if (end < 0) end = whole.size(0);
    const Rows weight = rows_of(whole.slice(0, begin, end));
    std::vector<double> bias(weight.size(), 0.0);
    if (has(name + ".bias")) bias = get(name + ".bias").slice(0, begin, end).to_vector();
    Rows result(x.size(), bias);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < weight.size(); ++j) {
        for (std::size_t k = 0; k < x[i].size(); ++k) result[i][j] += x[i][k] * weight[j][k];
      }
    }
    return result;
  }

  // The norm of each row; the identity where there is none.
  Rows norm(const Rows& x, const std::string& name, headway::NormKind kind, double epsilon) const {
    if (!has(name + ".weight")) return x;
    const std::vector<double> weight = get(name + ".weight").to_vector();
    std::vector<double> bias(weight.size(), 0.0);
    if (has(name + ".bias")) bias = get(name + ".bias").to_vector();
    Rows result = x;
    for (std::vector<double>& row : result) {
      double mean = 0, square = 0;
      for (const double value : row) mean += value / static_cast<double>(row.size());
      if (kind != headway::NormKind::layer) mean = 0;
      for (const double value : row) square += (value - mean) * (value - mean) / static_cast<double>(row.size());
      for (std::size_t i = 0; i < row.size(); ++i) {
        const double factor = kind == headway::NormKind::rms_plus_one ? 1 + weight[i] : weight[i];
        row[i] = (row[i] - mean) / std::sqrt(square + epsilon) * factor + bias[i];
      }
    }
    return result;
  }

 private:
  const headway::StateDict& state_;
  std::string prefix_;
};

inline double plain_activation(double x, headway::Activation activation) {
  using headway::Activation;
  const double tanh_gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return tanh_gelu;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::quick_gelu:
      return x / (1 + std::exp(-1.702 * x));
  }
  return x;
}

inline Rows plain_sum(Rows a, const Rows& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) a[i][j] += b[i][j];
  }
  return a;
}

struct PlainText {
  Rows x;
  std::vector<double> positions = {};                    // of rotary; default: 0, 1, ...
  std::function<double(int, int, int)> score_bias = {};  // of (head, query, key)
  std::function<bool(int, int)> is_visible = {};         // of (query, key)
  Rows memory = {};
};

struct PlainResult {
  Rows output;
  Scores weights;
  Scores cross_weights;
};

// One head's features turned by the row's position.
inline void plain_rotate(std::vector<double>& row, std::size_t first, double position,
                         const headway::BlockOptions& options, std::int64_t head_dim, std::int64_t length) {
  const auto [frequencies, factor] = headway::rotary_frequencies(*options.rotary, head_dim, length);
  const std::size_t half = frequencies.size();
  for (std::size_t i = 0; i < half; ++i) {
    double& a = row[first + (options.rotary->interleaved ? 2 * i : i)];
    double& b = row[first + (options.rotary->interleaved ? 2 * i + 1 : i + half)];
    const double c = factor * std::cos(position * frequencies[i]), s = factor * std::sin(position * frequencies[i]);
    const double turned = a * c - b * s;
    b = a * s + b * c;
    a = turned;
  }
}

// Queries or keys after the norm of each head and the rotation.
inline Rows plain_heads(Rows rows, const PlainParameters& parameters, const std::string& norm, std::int64_t heads,
                        const headway::BlockOptions& options, std::int64_t head_dim,
                        const std::vector<double>& positions) {
  using headway::NormKind;
  double longest = 0;
  for (const double position : positions) longest = std::max(longest, position + 1);
  const NormKind kind = options.norm == NormKind::layer ? NormKind::rms : options.norm;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::ptrdiff_t first = h * head_dim;
      Rows head = {{rows[r].begin() + first, rows[r].begin() + first + head_dim}};
      head = parameters.norm(head, norm, kind, options.norm_epsilon);
      std::copy(head[0].begin(), head[0].end(), rows[r].begin() + first);
      if (options.rotary) {
        plain_rotate(rows[r], static_cast<std::size_t>(first), positions[r], options, head_dim,
                     static_cast<std::int64_t>(longest));
      }
    }
  }
  return rows;
}

// The weights of one query of one head from its scores, of which -inf are hidden.
inline std::vector<double> plain_softmax(const std::vector<double>& scores, double sink) {
  double total = std::isinf(sink) ? 0 : std::exp(sink);
  for (const double score : scores) total += std::exp(score);
  std::vector<double> weights;
  for (const double score : scores) weights.push_back(total > 0 ? std::exp(score) / total : 0.0);
  return weights;
}

// The scores of one query and key of the self-attention, from their product.
inline double plain_score(double product, int head, int query, int key, const headway::BlockOptions& options,
                          const PlainText& text) {
  double score = product;
  if (options.softcap) score = *options.softcap * std::tanh(score / *options.softcap);
  if (!options.alibi_slopes.empty())
    score -= options.alibi_slopes[static_cast<std::size_t>(head)] * std::abs(query - key);
  if (text.score_bias) score += text.score_bias(head, query, key);
  const bool hidden = (options.causal && key > query) || (text.is_visible && !text.is_visible(query, key)) ||
                      (options.window.left && query - key > *options.window.left) ||
                      (options.window.right && key - query > *options.window.right);
  return hidden ? -INFINITY : score;
}

inline Rows plain_attention(const Rows& x, const PlainText& text, const PlainParameters& parameters,
                            const headway::BlockOptions& options, bool cross, Scores& weights) {
  const std::int64_t head_dim = options.head_dim > 0 ? options.head_dim : options.width / options.heads;
  const std::int64_t kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads;
  const std::int64_t q = options.heads * head_dim, kv = kv_heads * head_dim;
  const Rows& source = cross ? text.memory : x;
  const bool fused = options.fused_qkv && !cross;
  Rows queries = fused ? parameters.linear(x, "qkv", 0, q) : parameters.linear(x, "query");
  Rows keys = fused ? parameters.linear(x, "qkv", q, q + kv) : parameters.linear(source, "key");
  const Rows values = fused ? parameters.linear(x, "qkv", q + kv, q + 2 * kv) : parameters.linear(source, "value");
  std::vector<double> positions = text.positions;
  for (std::size_t i = positions.size(); i < x.size(); ++i) positions.push_back(static_cast<double>(i));
  if (!cross) {
    queries = plain_heads(queries, parameters, "query_norm", options.heads, options, head_dim, positions);
    keys = plain_heads(keys, parameters, "key_norm", kv_heads, options, head_dim, positions);
  }
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim)));
  Rows attended(x.size(), std::vector<double>(static_cast<std::size_t>(q), 0.0));
  for (std::int64_t h = 0; h < options.heads; ++h) {
    const auto first = static_cast<std::size_t>(h * head_dim);
    const auto kv_first = static_cast<std::size_t>(h / (options.heads / kv_heads) * head_dim);
    const double sink = !cross && options.sinks ? parameters.get("sinks").at({h}) : -INFINITY;
    weights.emplace_back();
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::vector<double> scores;
      for (std::size_t j = 0; j < source.size(); ++j) {
        double product = 0;
        for (std::size_t d = 0; d < static_cast<std::size_t>(head_dim); ++d) {
          product += queries[i][first + d] * keys[j][kv_first + d];
        }
        product *= scale;
        scores.push_back(
            cross ? product
                  : plain_score(product, static_cast<int>(h), static_cast<int>(i), static_cast<int>(j), options, text));
      }
      weights.back().push_back(plain_softmax(scores, sink));
      for (std::size_t j = 0; j < source.size(); ++j) {
        for (std::size_t d = 0; d < static_cast<std::size_t>(head_dim); ++d) {
          attended[i][first + d] += weights.back().back()[j] * values[j][kv_first + d];
        }
      }
    }
  }
  return parameters.linear(attended, "output");
}

inline Rows plain_feed_forward(const Rows& x, const PlainParameters& parameters, const headway::BlockOptions& options) {
  const std::int64_t hidden = options.hidden > 0 ? options.hidden : 4 * options.width;
  const bool fused = options.gated && options.fused_gate_up;
  Rows up = fused ? parameters.linear(x, "gate_up", hidden, 2 * hidden) : parameters.linear(x, "up");
  const Rows gate =
      !options.gated ? up : (fused ? parameters.linear(x, "gate_up", 0, hidden) : parameters.linear(x, "gate"));
  for (std::size_t i = 0; i < up.size(); ++i) {
    for (std::size_t j = 0; j < up[i].size(); ++j) {
      const double active = plain_activation(gate[i][j], options.activation);
      up[i][j] = options.gated ? active * up[i][j] : active;
    }
  }
  return parameters.linear(up, "down");
}

inline PlainResult plain_block(const PlainText& text, const PlainParameters& parameters,
                               const headway::BlockOptions& options) {
  using headway::NormPlace;
  PlainResult result;
  const auto norm = [&](const Rows& x, const std::string& name) {
    return parameters.norm(x, name, options.norm, options.norm_epsilon);
  };
  const auto sublayer = [&](const Rows& x, const std::string& name, const auto& function) {
    if (options.norm_place == NormPlace::after) return norm(plain_sum(x, function(x)), name + "_norm");
    const Rows y = function(norm(x, name + "_norm"));
    return plain_sum(x, norm(y, name + "_output_norm"));
  };
  Rows x = sublayer(text.x, "attention", [&](const Rows& in) {
    return plain_attention(in, text, parameters.below("attention"), options, false, result.weights);
  });
  if (options.cross_attention) {
    x = sublayer(x, "cross", [&](const Rows& in) {
      return plain_attention(in, text, parameters.below("cross"), options, true, result.cross_weights);
    });
  }
  result.output = sublayer(x, "feed_forward", [&](const Rows& in) {
    return plain_feed_forward(in, parameters.below("feed_forward"), options);
  });
  return result;
}

}  // namespace headway_test
