// Constant tensors with a copy on each device.
#pragma once

#include <mutex>
#include <vector>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// A tensor that never changes, and its copies on other devices, each made on first use. Threads may share
// it.
class DeviceCopies {
 public:
  explicit DeviceCopies(const Tensor& original) : copies_{original} {}

  // The tensor on that device.
  Tensor on(Device device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Tensor& copy : copies_) {
      if (copy.device() == device) return copy;
    }
    copies_.push_back(copies_.front().to(device));
    synchronize(device);  // other threads have streams of their own
    return copies_.back();
  }

 private:
  std::mutex mutex_;
  std::vector<Tensor> copies_;  // the original first
};

}  // namespace headway::inline v0::internal
