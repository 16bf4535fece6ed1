// Declarations that the files of the module _text share.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bindings/arrays.h"

namespace headway::python {

// Each adds the classes and functions of one noun to the module.
void bind_models(nb::module_& module);
void bind_text_tokenizer(nb::module_& module);

// A path from a str or an os.PathLike.
std::filesystem::path read_path(const std::string& argument, nb::handle value);

// Where to compute: a device's name.
Device read_device(const std::string& argument, nb::handle value);

// Token ids: an array [batch, length], or lists of integers, of which a flat one is a batch of one.
Tensor read_tokens(Arrays& arrays, const char* name, nb::handle value);

}  // namespace headway::python
