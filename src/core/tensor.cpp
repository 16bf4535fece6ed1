// Creation and properties of tensors. Views are in tensor_views.cpp, copies and changes in tensor_copy.cpp.
#include "headway/tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "core/random.h"
#include "core/tensor_impl.h"
#include "core/thread_pool.h"

namespace headway::inline v0 {

using internal::check;

// ---- internals ----

Tensor TensorImpl::make(std::shared_ptr<internal::Storage> storage, std::int64_t offset, const Shape& shape,
                        const Shape& strides, DType dtype) {
  auto impl = std::shared_ptr<TensorImpl>(new TensorImpl);
  impl->storage_ = std::move(storage);
  impl->offset_ = offset;
  impl->shape_ = shape;
  impl->strides_ = strides;
  impl->dtype_ = dtype;
  impl->element_count_ = internal::checked_element_count(shape, dtype);
  if (impl->element_count_ > 0) {
    const Shape dense = internal::contiguous_strides(shape);
    for (int dim = 0; dim < shape.rank(); ++dim) {
      impl->contiguous_ &= shape[dim] == 1 || strides[dim] == dense[dim];
    }
  }
  std::byte* base = impl->storage_->data();
  impl->data_ = base == nullptr ? nullptr : base + offset * static_cast<std::int64_t>(item_size(dtype));
  return Tensor(std::move(impl));
}

TensorImpl& TensorImpl::of(const Tensor& tensor) {
  check(tensor.defined(), "tensor: it is undefined, and so has no shape and no elements");
  return *tensor.impl_;
}

namespace internal {

std::int64_t checked_element_count(const Shape& shape, DType dtype) {
  std::int64_t count = 1;
  std::int64_t bytes = static_cast<std::int64_t>(item_size(dtype));
  bool empty = false;
  for (const std::int64_t size : shape) {
    check(size >= 0, "tensor: shape ", shape, " has a negative size");
    empty |= size == 0;
    // A zero counts as one here, so that the strides of an empty tensor fit into 64 bits too.
    const std::int64_t factor = size == 0 ? 1 : size;
    check(!__builtin_mul_overflow(count, factor, &count) && !__builtin_mul_overflow(bytes, factor, &bytes),
          "tensor: shape ", shape, " of ", dtype, " has more bytes than 64 bits can count");
  }
  return empty ? 0 : count;
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = Shape::filled(shape.rank(), 1);
  for (int dim = shape.rank() - 2; dim >= 0; --dim) {
    strides[dim] = strides[dim + 1] * (shape[dim + 1] == 0 ? 1 : shape[dim + 1]);
  }
  return strides;
}

int checked_dim(const char* function, int dim, int rank) {
  check(dim >= -rank && dim < rank, function, ": dimension ", dim, " is out of range for ", rank, " dimensions");
  return dim < 0 ? dim + rank : dim;
}

void bump_version(const Tensor& tensor) { TensorImpl::of(tensor).storage().bump_version(); }

}  // namespace internal

namespace {

Tensor make_owned(const Shape& shape, DType dtype, Device device, bool zeroed) {
  const std::size_t bytes = static_cast<std::size_t>(internal::checked_element_count(shape, dtype)) * item_size(dtype);
  auto storage = std::make_shared<internal::Storage>(device, bytes, zeroed);
  return TensorImpl::make(std::move(storage), 0, shape, internal::contiguous_strides(shape), dtype);
}

// Fills a new tensor with value(words), where the four random words belong to the element's index.
template <typename Value>
Tensor make_random(const char* function, const Shape& shape, DType dtype, std::uint64_t seed, const Value& value) {
  constexpr std::int64_t kChunk = 8192;
  check(is_floating(dtype), function, ": dtype is ", dtype, ", expected a floating one");
  Tensor tensor = Tensor::empty(shape, dtype);
  const std::int64_t count = tensor.element_count();
  internal::dispatch_floating(dtype, [&]<typename T>() {
    T* data = tensor.data<T>();
    internal::parallel_for((count + kChunk - 1) / kChunk, [&](std::int64_t chunk, int) {
      const std::int64_t end = std::min((chunk + 1) * kChunk, count);
      for (std::int64_t i = chunk * kChunk; i < end; ++i) {
        const auto words = internal::philox4x32_7(
            {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0}, internal::philox_key(seed));
        data[i] = internal::convert<T>(value(words));
      }
    });
  });
  return tensor;
}

// 53 random bits as a multiple of 2^-53 in [0, 1).
double unit_interval(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(((std::uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

}  // namespace

// ---- creation ----

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) { return make_owned(shape, dtype, device, false); }

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) { return make_owned(shape, dtype, device, true); }

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  internal::fill_elements(tensor, value);
  return tensor;
}

Tensor Tensor::copied(const void* values, std::size_t given, const Shape& shape, DType dtype) {
  const std::int64_t count = internal::checked_element_count(shape, dtype);
  check(given == kAllOfShape || given == static_cast<std::size_t>(count), "from: ", given, " values came for shape ",
        shape, ", which has ", count);
  check(values != nullptr || count == 0, "from: values is null, expected ", count, " elements of ", dtype);
  Tensor tensor = empty(shape, dtype);
  if (count > 0) std::memcpy(tensor.raw_data(), values, static_cast<std::size_t>(count) * item_size(dtype));
  return tensor;
}

Tensor Tensor::copied_bits(const std::vector<bool>& values, const Shape& shape) {
  const std::unique_ptr<bool[]> bytes(new bool[values.size()]);
  std::copy(values.begin(), values.end(), bytes.get());
  return from(std::span<const bool>(bytes.get(), values.size()), shape);
}

void Tensor::check_wrapped_count(std::size_t given, const Shape& shape, DType dtype) {
  const std::int64_t count = internal::checked_element_count(shape, dtype);
  check(given == static_cast<std::size_t>(count), "wrap: ", given, " elements came for shape ", shape, ", which has ",
        count);
}

Tensor Tensor::wrap(Memory memory, const Shape& shape, DType dtype, std::function<void()> release) {
  internal::checked_element_count(shape, dtype);
  return wrap(memory, shape, internal::contiguous_strides(shape), dtype, std::move(release));
}

Tensor Tensor::wrap(Memory memory, const Shape& shape, const Shape& strides, DType dtype, std::function<void()> release,
                    Device device) {
  void* const data = memory.data;
  const std::int64_t count = internal::checked_element_count(shape, dtype);
  check(strides.rank() == shape.rank(), "wrap: strides ", strides, " do not match shape ", shape);
  check(data != nullptr || count == 0, "wrap: data is null, expected ", count, " elements of ", dtype);
  check(reinterpret_cast<std::uintptr_t>(data) % item_size(dtype) == 0, "wrap: data is not aligned to the ",
        item_size(dtype), " bytes of a ", dtype);
  std::int64_t last = 0;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    std::int64_t reach = 0;
    check(strides[dim] >= 0, "wrap: strides ", strides, " have a negative one");
    check(shape[dim] <= 1 || (!__builtin_mul_overflow(strides[dim], shape[dim] - 1, &reach) &&
                              !__builtin_add_overflow(last, reach, &last)),
          "wrap: strides ", strides, " with shape ", shape, " reach further than 64 bits can count");
  }
  check(!__builtin_mul_overflow(last, static_cast<std::int64_t>(item_size(dtype)), &last), "wrap: strides ", strides,
        " with shape ", shape, " reach further than 64 bits can count");
  auto storage = std::make_shared<internal::Storage>(data, std::move(release), device);
  if (memory.is_read_only) storage->set_read_only();
  return TensorImpl::make(std::move(storage), 0, shape, strides, dtype);
}

Tensor Tensor::randn(const Shape& shape, std::uint64_t seed, DType dtype, Device device) {
  const auto value = [](const std::array<std::uint32_t, 4>& words) {
    // Box-Muller; 1 - u is in (0, 1], which keeps the logarithm finite.
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit_interval(words[0], words[1])));
    return radius * std::cos(2.0 * std::numbers::pi * unit_interval(words[2], words[3]));
  };
  return make_random("randn", shape, dtype, seed, value).to(device);
}

