#include "workload.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "headway/attention.h"
#include "headway/threads.h"

namespace bench {
namespace {

// Everything that attention takes; d_output only for the backward pass.
struct Inputs {
  at::Tensor query;     // [batch, heads, query_length, head_dim]
  at::Tensor key;       // [batch, kv_heads, key_length, head_dim]
  at::Tensor value;     // [batch, kv_heads, key_length, head_dim]
  at::Tensor d_output;  // [batch, heads, query_length, head_dim]

  template <typename Function>
  Inputs map(const Function& function) const {
    return {function(query), function(key), function(value), d_output.defined() ? function(d_output) : at::Tensor()};
  }
};

// What PyTorch's fused kernel needs for a backward pass.
struct FlashForward {
  at::Tensor output;
  at::Tensor logsumexp;
};

at::Tensor random_tensor(const Case& c, std::int64_t heads, std::int64_t length) {
  const auto dtype = c.dtype == headway::DType::bfloat16 ? at::kBFloat16 : at::kFloat;
  if (c.length_before_heads()) return at::randn({c.batch, length, heads, c.head_dim}).to(dtype).transpose(1, 2);
  return at::randn({c.batch, heads, length, c.head_dim}).to(dtype);
}

Inputs random_inputs(const Case& c) {
  Inputs inputs;
  inputs.query = random_tensor(c, c.heads, c.query_length);
  inputs.key = random_tensor(c, c.kv_heads, c.key_length);
  inputs.value = random_tensor(c, c.kv_heads, c.key_length);
  if (c.pass == Pass::backward) inputs.d_output = random_tensor(c, c.heads, c.query_length);
  return inputs;
}

// ---- PyTorch ----

at::Tensor torch_forward(const Case& c, const Inputs& in, const std::optional<at::Tensor>& mask = {}) {
  return at::scaled_dot_product_attention(in.query, in.key, in.value, mask, 0.0, c.is_causal(), std::nullopt,
                                          c.heads != c.kv_heads);
}

FlashForward flash_forward(const Case& c, const Inputs& in, const std::optional<at::Tensor>& mask = {}) {
  auto [output, logsumexp] =
      at::_scaled_dot_product_flash_attention_for_cpu(in.query, in.key, in.value, 0.0, c.is_causal(), mask);
  return {output, logsumexp};
}

std::vector<at::Tensor> flash_backward(const Case& c, const Inputs& in, const FlashForward& forward,
                                       const std::optional<at::Tensor>& mask = {}) {
  auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      in.d_output, in.query, in.key, in.value, forward.output, forward.logsumexp, 0.0, c.is_causal(), mask);
  return {query, key, value};
}

// The path of those who want the weights: three operations, a query_length x key_length matrix in memory.
std::vector<at::Tensor> torch_with_weights(const Case& c, const Inputs& in) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  at::Tensor weights = at::softmax(at::matmul(in.query * scale, in.key.transpose(-2, -1)), -1);
  return {at::matmul(weights, in.value), weights};
}

// Each sequence of an uneven batch as views of its own.
std::vector<Inputs> split_sequences(const Case& c, const Inputs& in) {
  std::vector<Inputs> sequences;
  std::int64_t start = 0;
  for (const std::int64_t length : c.lengths) {
    sequences.push_back(in.map([&](const at::Tensor& t) { return t.narrow(2, start, length); }));
    start += length;
  }
  return sequences;
}

// The sequences of an uneven batch side by side, each filled up with zeros: [sequences, heads, longest, head_dim].
Inputs pad_sequences(const Case& c, const Inputs& in) {
  const std::int64_t longest = *std::max_element(c.lengths.begin(), c.lengths.end());
  const auto count = static_cast<std::int64_t>(c.lengths.size());
  return in.map([&](const at::Tensor& t) {
    at::Tensor padded = at::zeros({count, longest, c.heads, c.head_dim}, t.options()).transpose(1, 2);
    std::int64_t start = 0;
    for (std::int64_t s = 0; s < count; ++s) {
      const std::int64_t length = c.lengths[static_cast<std::size_t>(s)];
      padded.select(0, s).narrow(1, 0, length).copy_(t.select(0, 0).narrow(1, start, length));
      start += length;
    }
    return padded;
  });
}

