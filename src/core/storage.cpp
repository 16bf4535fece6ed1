#include "core/storage.h"

#include <utility>

namespace headway::inline v0::internal {

Storage::Storage(AlignedMemory memory) : memory_(std::move(memory)), data_(memory_.data()) {}

Storage::Storage(void* data, std::function<void()> release, Device device)
    : release_(std::move(release)), data_(static_cast<std::byte*>(data)), device_(device) {}

Storage::~Storage() {
  if (release_) {
    release_();
  }
}

}  // namespace headway::inline v0::internal