Tensor Tensor::uniform(const Shape& shape, double low, double high, std::uint64_t seed, DType dtype, Device device) {
  check(low <= high && std::isfinite(high - low), "uniform: low is ", low, " and high is ", high,
        ", expected low <= high, both finite");
  const auto value = [=](const std::array<std::uint32_t, 4>& words) {
    return low + (high - low) * unit_interval(words[0], words[1]);
  };
  return make_random("uniform", shape, dtype, seed, value).to(device);
}

// ---- properties and values ----

const Shape& Tensor::shape() const { return TensorImpl::of(*this).shape(); }
const Shape& Tensor::strides() const { return TensorImpl::of(*this).strides(); }
std::int64_t Tensor::size(int dim) const { return shape()[internal::checked_dim("size", dim, rank())]; }
std::int64_t Tensor::stride(int dim) const { return strides()[internal::checked_dim("stride", dim, rank())]; }
std::int64_t Tensor::element_count() const { return TensorImpl::of(*this).element_count(); }
DType Tensor::dtype() const { return TensorImpl::of(*this).dtype(); }
Device Tensor::device() const { return TensorImpl::of(*this).storage().device(); }
bool Tensor::is_contiguous() const { return TensorImpl::of(*this).is_contiguous(); }
std::uint64_t Tensor::version() const { return TensorImpl::of(*this).storage().version(); }
bool Tensor::is_read_only() const { return TensorImpl::of(*this).storage().is_read_only(); }
void* Tensor::raw_data() const { return TensorImpl::of(*this).data(); }

void* Tensor::checked_data(DType wanted) const {
  check(dtype() == wanted, "data: the tensor is ", *this, ", and was asked for ", wanted);
  check(device().is_cpu(), "data: the tensor is ", *this, " on ", device(), "; copy it with to(Device::cpu()) first");
  return raw_data();
}

double Tensor::at(std::initializer_list<std::int64_t> indices) const {
  check(static_cast<int>(indices.size()) == rank(), "at: ", indices.size(), " indices came for ", *this);
  Tensor element = *this;
  for (const std::int64_t index : indices) {
    element = element.select(0, index);
  }
  return element.item();
}

double Tensor::item() const {
  check(element_count() == 1, "item: the tensor is ", *this, ", expected one element");
  return to_vector().front();
}

std::vector<double> Tensor::to_vector() const {
  const Tensor dense = detach().to(Device::cpu()).to(DType::float64).contiguous();
  const double* data = dense.data<double>();
  return std::vector<double>(data, data + dense.element_count());
}

std::string Tensor::describe() const {
  return defined() ? std::string(dtype_name(dtype())) + shape().to_string() : "undefined";
}

}  // namespace headway::inline v0
