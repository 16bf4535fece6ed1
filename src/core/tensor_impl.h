// The object that a Tensor handle points to, and internal access to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/storage.h"
#include "headway/tensor.h"

namespace headway::inline v0 {

class GradientRecord;

// A view on a storage. Immutable but for the gradient record.
class TensorImpl {
 public:
  // A tensor on `storage`, whose first element is `offset` elements in. The strides are not checked.
  static Tensor make(std::shared_ptr<internal::Storage> storage, std::int64_t offset, const Shape& shape,
                     const Shape& strides, DType dtype);
  // The record behind a handle; throws where the tensor is undefined.
  static TensorImpl& of(const Tensor& tensor);

  // True when no other handle or view shares the tensor's memory, so that it may be overwritten. What another thread
  // did by a handle that it dropped then comes before what this one does.
  static bool is_uniquely_owned(const Tensor& tensor) {
#if defined(__SANITIZE_THREAD__)  // it does not know fences, but sees what a change of the counts orders
    const std::shared_ptr<TensorImpl> impl = tensor.impl_;
    const std::shared_ptr<internal::Storage> storage = impl->storage_;
    const bool is_unique = impl.use_count() == 2 && storage.use_count() == 2;
#else
    const bool is_unique = tensor.impl_.use_count() == 1 && tensor.impl_->storage_.use_count() == 1;
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    return is_unique && !tensor.impl_->storage_->is_read_only();
  }

  internal::Storage& storage() const { return *storage_; }
  // Another view of the same storage; `skip` elements further in.
  Tensor view(std::int64_t skip, const Shape& shape, const Shape& strides) const {
    return make(storage_, offset_ + skip, shape, strides, dtype_);
  }

  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  DType dtype() const { return dtype_; }
  std::int64_t element_count() const { return element_count_; }
  bool is_contiguous() const { return contiguous_; }
  std::byte* data() const { return data_; }

  std::shared_ptr<GradientRecord>& gradient() { return gradient_; }

 private:
  TensorImpl() = default;

  std::shared_ptr<internal::Storage> storage_;
  std::int64_t offset_ = 0;  // in elements
  Shape shape_;
  Shape strides_;  // in elements
  DType dtype_ = DType::float32;
  std::int64_t element_count_ = 0;
  bool contiguous_ = true;
  std::byte* data_ = nullptr;
  std::shared_ptr<GradientRecord> gradient_;
};

namespace internal {

// The number of elements of a shape; throws where a size is negative, or where elements or bytes pass 2^63 - 1.
std::int64_t checked_element_count(const Shape& shape, DType dtype);

// The strides of a row-major tensor, in elements.
Shape contiguous_strides(const Shape& shape);

// A dimension in [0, rank) from one that may count from the end; throws where it is out of range.
int checked_dim(const char* function, int dim, int rank);

// Sets every element, without a mark of the change.
void fill_elements(const Tensor& tensor, double value);

// Marks the storage as changed in place; everything that writes to a tensor that a user holds calls this.
void bump_version(const Tensor& tensor);

}  // namespace internal
}  // namespace headway::inline v0
