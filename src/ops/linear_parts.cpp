// linear_parts(): products of several inputs with parts of one weight.
#include "headway/ops.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/product.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kLinear = "linear";

struct PartsBackward {
  std::vector<Saved> rows;  // (tokens, in) of each input; undefined where there was none
  std::vector<Shape> x_shapes;
  Saved weight;  // (out, in)
  std::vector<std::int64_t> sizes;

  // Fills the rows [begin, begin + d.size(1)) of the gradients of weight and bias; undefined ones are not wanted.
  void fill(const Tensor& d, const Tensor& x, std::int64_t begin, const Tensor& d_weight, const Tensor& d_bias) const {
    const std::int64_t end = begin + d.size(1);
    if (d_bias.defined()) {
      backend_of(d).column_sums({.dtype = d.dtype(),
                                 .rows = d.size(0),
                                 .columns = d.size(1),
                                 .x = bytes_of(d),
                                 .sums = bytes_of(d_bias.slice(0, begin, end)),
                                 .sums_dtype = d.dtype()});
    }
    if (d_weight.defined()) product_into(d.transpose(0, 1), x, d_weight.slice(0, begin, end));
  }

  Tensors operator()(BackwardCall& call) const {
    const std::size_t count = sizes.size();
    const Tensor& whole = weight.get();
    Tensors gradients(count + 2);
    Tensor d_weight, d_bias;
    if (call.wants(count)) d_weight = Tensor::empty(whole.shape(), whole.dtype(), whole.device());
    if (call.wants(count + 1)) d_bias = Tensor::empty({whole.size(0)}, whole.dtype(), whole.device());
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < count; begin += sizes[i++]) {
      if (!call.d_outputs[i].defined()) {
        if (d_weight.defined()) d_weight.slice(0, begin, begin + sizes[i]).fill(0);
        if (d_bias.defined()) d_bias.slice(0, begin, begin + sizes[i]).fill(0);
        continue;
      }
      const Tensor d = as_rows(take_dense(call.d_outputs[i]));
      fill(d, rows[i].get(), begin, d_weight, d_bias);
      if (call.wants(i)) {
        gradients[i] = linear_input_gradient(d, whole.slice(0, begin, begin + sizes[i]), x_shapes[i], call, i);
      }
    }
    gradients[count] = std::move(d_weight);
    gradients[count + 1] = std::move(d_bias);
    return gradients;
  }
};

}  // namespace

std::vector<Tensor> linear_parts(const std::vector<Tensor>& xs, const Tensor& weight, const Tensor& bias,
                                 const std::vector<std::int64_t>& sizes) {
  bool recorded = needs_gradient(weight, bias);
  for (const Tensor& x : xs) recorded = recorded || needs_gradient(x);
  const NoGradGuard guard;
  PartsBackward backward = {.rows = {}, .x_shapes = {}, .weight = Saved(kLinear, weight), .sizes = sizes};
  std::vector<Tensor> outputs;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < xs.size(); begin += sizes[i++]) {
    const Tensor& x = xs[i];
    outputs.emplace_back();
    backward.rows.emplace_back();
    backward.x_shapes.emplace_back();
    if (!x.defined()) continue;
    check_linear(x, weight, bias);
    const Tensor rows = as_rows(x), result = Tensor::empty({rows.size(0), sizes[i]}, x.dtype(), x.device());
    linear_into(rows, weight.slice(0, begin, begin + sizes[i]),
                bias.defined() ? bias.slice(0, begin, begin + sizes[i]) : bias, result);
    Shape shape = x.shape();
    shape[-1] = sizes[i];
    outputs.back() = result.view(shape);
    backward.rows.back() = Saved(kLinear, rows);
    backward.x_shapes.back() = x.shape();
  }
  if (recorded) {
    Tensors inputs = xs;
    inputs.insert(inputs.end(), {weight, bias});
    record(kLinear, inputs, outputs, std::move(backward));
  }
  return outputs;
}

}  // namespace headway::inline v0::internal
