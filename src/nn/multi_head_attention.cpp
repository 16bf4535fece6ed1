// MultiHeadAttention: project, attend, project back.
#include "headway/multi_head_attention.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "core/tensor_impl.h"
#include "dist/sequence_guard.h"
#include "headway/random.h"
#include "nn/attention_masks.h"
#include "nn/initial_values.h"
#include "ops/attention_heads.h"
#include "ops/linear.h"

namespace headway::inline v0 {

using internal::check;
using internal::HeadsIn;

namespace {

std::int64_t head_dim_of(const MultiHeadAttentionOptions& options) {
  check(options.embed_dim > 0 && options.num_heads > 0, "MultiHeadAttention: embed_dim is ", options.embed_dim,
        " and num_heads is ", options.num_heads, ", expected both above 0");
  if (options.head_dim) {
    check(*options.head_dim > 0, "MultiHeadAttention: head_dim is ", *options.head_dim, ", expected more than 0");
    return *options.head_dim;
  }
  check(options.embed_dim % options.num_heads == 0, "MultiHeadAttention: embed_dim is ", options.embed_dim,
        ", which is not a multiple of num_heads, ", options.num_heads);
  return options.embed_dim / options.num_heads;
}

std::int64_t kv_heads_of(const MultiHeadAttentionOptions& options) {
  const std::int64_t kv_heads = options.num_kv_heads.value_or(options.num_heads);
  check(kv_heads > 0 && options.num_heads % kv_heads == 0, "MultiHeadAttention: num_heads is ", options.num_heads,
        ", which is not a multiple of num_kv_heads, ", kv_heads);
  return kv_heads;
}

void check_probability(const char* name, double value) {
  check(value >= 0 && value < 1, "MultiHeadAttention: ", name, " is ", value, ", expected 0 or more and less than 1");
}

LinearOptions out_proj_options(const MultiHeadAttentionOptions& options, std::int64_t head_dim) {
  return {.in_features = options.num_heads * head_dim,
          .out_features = options.embed_dim,
          .bias = options.bias,
          .dtype = options.dtype};
}

// True when both are the same view of the same numbers and record their gradient in the same place.
bool is_same_tensor(const Tensor& a, const Tensor& b) {
  return a.raw_data() == b.raw_data() && a.device() == b.device() && a.shape() == b.shape() &&
         a.strides() == b.strides() && a.dtype() == b.dtype() &&
         TensorImpl::of(a).gradient() == TensorImpl::of(b).gradient();
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& options)
    : options_(options),
      head_dim_(head_dim_of(options)),
      kv_heads_(kv_heads_of(options)),
      out_proj_(out_proj_options(options, head_dim_)) {
  check_probability("dropout", options.dropout);
  check_probability("projection_dropout", options.projection_dropout);
  check_probability("output_dropout", options.output_dropout);
  const std::int64_t query_features = options.num_heads * head_dim_, kv_features = kv_heads_ * head_dim_;
  const std::int64_t kdim = options.kdim.value_or(options.embed_dim), vdim = options.vdim.value_or(options.embed_dim);
  check(kdim > 0 && vdim > 0, "MultiHeadAttention: kdim is ", kdim, " and vdim is ", vdim, ", expected both above 0");
  const std::int64_t all_features = query_features + 2 * kv_features;
  using internal::xavier_uniform;
  if (kdim == options.embed_dim && vdim == options.embed_dim) {
    in_proj_weight_ = add_parameter("in_proj_weight", xavier_uniform({all_features, options.embed_dim}, options.dtype));
  } else {
    q_proj_weight_ = add_parameter("q_proj_weight", xavier_uniform({query_features, options.embed_dim}, options.dtype));
    k_proj_weight_ = add_parameter("k_proj_weight", xavier_uniform({kv_features, kdim}, options.dtype));
    v_proj_weight_ = add_parameter("v_proj_weight", xavier_uniform({kv_features, vdim}, options.dtype));
  }
  if (options.bias) {
    in_proj_bias_ = add_parameter("in_proj_bias", Tensor::zeros({all_features}, options.dtype));
    out_proj_.bias().get().detach().fill(0);
  }
  if (options.add_bias_kv) {
    bias_k_ = add_parameter("bias_k", internal::xavier_normal({1, 1, kv_features}, options.dtype));
    bias_v_ = add_parameter("bias_v", internal::xavier_normal({1, 1, kv_features}, options.dtype));
  }
  add_module("out_proj", out_proj_);
}

// One call: the layer, its input, and the steps of the computation.
struct MultiHeadAttention::Call {
  const MultiHeadAttention& layer;
  MultiHeadAttentionInput input;
  bool batched = true;
  bool length_first = false;
  std::int64_t cached = 0;  // tokens in the cache before this call

