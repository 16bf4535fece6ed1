#include "core/storage.h"

#include <utility>

namespace headway::inline v0::internal {

Storage::Storage(Device device, std::size_t bytes, bool zeroed)
    : owner_(&memory_of(device)),
      block_(zeroed ? owner_->allocate_zeroed(bytes) : owner_->allocate(bytes)),
      device_(device) {}

Storage::Storage(void* data, std::function<void()> release, Device device)
    : block_{.data = data}, release_(std::move(release)), device_(device) {}

Storage::~Storage() {
  if (owner_ != nullptr) {
    owner_->release(block_);
  } else if (release_) {
    release_();
  }
}

}  // namespace headway::inline v0::internal