// True where a key is real: [sequences, 1, 1, longest].
at::Tensor padding_mask(const Case& c) {
  const std::int64_t longest = *std::max_element(c.lengths.begin(), c.lengths.end());
  const at::Tensor lengths = at::tensor(c.lengths, at::kLong).reshape({-1, 1, 1, 1});
  return at::arange(longest, at::kLong).reshape({1, 1, 1, -1}) < lengths;
}

std::vector<Contender> torch_uneven(const Case& c, const Inputs& in) {
  const auto sequences = split_sequences(c, in);
  const Inputs padded = pad_sequences(c, in);
  const at::Tensor mask = padding_mask(c);
  if (c.pass == Pass::forward) {
    const auto loop = [c, sequences] {
      std::vector<at::Tensor> outputs;
      for (const Inputs& one : sequences) outputs.push_back(torch_forward(c, one));
    };
    return {{"one call per sequence", loop}, {"padded batch", [c, padded, mask] { torch_forward(c, padded, mask); }}};
  }
  std::vector<FlashForward> forwards;
  for (const Inputs& one : sequences) forwards.push_back(flash_forward(c, one));
  const auto loop = [c, sequences, forwards] {
    std::vector<std::vector<at::Tensor>> gradients;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      gradients.push_back(flash_backward(c, sequences[s], forwards[s]));
    }
  };
  // The fused kernel takes a mask to be added, as scaled_dot_product_attention makes it from a boolean one.
  const at::Tensor added = at::zeros(mask.sizes(), padded.query.options())
                               .masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity());
  const FlashForward forward = flash_forward(c, padded, added);
  const auto batch = [c, padded, added, forward] { flash_backward(c, padded, forward, added); };
  return {{"one call per sequence", loop}, {"padded batch", batch}};
}

// Query heads that share a key head may also be seen as that many queries of one head: with a single query and no mask
// that is the same, and spares PyTorch the copies of keys and values that enable_gqa makes.
std::vector<Contender> torch_decoding(const Case& c, const Inputs& in) {
  Case folded_case = c;
  folded_case.heads = c.kv_heads;
  Inputs folded = in;
  folded.query = in.query.reshape({c.batch, c.kv_heads, c.heads / c.kv_heads, c.head_dim});
  return {{"enable_gqa", [c, in] { torch_forward(c, in); }},
          {"heads folded into queries", [folded_case, folded] { torch_forward(folded_case, folded); }}};
}

std::vector<Contender> torch_contenders(const Case& c, const Inputs& in) {
  if (c.uneven()) return torch_uneven(c, in);
  if (c.decoding()) return torch_decoding(c, in);
  if (c.with_weights()) return {{"matmul, softmax, matmul", [c, in] { torch_with_weights(c, in); }}};
  if (c.pass == Pass::forward) return {{"scaled_dot_product_attention", [c, in] { torch_forward(c, in); }}};
  const FlashForward forward = flash_forward(c, in);
  return {{"fused backward", [c, in, forward] { flash_backward(c, in, forward); }}};
}

// The results to compare with, computed by PyTorch in float32: output (and weights), or the three gradients.
std::vector<at::Tensor> reference_results(const Case& c, const Inputs& given) {
  const Inputs in = given.map([](const at::Tensor& t) { return t.to(at::kFloat); });
  const auto one = [&c](const Inputs& part) -> std::vector<at::Tensor> {
    if (c.with_weights()) return torch_with_weights(c, part);
    if (c.pass == Pass::forward) return {torch_forward(c, part)};
    return flash_backward(c, part, flash_forward(c, part));
  };
  if (!c.uneven()) return one(in);
  std::vector<std::vector<at::Tensor>> pieces;  // [result][sequence]
  for (const Inputs& sequence : split_sequences(c, in)) {
    const auto results = one(sequence);
    pieces.resize(results.size());
    for (std::size_t r = 0; r < results.size(); ++r) pieces[r].push_back(results[r]);
  }
  std::vector<at::Tensor> joined;
  for (const auto& piece : pieces) joined.push_back(at::cat(piece, 2));
  return joined;
}

// ---- Headway ----

