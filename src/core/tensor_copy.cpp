// Copies of tensors, and changes in place.
#include <functional>

#include "base/check.h"
#include "core/autograd.h"
#include "core/device_memory.h"
#include "core/tensor_impl.h"

namespace headway::inline v0 {

using internal::check;

namespace {

// Copies into a tensor of the same shape on the same device that shares no memory with the source.
void copy_elements(const Tensor& target, const Tensor& source) {
  if (target.element_count() == 0) return;
  internal::memory_of(target.device())
      .strided_copy({target.raw_data(), target.strides(), target.dtype()},
                    {source.raw_data(), source.strides(), source.dtype()}, target.shape());
}

Tensor dense_copy(const Tensor& source, DType dtype) {
  Tensor copy = Tensor::empty(source.shape(), dtype, source.device());
  copy_elements(copy, source);
  return copy;
}

std::size_t byte_count(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.element_count()) * item_size(tensor.dtype());
}

// The elements of a tensor, in row-major order, on another device. One of the two devices is the CPU.
Tensor moved(const Tensor& source, Device device) {
  const Tensor dense = source.is_contiguous() ? source : dense_copy(source, source.dtype());
  if (!source.device().is_cpu() && !device.is_cpu()) return moved(moved(dense, Device::cpu()), device);
  Tensor target = Tensor::empty(dense.shape(), dense.dtype(), device);
  if (device.is_cpu()) {
    internal::memory_of(source.device()).copy_to_host(target.raw_data(), dense.raw_data(), byte_count(dense));
  } else {
    internal::memory_of(device).copy_to_device(target.raw_data(), dense.raw_data(), byte_count(dense));
  }
  return target;
}

// A copy through which gradients flow where both dtypes have them.
Tensor recorded_copy(const char* name, const Tensor& source, DType dtype) {
  Tensor copy = dense_copy(source, dtype);
  if (internal::needs_gradient(source) && is_floating(dtype)) {
    internal::record(name, {source}, {copy}, [from = source.dtype()](internal::BackwardCall& call) {
      return internal::Tensors{call.d_output().to(from)};
    });
  }
  return copy;
}

// One past the last byte that a tensor with elements reaches.
const std::byte* end_of(const Tensor& tensor) {
  std::int64_t last = 0;
  for (int dim = 0; dim < tensor.rank(); ++dim) {
    last += (tensor.shape()[dim] - 1) * tensor.strides()[dim];
  }
  const auto bytes = static_cast<std::int64_t>(item_size(tensor.dtype()));
  return static_cast<const std::byte*>(tensor.raw_data()) + (last + 1) * bytes;
}

bool may_overlap(const Tensor& a, const Tensor& b) {
  if (a.element_count() == 0 || b.element_count() == 0) {
    return false;
  }
  const std::less<const std::byte*> before;  // a total order also across allocations, unlike <
  return before(static_cast<const std::byte*>(a.raw_data()), end_of(b)) &&
         before(static_cast<const std::byte*>(b.raw_data()), end_of(a));
}

void check_writable(const char* function, const Tensor& tensor) {
  check(!tensor.is_read_only(), function, ": ", tensor, " is a view of constant memory; clone() it first");
}

}  // namespace

void internal::fill_elements(const Tensor& tensor, double value) {
  if (tensor.element_count() == 0) return;
  memory_of(tensor.device()).fill({tensor.raw_data(), tensor.strides(), tensor.dtype()}, tensor.shape(), value);
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const { return recorded_copy("clone", *this, dtype()); }

Tensor Tensor::to(DType wanted) const { return wanted == dtype() ? *this : recorded_copy("to", *this, wanted); }

Tensor Tensor::to(Device wanted) const {
  if (wanted == device()) return *this;
  Tensor copy = moved(detach(), wanted);
  if (internal::needs_gradient(*this)) {
    internal::record("to", {*this}, {copy}, [from = device()](internal::BackwardCall& call) {
      return internal::Tensors{call.d_output().to(from)};
    });
  }
  return copy;
}

Tensor& Tensor::fill(double value) {
  internal::check_change_in_place("fill", *this);
  check_writable("fill", *this);
  internal::fill_elements(*this, value);
  internal::bump_version(*this);
  return *this;
}

Tensor& Tensor::copy_from(const Tensor& source) {
  for (int dim = 0; dim < rank(); ++dim) {
    check(shape()[dim] <= 1 || strides()[dim] != 0, "copy_from: ", *this,
          " is an expanded view, whose elements share memory");
  }
  check(source.defined(), "copy_from: the source is undefined");
  internal::check_change_in_place("copy_from", *this);
  check_writable("copy_from", *this);
  const Tensor expanded = source.detach().to(device()).expand(shape());
  copy_elements(*this, may_overlap(*this, expanded) ? expanded.clone() : expanded);
  internal::bump_version(*this);
  return *this;
}

}  // namespace headway::inline v0
