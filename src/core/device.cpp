// A device's name, which tensors need for their messages. What asks a backend is in backend/device.cpp.
#include "headway/device.h"

namespace headway::inline v0 {

std::string Device::name() const {
  if (is_cpu()) return "cpu";
  return index == 0 ? "cuda" : "cuda:" + std::to_string(index);
}

}  // namespace headway::inline v0