  // With `batched` set, all three tensors are defined and have three dimensions.
  Call(const MultiHeadAttention& of, const MultiHeadAttentionInput& given) : layer(of), input(given) {
    check(input.query.defined(), "MultiHeadAttention: query is not given");
    if (!input.key.defined()) input.key = input.query;
    if (!input.value.defined()) input.value = input.key;
    batched = input.query.rank() == 3;
    length_first = batched && !layer.options_.batch_first;
    check_tensor("query", input.query, layer.options_.embed_dim);
    check_tensor("key", input.key, layer.options_.kdim.value_or(layer.options_.embed_dim));
    check_tensor("value", input.value, layer.options_.vdim.value_or(layer.options_.embed_dim));
    if (!batched) add_batch();
    if (!batched && input.key_padding_mask.defined() && input.key_padding_mask.tensor().rank() == 1) {
      const Tensor padding = input.key_padding_mask.tensor().unsqueeze(0);
      input.key_padding_mask = input.key_padding_mask.true_keeps() ? Mask::keep(padding) : Mask::drop(padding);
    }
    check(batch(input.key) == batch(input.query) && batch(input.value) == batch(input.query),
          "MultiHeadAttention: query, key and value have batches of ", batch(input.query), ", ", batch(input.key),
          " and ", batch(input.value), ", expected one");
    check(length(input.value) == length(input.key), "MultiHeadAttention: key has a length of ", length(input.key),
          " and value one of ", length(input.value), ", expected one length");
    cached = input.cache ? input.cache->length() : 0;
  }

  void check_tensor(const char* name, const Tensor& tensor, std::int64_t features) const {
    const char* expected = !batched ? "[length, " : (length_first ? "[length, batch, " : "[batch, length, ");
    check(tensor.rank() == (batched ? 3 : 2) && tensor.size(-1) == features, "MultiHeadAttention: ", name, " is ",
          tensor, ", expected ", expected, features, "]");
  }

  // Adds a batch of one; equal tensors stay equal.
  void add_batch() {
    const bool same_key = is_same_tensor(input.key, input.query), same_value = is_same_tensor(input.value, input.key);
    input.query = input.query.unsqueeze(0);
    input.key = same_key ? input.query : input.key.unsqueeze(0);
    input.value = same_value ? input.key : input.value.unsqueeze(0);
  }

  std::int64_t batch(const Tensor& tensor) const { return tensor.size(length_first ? 1 : 0); }
  std::int64_t length(const Tensor& tensor) const { return tensor.size(length_first ? 0 : 1); }
  bool reads_static_cache() const { return input.cache && input.cache_is_static && cached > 0; }

  // A projection after its dropout; an undefined one stays undefined.
  Tensor dropped(const Tensor& projected) const {
    const double probability = layer.options_.projection_dropout;
    if (probability == 0 || !layer.is_training() || !projected.defined()) return projected;
    return dropout(projected, probability, internal::seed_of_rank(next_random_seed()));
  }

  // A projection with its dropout.
  Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    return dropped(linear(x, weight, bias));
  }

