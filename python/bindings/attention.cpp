// _core.attention() and _core.attention_backward(): options by their Python names, tensors in and out.
#include "headway/attention.h"

#include <nanobind/stl/string.h>

#include <array>
#include <string>
#include <vector>

#include "bindings/attention_options.h"

namespace headway::python {
namespace {

using namespace nb::literals;

struct AttentionTensors {
  Tensor query, key, value;
};

// attention() on the query's stream, with Python free to run.
AttentionResult attend_unlocked(nb::handle query, const AttentionTensors& tensors, const nb::kwargs& given) {
  const AttentionOptions options = read_attention_options("attention", given);
  AttentionResult result;
  {
    const StreamOf stream(tensors.query, exchange_api_of(query));
    const LockReleased released;
    result = attention(tensors.query, tensors.key, tensors.value, options);
  }
  count_call();
  return result;
}

nb::tuple attend(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& given) {
  const Results results(query);
  const Tensor q = read_tensor("attention: query", query);
  const Tensor k = read_tensor("attention: key", key);
  const Tensor v = read_tensor("attention: value", value);
  const AttentionResult result = attend_unlocked(query, {q, k, v}, given);
  return nb::make_tuple(results.give(result.output), results.give(result.logsumexp), results.give(result.weights));
}

// (output, logsumexp): the output in the query's form, the logsumexp always a headway.Tensor, which is quicker to make
// and good enough to go back into attention_backward(). Fewer heads of keys than of queries must be wanted.
nb::tuple attend_for_output(nb::handle query, nb::handle key, nb::handle value, bool grouped, const nb::kwargs& given) {
  const Tensor q = read_tensor("attention: query", query);
  const Tensor k = read_tensor("attention: key", key);
  const Tensor v = read_tensor("attention: value", value);
  if (!grouped && q.rank() == 4 && k.rank() == 4 && q.size(1) != k.size(1)) {
    throw nb::value_error("attention: key has another number of heads than query, expected the same");
  }
  const AttentionResult result = attend_unlocked(query, {q, k, v}, given);
  return nb::make_tuple(Results(query).give(result.output), to_python(result.logsumexp));
}

Tensor read_optional(const char* argument, nb::handle value) {
  return value.is_none() ? Tensor() : read_tensor(argument, value);
}

nb::tuple attend_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle output, nb::handle logsumexp,
                          nb::handle d_output, nb::handle d_logsumexp, nb::handle d_weights, bool bias_gradient,
                          const nb::kwargs& given) {
  const Results results(query);
  AttentionBackward arguments;
  arguments.query = read_tensor("attention_backward: query", query);
  arguments.key = read_tensor("attention_backward: key", key);
  arguments.value = read_tensor("attention_backward: value", value);
  arguments.forward.output = read_tensor("attention_backward: output", output);
  arguments.forward.logsumexp = read_tensor("attention_backward: logsumexp", logsumexp);
  arguments.d_output = read_optional("attention_backward: d_output", d_output);
  arguments.d_logsumexp = read_optional("attention_backward: d_logsumexp", d_logsumexp);
  arguments.d_weights = read_optional("attention_backward: d_weights", d_weights);
  arguments.bias_gradient = bias_gradient;
  arguments.options = read_attention_options("attention_backward", given);
  AttentionGradients gradients;
  {
    const StreamOf stream(arguments.query, exchange_api_of(query));
    const LockReleased released;
    gradients = attention_backward(arguments);
  }
  count_call();
  return nb::make_tuple(results.give(gradients.query), results.give(gradients.key), results.give(gradients.value),
                        results.give(gradients.bias), results.give(gradients.sinks));
}

}  // namespace

void bind_attention(nb::module_& module) {
  module.def("attention", &attend, "query"_a, "key"_a, "value"_a, "options"_a,
             "Attention on tensors: (output, logsumexp, weights or None). Options as headway.attention's. Tensors are "
             "headway.Tensor or of a type with DLPack's C exchange API; what comes out is of the query's kind.");
  module.def("attention_output", &attend_for_output, "query"_a, "key"_a, "value"_a, "grouped"_a, "options"_a,
             "attention() for (output, logsumexp), the latter always a headway.Tensor: the quickest call.");
  module.def("attention_backward", &attend_backward, "query"_a, "key"_a, "value"_a, "output"_a, "logsumexp"_a,
             "d_output"_a.none() = nb::none(), "d_logsumexp"_a.none() = nb::none(), "d_weights"_a.none() = nb::none(),
             "bias_gradient"_a = true, "options"_a,
             "The gradients (query, key, value, bias or None, sinks or None), with attention's options.");
}

}  // namespace headway::python
