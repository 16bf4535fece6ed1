// Declarations that the files of the module _text share.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bindings/arrays.h"

namespace headway::python {

// Each adds the classes and functions of one noun to the module.
void bind_models(nb::module_& module);
void bind_clip(nb::module_& module);
void bind_text_tokenizer(nb::module_& module);
void bind_tasks(nb::module_& module);
void bind_recommender(nb::module_& module);
void bind_generation(nb::module_& module);

// A path from a str or an os.PathLike.
std::filesystem::path read_path(const std::string& argument, nb::handle value);

// Where to compute: a device's name.
Device read_device(const std::string& argument, nb::handle value);

// A named tuple of headway._models.
inline nb::object result_type(const char* name) { return nb::module_::import_("headway._models").attr(name); }

// A dtype's name, or nothing for None.
std::optional<DType> read_optional_dtype(const std::string& argument, nb::handle value);

// One text, or a list of them.
struct Texts {
  std::vector<std::string> texts;
  bool is_one = false;
};
Texts read_texts(const std::string& argument, nb::handle value);

// Token ids: an array [batch, length], or lists of integers, of which a flat one is a batch of one.
Tensor read_tokens(Arrays& arrays, const char* name, nb::handle value);

// Computes without the interpreter's lock, counted as one call.
template <typename Compute>
auto without_lock(const Compute& compute) {
  count_call();
  const LockReleased released;
  return compute();
}

}  // namespace headway::python
