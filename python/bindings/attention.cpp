// _core.attention() and _core.attention_backward(): options by their Python names, tensors in and out.
#include "headway/attention.h"

#include <nanobind/stl/string.h>

#include <array>
#include <string>
#include <vector>

#include "bindings/bindings.h"

namespace headway::python {
namespace {

using namespace nb::literals;

// A headway.Tensor, or any array that DLPack's C exchange API can lend while the call lasts.
Tensor read_tensor(const std::string& argument, nb::handle value) {
  if (const ExchangeApi* api = exchange_api_of(value)) return borrow_exchanged(*api, value, argument);
  const Tensor* tensor = nullptr;
  if (!nb::try_cast(value, tensor, false) || tensor == nullptr) refuse(argument, value, "a headway.Tensor");
  return *tensor;
}

// Returns results in the query's form.
class Results {
 public:
  explicit Results(nb::handle query) : api_(exchange_api_of(query)) {}
  nb::object give(const Tensor& tensor) const {
    return api_ == nullptr ? to_python(tensor) : give_exchanged(*api_, tensor);
  }

 private:
  const ExchangeApi* api_;
};

// An integer, a sequence of integers, or a tensor of them.
PerEntry read_per_entry(const std::string& argument, nb::handle value) {
  if (nb::isinstance<Tensor>(value) || exchange_api_of(value) != nullptr) return read_tensor(argument, value);
  if (PyIndex_Check(value.ptr())) return read_integer(argument, value);
  return read_integers(argument, value, "an integer, a sequence of integers or an array of them");
}

// A sequence of integers, or a tensor of them.
CumulativeLengths read_cumulative(const std::string& argument, nb::handle value) {
  if (nb::isinstance<Tensor>(value) || exchange_api_of(value) != nullptr) return read_tensor(argument, value);
  return read_integers(argument, value, "a sequence of integers or an array of them");
}

Window read_window(const std::string& argument, nb::handle value) {
  if (!(nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) || nb::len(value) != 2) {
    refuse(argument, value, "a pair (left, right), where None means no limit");
  }
  Window window;
  const nb::object left = value[0];
  const nb::object right = value[1];
  if (!left.is_none()) window.left = read_integer(argument + "[0]", left);
  if (!right.is_none()) window.right = read_integer(argument + "[1]", right);
  return window;
}

void set_mask(AttentionOptions& options, const std::string& argument, nb::handle value, bool keeps) {
  if (options.mask.defined()) {
    throw nb::value_error((argument + " is given, and so is a mask of the other polarity: expected one").c_str());
  }
  Tensor mask = read_tensor(argument, value);
  options.mask = keeps ? Mask::keep(std::move(mask)) : Mask::drop(std::move(mask));
}

struct Option {
  std::string_view name;
  void (*set)(AttentionOptions& options, const std::string& argument, nb::handle value);
};
using Options = AttentionOptions;
using Name = std::string;

constexpr std::array<Option, 17> kOptions = {{
    {"causal",
     [](Options& to, const Name& name, nb::handle value) {
       to.causal = read_choice(name, value, {"top_left", "bottom_right"}) == 0 ? Causal::top_left
                                                                                  : Causal::bottom_right;
     }},
    {"query_offset",
     [](Options& to, const Name& name, nb::handle value) { to.query_offset = read_per_entry(name, value); }},
    {"keep_mask", [](Options& to, const Name& name, nb::handle value) { set_mask(to, name, value, true); }},
    {"drop_mask", [](Options& to, const Name& name, nb::handle value) { set_mask(to, name, value, false); }},
    {"bias", [](Options& to, const Name& name, nb::handle value) { to.bias = read_tensor(name, value); }},
    {"scale", [](Options& to, const Name& name, nb::handle value) { to.scale = read_number(name, value); }},
    {"window", [](Options& to, const Name& name, nb::handle value) { to.window = read_window(name, value); }},
    {"key_lengths",
     [](Options& to, const Name& name, nb::handle value) { to.key_lengths = read_per_entry(name, value); }},
    {"cu_query_lengths",
     [](Options& to, const Name& name, nb::handle value) { to.cu_query_lengths = read_cumulative(name, value); }},
    {"cu_key_lengths",
     [](Options& to, const Name& name, nb::handle value) { to.cu_key_lengths = read_cumulative(name, value); }},
    {"softcap", [](Options& to, const Name& name, nb::handle value) { to.softcap = read_number(name, value); }},
    {"alibi_slopes",
     [](Options& to, const Name& name, nb::handle value) { to.alibi_slopes = read_tensor(name, value); }},
    {"sinks", [](Options& to, const Name& name, nb::handle value) { to.sinks = read_tensor(name, value); }},
    {"dropout", [](Options& to, const Name& name, nb::handle value) { to.dropout = read_number(name, value); }},
    {"seed", [](Options& to, const Name& name, nb::handle value) { to.seed = read_seed(name, value); }},
    {"return_weights", [](Options& to, const Name& name, nb::handle value) { to.weights = read_weights(name, value); }},
    {"weights_of",
     [](Options& to, const Name& name, nb::handle value) {
       constexpr std::array kinds = {WeightsOf::softmax, WeightsOf::scores, WeightsOf::softcapped, WeightsOf::masked};
       to.weights_of = kinds[read_choice(name, value, {"softmax", "scores", "softcapped", "masked"})];
     }},
}};

AttentionOptions read_options(const std::string& function, const nb::kwargs& given) {
  AttentionOptions options;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const Option* known = nullptr;
    for (const Option& option : kOptions) {
      if (option.name == name) known = &option;
    }
    if (known == nullptr) throw nb::type_error((function + ": there is no option " + name).c_str());
    if (!value.is_none()) known->set(options, function + ": " + name, value);
  }
  return options;
}

struct AttentionTensors {
  Tensor query, key, value;
};

// attention() on the query's stream, with Python free to run.
AttentionResult attend_unlocked(nb::handle query, const AttentionTensors& tensors, const nb::kwargs& given) {
  const AttentionOptions options = read_options("attention", given);
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
  arguments.options = read_options("attention_backward", given);
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
