// Masks, and the MultiHeadAttention layer with its cache.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bindings/arrays.h"
#include "headway/multi_head_attention.h"

namespace headway::python {
namespace {

using namespace nb::literals;
using Array = nb::handle;

// A boolean array: numbers, which would be a mask of unknown meaning, are refused.
Tensor read_boolean(const char* function, const char* name, Array array) {
  Arrays arrays(function);
  const Tensor tensor = arrays.read(name, array);
  if (tensor.dtype() != DType::boolean) {
    throw nb::type_error((arrays.argument(name) + " has dtype " + std::string(dtype_name(tensor.dtype())) +
                          ", expected bool; numbers that are added to the scores are the bias")
                             .c_str());
  }
  return tensor;
}

void bind_mask(nb::module_& module) {
  nb::class_<Mask>(module, "Mask", "A boolean array with its polarity in the name.")
      .def_static(
          "keep", [](Array allowed) { return Mask::keep(read_boolean("Mask.keep", "allowed", allowed)); }, "allowed"_a,
          "True: may be looked at.")
      .def_static(
          "drop", [](Array forbidden) { return Mask::drop(read_boolean("Mask.drop", "forbidden", forbidden)); },
          "forbidden"_a, "True: must not be looked at.");
}

void bind_cache(nb::module_& module) {
  nb::class_<KeyValueCache>(module, "KeyValueCache", "Keys and values of the tokens seen so far.")
      .def(nb::init<>())
      .def("__len__", &KeyValueCache::length)
      .def("clear", &KeyValueCache::clear, "Forgets all tokens.")
      .def("reorder", &KeyValueCache::reorder, "entries"_a, "Keeps the given batch entries in the given order.")
      .def_prop_ro(
          "keys", [](const KeyValueCache& self) { return to_python(self.keys()); }, "All keys, or None.")
      .def_prop_ro(
          "values", [](const KeyValueCache& self) { return to_python(self.values()); }, "All values, or None.");
}

nb::object attend(const MultiHeadAttention& self, Array query, Array key, Array value, Array causal, Array key_lengths,
                  Array key_padding_mask, Array mask, Array bias, Array return_weights, KeyValueCache* cache,
                  bool cache_is_static) {
  Arrays arrays("MultiHeadAttention");
  MultiHeadAttentionInput input;
  input.query = arrays.read("query", query);
  input.key = arrays.read("key", key);
  input.value = arrays.read("value", value);
  input.causal = read_causal("MultiHeadAttention: causal", causal);
  input.key_lengths = arrays.read_per_entry("key_lengths", key_lengths);
  input.key_padding_mask = arrays.read_mask("key_padding_mask", key_padding_mask);
  input.mask = arrays.read_mask("mask", mask);
  input.bias = arrays.read("bias", bias);
  input.weights = read_weights("MultiHeadAttention: return_weights", return_weights);
  input.cache = cache;
  input.cache_is_static = cache_is_static;
  const MultiHeadAttentionResult result = arrays.run([&] { return self.forward(input); });
  if (input.weights == Weights::none) return arrays.give(result.output);
  return nb::make_tuple(arrays.give(result.output), arrays.give(result.weights));
}

void bind_rotary_options(nb::module_& module) {
  nb::class_<RotaryOptions>(module, "RotaryOptions", "How a layer rotates queries and keys by their positions.")
      .def(
          "__init__",
          [](RotaryOptions* self, double base, std::int64_t dims, bool interleaved, std::int64_t offset) {
            new (self) RotaryOptions{.base = base, .dims = dims, .interleaved = interleaved, .offset = offset};
          },
          nb::kw_only(), "base"_a = 10000.0, "dims"_a = 0, "interleaved"_a = false, "offset"_a = 0)
      .def_ro("base", &RotaryOptions::base)
      .def_ro("dims", &RotaryOptions::dims)
      .def_ro("interleaved", &RotaryOptions::interleaved)
      .def_ro("offset", &RotaryOptions::offset);
}

void bind_multi_head_attention(nb::module_& module) {
  nb::class_<MultiHeadAttention, Module> layer(
      module, "MultiHeadAttention",
      "softmax(Q K^T / sqrt(head_dim) + mask) V for every head, with projections before and after. Parameters as "
      "torch.nn.MultiheadAttention's.");
  layer.def(
      "__init__",
      [](MultiHeadAttention* self, std::int64_t embed_dim, std::int64_t num_heads, std::optional<std::int64_t> kdim,
         std::optional<std::int64_t> vdim, std::optional<std::int64_t> num_kv_heads,
         std::optional<std::int64_t> head_dim, bool bias, double dropout, double projection_dropout,
         double output_dropout, bool add_bias_kv, bool add_zero_attn, bool batch_first,
         std::optional<RotaryOptions> rotary, const std::string& dtype) {
        new (self) MultiHeadAttention({.embed_dim = embed_dim,
                                       .num_heads = num_heads,
                                       .kdim = kdim,
                                       .vdim = vdim,
                                       .num_kv_heads = num_kv_heads,
                                       .head_dim = head_dim,
                                       .bias = bias,
                                       .dropout = dropout,
                                       .projection_dropout = projection_dropout,
                                       .output_dropout = output_dropout,
                                       .add_bias_kv = add_bias_kv,
                                       .add_zero_attn = add_zero_attn,
                                       .batch_first = batch_first,
                                       .rotary = rotary,
                                       .dtype = read_dtype("MultiHeadAttention: dtype", dtype)});
      },
      "embed_dim"_a, "num_heads"_a, nb::kw_only(), "kdim"_a.none() = nb::none(), "vdim"_a.none() = nb::none(),
      "num_kv_heads"_a.none() = nb::none(), "head_dim"_a.none() = nb::none(), "bias"_a = true, "dropout"_a = 0.0,
      "projection_dropout"_a = 0.0, "output_dropout"_a = 0.0, "add_bias_kv"_a = false, "add_zero_attn"_a = false,
      "batch_first"_a = true, "rotary"_a.none() = nb::none(), "dtype"_a = "float32");
  for (const char* name : {"forward", "__call__"}) {
    layer.def(name, &attend, "query"_a, "key"_a.none() = nb::none(), "value"_a.none() = nb::none(), nb::kw_only(),
              "causal"_a.none() = nb::none(), "key_lengths"_a.none() = nb::none(),
              "key_padding_mask"_a.none() = nb::none(), "mask"_a.none() = nb::none(), "bias"_a.none() = nb::none(),
              "return_weights"_a = false, "cache"_a.none() = nb::none(), "cache_is_static"_a = false,
              "The output, or (output, weights) with return_weights: True for [batch, heads, query_length, "
              "key_length], \"mean\" for their mean over heads. The key defaults to the query, the value to the key. "
              "mask and bias: [query_length, key_length], or [batch, heads, query_length, key_length] where a size of "
              "1 broadcasts.");
  }
}

}  // namespace

void bind_attention_modules(nb::module_& module) {
  bind_mask(module);
  bind_cache(module);
  bind_rotary_options(module);
  bind_multi_head_attention(module);
}

}  // namespace headway::python
