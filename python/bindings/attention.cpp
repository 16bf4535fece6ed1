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

const Tensor& read_tensor(const std::string& argument, nb::handle value) {
  const Tensor* tensor = nullptr;
  if (!nb::try_cast(value, tensor, false) || tensor == nullptr) refuse(argument, value, "a headway.Tensor");
  return *tensor;
}

// An integer, a sequence of integers, or a tensor of them.
PerEntry read_per_entry(const std::string& argument, nb::handle value) {
  const Tensor* tensor = nullptr;
  if (nb::try_cast(value, tensor, false) && tensor != nullptr) return *tensor;
  if (PyIndex_Check(value.ptr())) return read_integer(argument, value);
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value)) {
    refuse(argument, value, "an integer, a sequence of integers or an array of them");
  }
  std::vector<std::int64_t> entries;
  for (const nb::handle entry : value) {
    entries.push_back(read_integer(argument + "[" + std::to_string(entries.size()) + "]", entry));
  }
  return entries;
}

Window read_window(const std::string& argument, nb::handle value) {
  if (!(nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) || nb::len(value) != 2) {
    refuse(argument, value, "a pair (left, right), where None is no limit");
  }
  Window window;
  const nb::object left = value[0];
  const nb::object right = value[1];
  if (!left.is_none()) window.left = read_integer(argument + "[0]", left);
  if (!right.is_none()) window.right = read_integer(argument + "[1]", right);
  return window;
}

Weights read_weights(const std::string& argument, nb::handle value) {
  if (value.ptr() == Py_True) return Weights::per_head;
  if (value.ptr() == Py_False) return Weights::none;
  if (!nb::isinstance<nb::str>(value)) refuse(argument, value, "True, False or \"mean\"");
  read_choice(argument, value, {"mean"});
  return Weights::mean;
}

void set_mask(AttentionOptions& options, const std::string& argument, nb::handle value, bool keeps) {
  if (options.mask.defined()) {
    throw nb::value_error((argument + " is given, and so is a mask of the other polarity: expected one").c_str());
  }
  const Tensor& mask = read_tensor(argument, value);
  options.mask = keeps ? Mask::keep(mask) : Mask::drop(mask);
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
     [](Options& to, const Name& name, nb::handle value) { to.cu_query_lengths = read_per_entry(name, value); }},
    {"cu_key_lengths",
     [](Options& to, const Name& name, nb::handle value) { to.cu_key_lengths = read_per_entry(name, value); }},
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

nb::tuple attend(const Tensor& query, const Tensor& key, const Tensor& value, const nb::kwargs& given) {
  const AttentionOptions options = read_options("attention", given);
  AttentionResult result;
  {
    const nb::gil_scoped_release released;
    result = attention(query, key, value, options);
  }
  count_call();
  return nb::make_tuple(to_python(result.output), to_python(result.logsumexp), to_python(result.weights));
}

// Takes a tensor out of the keyword arguments; undefined where it is not among them.
Tensor take_tensor(nb::kwargs& given, const char* name) {
  const nb::object value = given.attr("pop")(name, nb::none());
  return value.is_none() ? Tensor() : read_tensor(std::string("attention_backward: ") + name, value);
}

nb::tuple attend_backward(nb::kwargs given) {
  AttentionBackward arguments;
  arguments.query = take_tensor(given, "query");
  arguments.key = take_tensor(given, "key");
  arguments.value = take_tensor(given, "value");
  arguments.forward.output = take_tensor(given, "output");
  arguments.forward.logsumexp = take_tensor(given, "logsumexp");
  arguments.d_output = take_tensor(given, "d_output");
  arguments.d_weights = take_tensor(given, "d_weights");
  arguments.d_logsumexp = take_tensor(given, "d_logsumexp");
  arguments.bias_gradient = nb::cast<bool>(given.attr("pop")("bias_gradient", true));
  arguments.options = read_options("attention_backward", given);
  AttentionGradients gradients;
  {
    const nb::gil_scoped_release released;
    gradients = attention_backward(arguments);
  }
  count_call();
  return nb::make_tuple(to_python(gradients.query), to_python(gradients.key), to_python(gradients.value),
                        to_python(gradients.bias), to_python(gradients.sinks));
}

}  // namespace

void bind_attention(nb::module_& module) {
  module.def("attention", &attend, "query"_a, "key"_a, "value"_a, "options"_a,
             "Attention on tensors: (output, logsumexp, weights or None). Options as headway.attention's.");
  module.def(
      "attention_backward", &attend_backward, "arguments"_a,
      "The gradients (query, key, value, bias or None, sinks or None). All arguments by name: query, key, value, "
      "output, logsumexp, d_output, d_weights, d_logsumexp, bias_gradient and attention's options.");
}

}  // namespace headway::python
