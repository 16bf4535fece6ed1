// Declarations that the files of the module _media share.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/arrays.h"
#include "bindings/text/text_bindings.h"

namespace headway::python {

// Each adds the classes and functions of one noun to the module.
void bind_sounds(nb::module_& module);
void bind_pictures(nb::module_& module);
void bind_transcriber(nb::module_& module);
void bind_picture_classifier(nb::module_& module);
void bind_captioner(nb::module_& module);

// A named tuple of headway._perception.
inline nb::object perception_type(const char* name) { return nb::module_::import_("headway._perception").attr(name); }

// The tensor as a NumPy array on the same memory.
inline nb::object to_numpy(const Tensor& tensor) { return call_python(nb::cast(tensor).attr("numpy")); }

}  // namespace headway::python
