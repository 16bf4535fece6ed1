// embedding(): checks, allocates, calls the backend, records the gradient.
#include "base/check.h"
#include "core/autograd.h"
#include "headway/ops.h"
#include "ops/rowwise.h"

namespace headway::inline v0 {
namespace {

using internal::BackwardCall;
using internal::check;
using internal::Tensors;

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, std::optional<std::int64_t> padding_index) {
  constexpr const char* kName = "embedding";
  check(weight.defined() && weight.rank() == 2 && is_floating(weight.dtype()), kName, ": weight is ", weight,
        ", expected a floating tensor [count, features]");
  const std::int64_t count = weight.size(0), features = weight.size(1);
  check(!padding_index || (*padding_index >= 0 && *padding_index < count), kName, ": padding_index is ",
        padding_index.value_or(0), ", expected one of the weight's ", count, " rows");
  std::vector<std::int64_t> rows = internal::read_integers(kName, "indices", indices);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= 0 && rows[i] < count) continue;
    internal::fail(kName, ": index ", rows[i], " at ",
                   internal::indices_of(static_cast<std::int64_t>(i), indices.shape()),
                   " is out of range, expected one of the weight's ", count, " rows");
  }
  Shape shape = indices.shape();
  shape.push_back(features);
  Tensor output = Tensor::empty(shape, weight.dtype(), weight.device());
  internal::backend_of(weight).embedding(weight.stride(1) == 1 ? weight : internal::dense(weight), rows, output);
  if (internal::needs_gradient(weight)) {
    for (std::int64_t& row : rows) {
      if (row == padding_index) row = -1;
    }
    const Shape weight_shape = weight.shape();
    internal::record(kName, {weight}, {output}, [weight_shape, rows = std::move(rows)](BackwardCall& call) {
      const Tensor d_output = internal::take_dense(call.d_outputs[0]);
      const Tensor d_weight = Tensor::empty(weight_shape, d_output.dtype(), d_output.device());
      internal::backend_of(d_output).embedding_backward(d_output, rows, d_weight);
      return Tensors{d_weight};
    });
  }
  return output;
}

}  // namespace headway::inline v0
