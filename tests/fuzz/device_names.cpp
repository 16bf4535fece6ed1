// Devices by name for the fuzz targets, which are built without backends: there is the CPU alone.
#include "base/check.h"
#include "headway/device.h"

namespace headway::inline v0 {

Device Device::parse(const std::string& name) {
  internal::check(name == "cpu", "device: \"", name, "\" is not known, expected cpu");
  return cpu();
}

}  // namespace headway::inline v0