  // Queries, keys and values, computed with as few products as their sources allow.
  std::array<HeadsIn, 3> project_all() const {
    const std::int64_t q = layer.options_.num_heads * layer.head_dim_, kv = layer.kv_heads_ * layer.head_dim_;
    const auto heads = [&](const Tensor& source, std::int64_t first, std::int64_t count) {
      return HeadsIn{source, first, count, layer.head_dim_, length_first};
    };
    const std::int64_t query_heads = layer.options_.num_heads, kv_heads = layer.kv_heads_;
    const Tensor& bias = layer.in_proj_bias_.get();
    if (!layer.in_proj_weight_.defined()) {
      const std::vector<Tensor> biases = bias.defined() ? split(bias, {q, kv, kv}) : std::vector<Tensor>(3);
      const Tensor queries = project(input.query, layer.q_proj_weight_.get(), biases[0]);
      if (reads_static_cache()) return {heads(queries, 0, query_heads), {}, {}};
      return {heads(queries, 0, query_heads),
              heads(project(input.key, layer.k_proj_weight_.get(), biases[1]), 0, kv_heads),
              heads(project(input.value, layer.v_proj_weight_.get(), biases[2]), 0, kv_heads)};
    }
    const Tensor& weight = layer.in_proj_weight_.get();
    const bool one_key_value = is_same_tensor(input.key, input.value);
    if (one_key_value && is_same_tensor(input.query, input.key) && !reads_static_cache()) {
      const Tensor all = project(input.query, weight, bias);
      return {heads(all, 0, query_heads), heads(all, q, kv_heads), heads(all, q + kv, kv_heads)};
    }
    const std::vector<std::int64_t> sizes =
        one_key_value ? std::vector<std::int64_t>{q, 2 * kv} : std::vector<std::int64_t>{q, kv, kv};
    std::vector<Tensor> sources = {input.query, input.key};
    if (!one_key_value) sources.push_back(input.value);
    if (reads_static_cache()) sources = {input.query, Tensor(), Tensor()};
    sources.resize(sizes.size());
    std::vector<Tensor> parts = internal::linear_parts(sources, weight, bias, sizes);
    for (Tensor& part : parts) part = dropped(part);
    if (reads_static_cache()) return {heads(parts[0], 0, query_heads), {}, {}};
    if (one_key_value) {
      return {heads(parts[0], 0, query_heads), heads(parts[1], 0, kv_heads), heads(parts[1], kv, kv_heads)};
    }
    return {heads(parts[0], 0, query_heads), heads(parts[1], 0, kv_heads), heads(parts[2], 0, kv_heads)};
  }

  // Puts learned and zero keys or values before [batch, kv_heads, length, head_dim], where causality and lengths keep
  // them visible to every query.
  Tensor with_extra_keys(const Tensor& tensor, const Parameter& learned) const {
    std::vector<Tensor> parts;
    const Shape one = {tensor.size(0), tensor.size(1), 1, tensor.size(3)};
    if (learned.defined()) {
      parts.push_back(learned.get().view({1, layer.kv_heads_, 1, layer.head_dim_}).expand(one));
    }
    if (layer.options_.add_zero_attn) parts.push_back(Tensor::zeros(one, tensor.dtype(), tensor.device()));
    if (parts.empty()) return tensor;
    parts.push_back(tensor);
    return concat(parts, 2);
  }

  // Weights [..., extra_keys + key_length] with the extra keys last, where torch has them.
  static Tensor with_extra_keys_last(const Tensor& weights, std::int64_t extra_keys) {
    if (extra_keys == 0 || !weights.defined()) return weights;
    return concat({weights.slice(-1, extra_keys, weights.size(-1)), weights.slice(-1, 0, extra_keys)}, -1);
  }

  // Queries, keys and values as tensors of their own: rotated, cached, extended.
  std::array<Tensor, 3> separate(const std::array<HeadsIn, 3>& heads) const {
    Tensor query = heads[0].view(heads[0].source);
    std::pair<Tensor, Tensor> key_value;
    if (!reads_static_cache()) {
      key_value = {heads[1].view(heads[1].source), heads[2].view(heads[2].source)};
    }
    const bool self_cache = input.cache && !input.cache_is_static;
    if (layer.options_.rotary) {
      RotaryOptions options = *layer.options_.rotary;
      options.offset += self_cache ? cached : 0;
      query = rotary(query, options);
      if (key_value.first.defined()) key_value.first = rotary(key_value.first, options);
    }
    if (reads_static_cache()) {
      key_value = {input.cache->keys(), input.cache->values()};
    } else if (input.cache) {
      key_value = input.cache->append(key_value.first, key_value.second);
    }
    return {query, with_extra_keys(key_value.first, layer.bias_k_), with_extra_keys(key_value.second, layer.bias_v_)};
  }