headway::Tensor wrap(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const auto dtype = tensor.scalar_type() == at::kBFloat16 ? headway::DType::bfloat16 : headway::DType::float32;
  return headway::Tensor::wrap(tensor.data_ptr(), tensor.sizes().vec(), tensor.strides().vec(), dtype);
}

at::Tensor view_in_torch(const headway::Tensor& tensor) {
  const auto dtype = tensor.dtype() == headway::DType::bfloat16 ? at::kBFloat16 : at::kFloat;
  const std::vector<std::int64_t> sizes(tensor.shape().begin(), tensor.shape().end());
  const std::vector<std::int64_t> strides(tensor.strides().begin(), tensor.strides().end());
  return at::from_blob(tensor.raw_data(), sizes, strides, at::TensorOptions().dtype(dtype));
}

headway::AttentionOptions headway_options(const Case& c) {
  headway::AttentionOptions options;
  options.causal = c.causal;
  options.weights = c.weights;
  if (c.uneven()) {
    std::vector<std::int64_t> cumulative = {0};
    for (const std::int64_t length : c.lengths) cumulative.push_back(cumulative.back() + length);
    options.cu_query_lengths = options.cu_key_lengths = cumulative;
  }
  return options;
}

using HeadwayCall = std::function<std::vector<headway::Tensor>()>;

HeadwayCall headway_call(const Case& c, const Inputs& in) {
  headway::AttentionBackward arguments{.query = wrap(in.query), .key = wrap(in.key), .value = wrap(in.value)};
  arguments.options = headway_options(c);
  if (c.pass == Pass::forward) {
    return [arguments, c] {
      auto result = headway::attention(arguments.query, arguments.key, arguments.value, arguments.options);
      std::vector<headway::Tensor> results = {result.output};
      if (c.with_weights()) results.push_back(result.weights);
      return results;
    };
  }
  arguments.forward = headway::attention(arguments.query, arguments.key, arguments.value, arguments.options);
  arguments.d_output = wrap(in.d_output);
  return [arguments]() -> std::vector<headway::Tensor> {
    auto gradients = headway::attention_backward(arguments);
    return {gradients.query, gradients.key, gradients.value};
  };
}

// ---- comparing ----

// The largest |result - reference| / max(|reference|, average |reference|) over rows; infinity where it is not finite.
double worst_row_error(const at::Tensor& result, const at::Tensor& reference) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (result.sizes() != reference.sizes()) return infinity;
  const at::Tensor expected = reference.to(at::kFloat);
  const at::Tensor difference = (result.to(at::kFloat) - expected).norm(2, -1);
  const at::Tensor length = expected.norm(2, -1);
  const double worst = (difference / length.clamp_min(length.mean().item())).max().item<double>();
  return std::isfinite(worst) ? worst : infinity;
}

}  // namespace

Workload make_workload(const Case& c) {
  const at::NoGradGuard no_grad;
  const Inputs inputs = random_inputs(c);
  const auto reference = reference_results(c, inputs);
  // The inputs live as long as the calls, which hold only Headway's handles on their memory.
  const HeadwayCall call = [inputs, inner = headway_call(c, inputs)] { return inner(); };

  Workload workload;
  workload.headway = {"Headway", [call] { call(); }};
  if (c.with_weights()) {
    Case plain = c;
    plain.weights = headway::Weights::none;
    workload.headway_plain = Contender{"Headway, plain", [inner = headway_call(plain, inputs)] { inner(); }};
  }
  workload.torch = torch_contenders(c, inputs);
  for (Contender& contender : workload.torch) {
    contender.call = [inner = std::move(contender.call)] {
      const at::NoGradGuard no_grad;
      inner();
    };
  }
  workload.error = [call, reference] {
    const at::NoGradGuard no_grad;
    const auto results = call();
    double worst = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      worst = std::max(worst, worst_row_error(view_in_torch(results[i]), reference[i]));
    }
    return worst;
  };
  workload.tolerance = c.dtype == headway::DType::bfloat16 ? 5e-2 : 1e-4;
  return workload;
}

void set_threads(int threads) {
  at::set_num_threads(threads);
  headway::set_num_threads(threads);
}

std::string torch_version() {
  return std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR) + "." +
         std::to_string(TORCH_VERSION_PATCH);
}

}  // namespace bench
