// The options of attention by their Python names.
#include "bindings/attention_options.h"

#include <nanobind/stl/string.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace headway::python {

Tensor read_tensor(const std::string& argument, nb::handle value) {
  if (const ExchangeApi* api = exchange_api_of(value)) return borrow_exchanged(*api, value, argument);
  const Tensor* tensor = nullptr;
  if (!nb::try_cast(value, tensor, false) || tensor == nullptr) refuse(argument, value, "a headway.Tensor");
  return *tensor;
}

namespace {

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

}  // namespace

AttentionOptions read_attention_options(const std::string& function, const nb::kwargs& given) {
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

}  // namespace headway::python
