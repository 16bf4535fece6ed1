// Lines of a run.
#include "training/run_texts.h"

#include <ostream>

#include "base/terminal.h"
#include "headway/device.h"

namespace headway::inline v0::internal {

void RunNotes::write(const std::string& text) const {
  if (stream_ == nullptr) return;
  // On a terminal the progress may have left the cursor at the end of its line.
  if (in_steps_ && is_terminal(*stream_)) *stream_ << '\n';
  *stream_ << text << '\n' << std::flush;
}

std::string device_text(const std::string& device) {
  const Device place = Device::parse(device);
  return place.is_cpu() ? "the CPU" : place.name() + " (" + describe_cuda() + ")";
}

}  // namespace headway::inline v0::internal
