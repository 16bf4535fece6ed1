// The operations of headway/ops.h on arrays of any library.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"

namespace headway::python {

namespace {

using namespace nb::literals;
using Array = nb::handle;

// Binds compute(x, parameters...) for an array x; `extra` names the parameters and says what it computes.
template <typename... Parameters, typename... Extra>
void bind_of_one(nb::module_& module, const char* name, Tensor (*compute)(const Tensor&, Parameters...),
                 const Extra&... extra) {
  module.def(
      name,
      [name, compute](Array x, Parameters... parameters) {
        Arrays arrays(name);
        const Tensor input = arrays.read("x", x);
        return arrays.map([&] { return compute(input, parameters...); });
      },
      "x"_a, extra...);
}

void bind_products(nb::module_& module) {
  module.def(
      "matmul",
      [](Array a, Array b) {
        Arrays arrays("matmul");
        const Tensor left = arrays.read("a", a);
        const Tensor right = arrays.read("b", b);
        return arrays.map([&] { return matmul(left, right); });
      },
      "a"_a, "b"_a, "a b over the last two dimensions; leading ones broadcast.");
  module.def(
      "linear",
      [](Array x, Array weight, Array bias, Array activation) {
        Arrays arrays("linear");
        const Tensor input = arrays.read("x", x);
        const Tensor matrix = arrays.read("weight", weight);
        const Tensor shift = arrays.read("bias", bias);
        const Activation form = read_activation("linear: activation", activation);
        return arrays.map([&] { return linear(input, matrix, shift, form); });
      },
      "x"_a, "weight"_a, "bias"_a.none() = nb::none(), "activation"_a = "none",
      "activation(x W^T + bias): x [..., in], weight [out, in], bias [out].");
  module.def(
      "activate",
      [](Array x, Array activation) {
        Arrays arrays("activate");
        const Tensor input = arrays.read("x", x);
        const Activation form = read_activation("activate: activation", activation);
        return arrays.map([&] { return activate(input, form); });
      },
      "x"_a, "activation"_a, "An activation by its name: relu, gelu, gelu_tanh, silu, tanh, sigmoid or quick_gelu.");
}

// Binds a reduction of all elements, or along what the argument `dims` names: one dimension or several.
template <typename Dims>
void bind_reduction(nb::module_& module, const char* name, std::type_identity_t<Tensor (*)(const Tensor&)> of_all,
                    Tensor (*along)(const Tensor&, Dims, bool), const char* dims_name, const char* text) {
  module.def(
      name,
      [name, of_all, along](Array x, const std::optional<std::remove_cvref_t<Dims>>& dims, bool keep_dims) {
        Arrays arrays(name);
        const Tensor input = arrays.read("x", x);
        return arrays.map([&] { return dims ? along(input, *dims, keep_dims) : of_all(input); });
      },
      "x"_a, nb::arg(dims_name).none() = nb::none(), "keep_dims"_a = false, text);
}

void bind_sums(nb::module_& module) {
  const auto pair = [&](const char* name, Tensor (*compute)(const Tensor&, const Tensor&), const char* text) {
    module.def(
        name,
        [name, compute](Array a, Array b) {
          Arrays arrays(name);
          const Tensor left = arrays.read("a", a);
          const Tensor right = arrays.read("b", b);
          return arrays.map([&] { return compute(left, right); });
        },
        "a"_a, "b"_a, text);
  };
  pair("mul", &mul, "a * b, element by element, broadcasting.");
  pair("maximum", &maximum, "The greater of a and b, element by element, broadcasting; NaN where one is.");
  pair("minimum", &minimum, "The smaller of a and b, element by element, broadcasting; NaN where one is.");
  pair("logical_and", &logical_and, "a and b, both boolean, broadcasting.");
  pair("logical_or", &logical_or, "a or b, both boolean, broadcasting.");
  bind_of_one(module, "softmax", &softmax, "dim"_a = -1, "The softmax along a dimension.");
  bind_of_one(module, "log_softmax", &log_softmax, "dim"_a = -1, "The logarithm of the softmax along a dimension.");
  bind_reduction(module, "sum", &sum, &sum, "dims", "The sum over some dimensions, or over all elements.");
  bind_reduction(module, "mean", &mean, &mean, "dims", "The mean over some dimensions, or over all elements.");
}

// A Python number; nothing for an array.
std::optional<double> number_of(Array value) {
  if (!PyFloat_Check(value.ptr()) && !PyLong_Check(value.ptr())) return {};
  return read_number("a number", value);
}

using OfTwo = Tensor (*)(const Tensor&, const Tensor&);
using OfNumber = Tensor (*)(const Tensor&, double);

// An operation of two arrays, or of an array and a number on either side; from_number takes the number first.
void bind_with_numbers(nb::module_& module, const char* name, OfTwo of_two, OfNumber with_number, OfNumber from_number,
                       const char* text) {
  module.def(
      name,
      [=](Array a, Array b) {
        Arrays arrays(name);
        if (const std::optional<double> number = number_of(b)) {
          const Tensor left = arrays.read("a", a);
          return arrays.map([&] { return with_number(left, *number); });
        }
        if (const std::optional<double> number = number_of(a)) {
          const Tensor right = arrays.read("b", b);
          return arrays.map([&] { return from_number(right, *number); });
        }
        const Tensor left = arrays.read("a", a);
        const Tensor right = arrays.read("b", b);
        return arrays.map([&] { return of_two(left, right); });
      },
      "a"_a, "b"_a, text);
}

void bind_arithmetic(nb::module_& module) {
  bind_with_numbers(module, "add", &add, &add, &add, "a + b, broadcasting; one may be a number.");
  bind_with_numbers(
      module, "sub", &sub, &sub, [](const Tensor& x, double number) { return sub(number, x); },
      "a - b, broadcasting; one may be a number.");
  bind_with_numbers(
      module, "div", &div, &div, [](const Tensor& x, double number) { return div(number, x); },
      "a / b, broadcasting; one may be a number.");
  bind_with_numbers(module, "eq", &eq, &eq, &eq, "a == b as booleans, broadcasting; one may be a number.");
  bind_with_numbers(module, "ne", &ne, &ne, &ne, "a != b as booleans, broadcasting; one may be a number.");
  bind_with_numbers(module, "lt", &lt, &lt, &gt, "a < b as booleans, broadcasting; one may be a number.");
  bind_with_numbers(module, "le", &le, &le, &ge, "a <= b as booleans, broadcasting; one may be a number.");
  bind_with_numbers(module, "gt", &gt, &gt, &lt, "a > b as booleans, broadcasting; one may be a number.");
  bind_with_numbers(module, "ge", &ge, &ge, &le, "a >= b as booleans, broadcasting; one may be a number.");
  bind_of_one(module, "neg", &neg, "-x.");
  bind_of_one(module, "exp", &exp, "e^x.");
  bind_of_one(module, "log", &log, "The natural logarithm.");
  bind_of_one(module, "sqrt", &sqrt, "The square root.");
  bind_of_one(module, "logical_not", &logical_not, "Whether a boolean is false.");
  bind_of_one(module, "pow", &pow, "exponent"_a, "x^exponent.");
}

void bind_choices(nb::module_& module) {
  module.def(
      "where",
      [](Array mask, Array a, Array b) {
        Arrays arrays("where");
        const std::optional<double> a_number = number_of(a), b_number = number_of(b);
        const Tensor left = a_number ? Tensor() : arrays.read("a", a);
        const Tensor right = b_number ? Tensor() : arrays.read("b", b);
        const Tensor chosen = arrays.read("mask", mask);
        return arrays.map([&] {
          if (b_number) return where(chosen, left, *b_number);
          return a_number ? where(chosen, *a_number, right) : where(chosen, left, right);
        });
      },
      "mask"_a, "a"_a, "b"_a, "a where the boolean mask is true, b elsewhere, broadcasting; one may be a number.");
  bind_reduction(module, "max", &max, &max, "dim",
                 "The greatest element of all, or along a dimension; NaN where there is one.");
  bind_reduction(module, "min", &min, &min, "dim",
                 "The smallest element of all, or along a dimension; NaN where there is one.");
  bind_reduction(module, "argmax", &argmax, &argmax, "dim",
                 "Where the first greatest element is, of all or along a dimension.");
  bind_reduction(module, "argmin", &argmin, &argmin, "dim",
                 "Where the first smallest element is, of all or along a dimension.");
}

void bind_parts(nb::module_& module) {
  using Join = Tensor (*)(const std::vector<Tensor>&, int);
  const auto join = [&](const char* name, Join compute, const char* text) {
    module.def(
        name,
        [name, compute](const nb::sequence& tensors, int dim) {
          Arrays arrays(name);
          std::vector<Tensor> parts;
          for (const nb::handle part : tensors) parts.push_back(arrays.read("tensors", part));
          return arrays.map([&] { return compute(parts, dim); });
        },
        "tensors"_a, "dim"_a = 0, text);
  };
  join("stack", &stack, "Joins arrays of one shape along a new dimension.");
  join("concat", &concat, "Joins arrays along a dimension; all other sizes are equal.");
  module.def(
      "split",
      [](Array x, const std::vector<std::int64_t>& sizes, int dim) {
        Arrays arrays("split");
        const Tensor input = arrays.read("x", x);
        nb::list parts;
        for (const Tensor& part : split(input, sizes, dim)) parts.append(arrays.map([&] { return part; }));
        return parts;
      },
      "x"_a, "sizes"_a, "dim"_a = 0, "Views of neighbouring parts whose sizes add up to the dimension's.");
  bind_of_one(module, "scale", &scale, "factor"_a, "x * factor.");
  bind_of_one(module, "dropout", &dropout, "probability"_a, "seed"_a,
              "Zero with the given probability, else x / (1 - probability).");
}

void bind_norms(nb::module_& module) {
  module.def(
      "layer_norm",
      [](Array x, Array weight, Array bias, double epsilon) {
        Arrays arrays("layer_norm");
        const Tensor input = arrays.read("x", x);
        const Tensor factor = arrays.read("weight", weight);
        const Tensor shift = arrays.read("bias", bias);
        return arrays.map([&] { return layer_norm(input, factor, shift, epsilon); });
      },
      "x"_a, "weight"_a.none() = nb::none(), "bias"_a.none() = nb::none(), nb::kw_only(), "epsilon"_a = 1e-5,
      "(x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension.");
  module.def(
      "rms_norm",
      [](Array x, Array weight, std::optional<double> epsilon) {
        Arrays arrays("rms_norm");
        const Tensor input = arrays.read("x", x);
        const Tensor factor = arrays.read("weight", weight);
        return arrays.map([&] { return rms_norm(input, factor, epsilon); });
      },
      "x"_a, "weight"_a.none() = nb::none(), nb::kw_only(), "epsilon"_a.none() = nb::none(),
      "x / sqrt(mean(x^2) + epsilon) * weight over the last dimension; epsilon: the machine's where not given.");
}

void bind_tokens(nb::module_& module) {
  module.def(
      "embedding",
      [](Array weight, Array indices, std::optional<std::int64_t> padding_index) {
        Arrays arrays("embedding");
        const Tensor table = arrays.read("weight", weight);
        const Tensor rows = arrays.read("indices", indices);
        return arrays.map([&] { return embedding(table, rows, padding_index); });
      },
      "weight"_a, "indices"_a, nb::kw_only(), "padding_index"_a.none() = nb::none(),
      "Rows of weight [count, features] by indices of any shape.");
  module.def(
      "cross_entropy",
      [](Array logits, Array targets, std::int64_t ignore_index, double label_smoothing, Array reduction) {
        Arrays arrays("cross_entropy");
        const Tensor scores = arrays.read("logits", logits);
        const Tensor classes = arrays.read("targets", targets);
        const CrossEntropyOptions options = {.ignore_index = ignore_index,
                                             .label_smoothing = label_smoothing,
                                             .reduction = static_cast<Reduction>(read_choice(
                                                 "cross_entropy: reduction", reduction, {"mean", "sum", "none"}))};
        return arrays.map([&] { return cross_entropy(scores, classes, options); });
      },
      "logits"_a, "targets"_a, nb::kw_only(), "ignore_index"_a = -100, "label_smoothing"_a = 0.0,
      "reduction"_a = "mean", "-log softmax(logits)[target]: logits [..., classes], targets [...].");
  module.def(
      "rotary",
      [](Array x, double base, std::int64_t dims, bool interleaved, std::int64_t offset) {
        Arrays arrays("rotary");
        const Tensor input = arrays.read("x", x);
        const RotaryOptions options = {.base = base, .dims = dims, .interleaved = interleaved, .offset = offset};
        return arrays.map([&] { return rotary(input, options); });
      },
      "x"_a, nb::kw_only(), "base"_a = 10000.0, "dims"_a = 0, "interleaved"_a = false, "offset"_a = 0,
      "Rotates pairs of x [..., length, head_dim] by angles position * base^(-2i / dims).");
  module.def(
      "sinusoidal_positions",
      [](std::int64_t length, std::int64_t dim, Array layout) {
        const auto choice = read_choice("sinusoidal_positions: layout", layout, {"interleaved", "halves", "whisper"});
        return sinusoidal_positions(length, dim, static_cast<Sinusoid>(choice));
      },
      "length"_a, "dim"_a, "layout"_a = "interleaved",
      "The paper's table [length, dim] as a Tensor: angles position * 10000^(-2i / dim).");
}

}  // namespace

void bind_ops(nb::module_& module) {
  bind_products(module);
  bind_sums(module);
  bind_arithmetic(module);
  bind_choices(module);
  bind_parts(module);
  bind_norms(module);
  bind_tokens(module);
}

}  // namespace headway::python
