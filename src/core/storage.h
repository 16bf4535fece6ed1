// The memory behind tensors, shared by all views of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/device_memory.h"

namespace headway::inline v0::internal {

// A block of a device's memory, or other memory with a function that releases it.
class Storage {
 public:
  Storage(Device device, std::size_t bytes, bool zeroed);
  Storage(void* data, std::function<void()> release, Device device);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(block_.data); }
  Device device() const { return device_; }
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  // Whether the memory is the user's constants, which nothing may change in place.
  bool is_read_only() const { return read_only_; }
  void set_read_only() { read_only_ = true; }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  DeviceMemory* owner_ = nullptr;  // releases the block; null for other memory
  MemoryBlock block_;
  std::function<void()> release_;  // empty for a device's block
  Device device_;
  bool read_only_ = false;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace headway::inline v0::internal