  AttentionOptions attention_options(std::int64_t key_length, std::int64_t extra_keys) const {
    AttentionOptions options;
    internal::set_masks({.key_lengths = input.key_lengths,
                         .padding = input.key_padding_mask,
                         .mask = input.mask,
                         .bias = input.bias,
                         .causal = input.causal},
                        {.batch = batch(input.query),
                         .heads = layer.options_.num_heads,
                         .query_length = length(input.query),
                         .key_length = key_length,
                         .extra_keys = extra_keys,
                         .query_offset = input.cache && !input.cache_is_static ? cached : 0,
                         .dtype = input.query.dtype(),
                         .device = input.query.device()},
                        options);
    if (layer.options_.dropout > 0 && layer.is_training()) {
      options.dropout = layer.options_.dropout;
      options.seed = next_random_seed();
    }
    options.weights = input.weights;
    return options;
  }

  AttentionResult attend() const {
    const std::array<HeadsIn, 3> heads = project_all();
    const std::int64_t extra_keys = (layer.bias_k_.defined() ? 1 : 0) + (layer.options_.add_zero_attn ? 1 : 0);
    if (const SequenceParallelGuard* guard = SequenceParallelGuard::current()) return attend_over(*guard, heads);
    if (!input.cache && !layer.options_.rotary && extra_keys == 0) {
      return internal::attention_of_heads(heads[0], heads[1], heads[2], attention_options(length(input.key), 0));
    }
    const auto [query, key, value] = separate(heads);
    AttentionResult result = attention(query, key, value, attention_options(key.size(2) - extra_keys, extra_keys));
    result.weights = with_extra_keys_last(result.weights, extra_keys);
    return result;
  }

  // The sequences are cut over ranks: queries, keys and values are this rank's tokens.
  AttentionResult attend_over(const SequenceParallelGuard& guard, const std::array<HeadsIn, 3>& heads) const {
    constexpr const char* kName = "MultiHeadAttention";
    if (input.cache) internal::check_not_cut(kName, "a cache");
    if (layer.bias_k_.defined() || layer.options_.add_zero_attn) {
      internal::check_not_cut(kName, "a layer with add_bias_kv or add_zero_attn");
    }
    const std::int64_t key_length = internal::whole_length(kName, guard, length(input.key));
    const std::int64_t query_length = internal::whole_length(kName, guard, length(input.query));
    Tensor query = heads[0].view(heads[0].source), key = heads[1].view(heads[1].source);
    if (layer.options_.rotary) {
      const auto rotated = [&](const Tensor& x, std::int64_t whole) {
        RotaryOptions options = *layer.options_.rotary;
        const Tensor positions = guard.shares(whole).positions(guard.ranks().rank());
        const std::int64_t offset = std::exchange(options.offset, 0);
        for (std::int64_t i = 0; i < positions.element_count(); ++i) positions.data<std::int64_t>()[i] += offset;
        options.positions = positions.to(x.device());
        return rotary(x, options);
      };
      query = rotated(query, query_length);
      key = rotated(key, key_length);
    }
    AttentionOptions options = attention_options(key_length, 0);
    if (options.causal == Causal::bottom_right) options.query_offset = key_length - query_length;
    return sequence_attention(query, key, heads[2].view(heads[2].source), options, guard.ranks(), guard.options());
  }

  MultiHeadAttentionResult run() const {
    const AttentionResult attended = attend();
    // [batch, heads, length, head_dim] -> [batch, length, features], or length first.
    const Tensor rows = length_first ? attended.output.permute({2, 0, 1, 3}) : attended.output.transpose(1, 2);
    Tensor output = layer.out_proj_.forward(rows.reshape({rows.size(0), rows.size(1), rows.size(2) * rows.size(3)}));
    if (layer.options_.output_dropout > 0 && layer.is_training()) {
      output = dropout(output, layer.options_.output_dropout, internal::seed_of_rank(next_random_seed()));
    }
    if (batched) return {output, attended.weights};
    return {output.squeeze(0), attended.weights.defined() ? attended.weights.squeeze(0) : Tensor()};
  }
};

MultiHeadAttentionResult MultiHeadAttention::forward(const MultiHeadAttentionInput& input) const {
  return Call(*this, input).run();
}

}  // namespace headway::inline v0
