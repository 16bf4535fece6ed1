// Tensor: a shared handle on strided memory. Copying a Tensor shares its storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "headway/device.h"
#include "headway/dtype.h"
#include "headway/export.h"
#include "headway/shape.h"

namespace headway {
inline namespace v0 {

class TensorImpl;

class HEADWAY_API Tensor {
 public:
  // An undefined tensor: "not given" in an options struct.
  Tensor() = default;

  // ---- creation ----
  // Owned memory, aligned to 64 bytes, with unspecified contents.
  static Tensor empty(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu());
  static Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu());
  static Tensor full(const Shape& shape, double value, DType dtype = DType::float32, Device device = Device::cpu());
  // A copy of `values` in the dtype of their type; their count must be the shape's.
  template <typename T, std::size_t kExtent>
  static Tensor from(std::span<T, kExtent> values, const Shape& shape) {
    return copied(values.data(), values.size(), shape, dtype_of<std::remove_const_t<T>>);
  }
  template <typename T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    if constexpr (std::is_same_v<T, bool>) {
      return copied_bits(values, shape);
    } else {
      return from(std::span<const T>(values), shape);
    }
  }
  template <typename T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape) {
    return from(std::span<const T>(values.begin(), values.size()), shape);
  }
  // A copy of as many values as the shape has elements.
  template <typename T>
  static Tensor from(const T* values, const Shape& shape) {
    return copied(values, kAllOfShape, shape, dtype_of<T>);
  }

  // A user's memory without a copy, in the dtype of its type. `release` is called when the last tensor on it is
  // destroyed. Constant memory makes a tensor that is_read_only().
  template <typename T>
  requires(!std::is_void_v<T>) static Tensor wrap(T* data, const Shape& shape, std::function<void()> release = {}) {
    return wrap(Memory(data), shape, dtype_of<std::remove_const_t<T>>, std::move(release));
  }
  template <typename T, std::size_t kExtent>
  static Tensor wrap(std::span<T, kExtent> memory, const Shape& shape, std::function<void()> release = {}) {
    check_wrapped_count(memory.size(), shape, dtype_of<std::remove_const_t<T>>);
    return wrap(memory.data(), shape, std::move(release));
  }
  // The elements of a vector, which must not be resized or destroyed before the last tensor on it.
  template <typename T>
  static Tensor wrap(std::vector<T>& values, const Shape& shape) {
    return wrap(std::span<T>(values), shape);
  }
  template <typename T>
  static Tensor wrap(const std::vector<T>& values, const Shape& shape) {
    return wrap(std::span<const T>(values), shape);
  }
  template <typename T>
  static Tensor wrap(const std::vector<T>&& values, const Shape& shape) = delete;  // its memory would dangle

  // The start of a user's memory; a pointer to constants makes it read-only.
  struct Memory {
    Memory(void* start) : data(start) {}
    Memory(const void* start) : data(const_cast<void*>(start)), is_read_only(true) {}
    Memory(std::nullptr_t) {}

    void* data = nullptr;
    bool is_read_only = false;
  };
  // The same with a dtype and strides that are known only at run time. Strides are in elements.
  static Tensor wrap(Memory memory, const Shape& shape, DType dtype, std::function<void()> release = {});
  static Tensor wrap(Memory memory, const Shape& shape, const Shape& strides, DType dtype,
                     std::function<void()> release = {}, Device device = Device::cpu());

  // Pseudo-random values from a counter-based generator: the same seed gives the same values everywhere. For other
  // devices they are computed on the CPU and copied.
  static Tensor randn(const Shape& shape, std::uint64_t seed, DType dtype = DType::float32,
                      Device device = Device::cpu());
  static Tensor uniform(const Shape& shape, double low, double high, std::uint64_t seed, DType dtype = DType::float32,
                        Device device = Device::cpu());

  // ---- properties and values ----
  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  const Shape& strides() const;  // in elements
  int rank() const { return shape().rank(); }
  std::int64_t size(int dim) const;    // negative dims count from the end; throws when out of range
  std::int64_t stride(int dim) const;  // likewise
  std::int64_t element_count() const;
  DType dtype() const;
  Device device() const;
  bool is_contiguous() const;
  // Grows with every change of the storage in place, through any view of it.
  std::uint64_t version() const;
  // True for a view of memory that was wrapped as constant: fill(), copy_from() and optimizers refuse to change it.
  bool is_read_only() const;
  // The first element's address, in the device's memory.
  void* raw_data() const;
  // The first element; throws when T is not the tensor's dtype, or the tensor is not on the CPU.
  template <typename T>
  T* data() const {
    return static_cast<T*>(checked_data(dtype_of<std::remove_const_t<T>>));
  }
  // The element at the given indices, converted to double.
  double at(std::initializer_list<std::int64_t> indices) const;
  // The only element of a one-element tensor.
  double item() const;
  // All elements in row-major order, converted to double.
  std::vector<double> to_vector() const;
  // "float32[2, 3]"
  std::string describe() const;

  // ---- views, which share the storage ----
  Tensor transpose(int dim0, int dim1) const;
  Tensor permute(const std::vector<int>& dims) const;
  // Elements start, start + step, ... before end; negative positions count from the end, end is clipped.
  Tensor slice(int dim, std::int64_t start, std::int64_t end, std::int64_t step = 1) const;
  Tensor select(int dim, std::int64_t index) const;
  // select(0, index): a row of a matrix. Negative indices count from the end.
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  Tensor unsqueeze(int dim) const;
  Tensor squeeze(int dim) const;
  // Broadcasts dimensions of size 1 (and new leading ones) with stride 0.
  Tensor expand(const Shape& shape) const;
  // A view where the strides allow it, otherwise a copy. One size may be -1.
  Tensor reshape(const Shape& shape) const;
  // A view always; throws where the strides do not allow it.
  Tensor view(const Shape& shape) const;

  // ---- copies ----
  Tensor contiguous() const;  // itself when it is contiguous already
  Tensor clone() const;
  Tensor to(DType dtype) const;    // itself when the dtype is the same
  Tensor to(Device device) const;  // itself when it is there already

  // ---- changes in place; without a NoGradGuard, tensors that require gradients refuse them ----
  Tensor& fill(double value);
  Tensor& copy_from(const Tensor& source);  // converts the dtype, broadcasts the shape, from any device

  // ---- gradients ----
  // True for what set_requires_grad() marked, and for everything computed from it.
  bool requires_grad() const;
  // Marks a floating tensor as one whose gradient is wanted; throws on the result of a recorded operation.
  Tensor& set_requires_grad(bool wanted = true);
  // True unless it is the result of a recorded operation.
  bool is_leaf() const;
  // The gradient that backward() has accumulated; undefined before the first call.
  Tensor grad() const;
  // Replaces the gradient; an undefined one clears it.
  void set_grad(const Tensor& gradient) const;
  // The same storage without its gradient record.
  Tensor detach() const;
  // Adds d(this)/d(leaf) to the gradient of every leaf. Without d_this the tensor must have one element, and d_this
  // is 1. The record is freed unless `retain_graph`. Where it throws, some leaves may have their gradients already.
  // Threads may add to the same leaves at the same time (headway/threads.h).
  void backward(const Tensor& d_this = {}, bool retain_graph = false) const;

 private:
  static constexpr std::size_t kAllOfShape = static_cast<std::size_t>(-1);

  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  // A copy of `count` values of a dtype, or of as many as the shape has.
  static Tensor copied(const void* values, std::size_t count, const Shape& shape, DType dtype);
  static Tensor copied_bits(const std::vector<bool>& values, const Shape& shape);
  static void check_wrapped_count(std::size_t count, const Shape& shape, DType dtype);
  void* checked_data(DType wanted) const;

  std::shared_ptr<TensorImpl> impl_;
  friend class TensorImpl;
};

// The values as NumPy shows them, in nested brackets and with "..." in long dimensions, then "float32[2, 3]".
HEADWAY_API std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

}  // namespace v0
}  // namespace headway
