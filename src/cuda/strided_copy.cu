// Copies between strided memory of the GPU, with a conversion of the element type.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cuda/backend.h"
#include "cuda/element.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;          // rows and columns of a tile that is transposed
constexpr int kTileRows = 8;       // of threads
constexpr std::int64_t kThin = 8;  // planes thinner than this are not worth tiles

// ---- conversions ----

// The enclosing float32 with an odd last bit where the value is not exact: a second rounding then rounds as one would.
__device__ float to_float_round_to_odd(double value) {
  const float toward_zero = __double2float_rz(value);
  if (static_cast<double>(toward_zero) == value) return toward_zero;
  return __uint_as_float(__float_as_uint(toward_zero) | 1);  // NaN stays NaN
}

// Converts one element, as convert() of core/convert.h does.
template <typename To, typename From>
__device__ To convert(From value) {
  constexpr bool kFromHalf = std::is_same_v<From, __nv_bfloat16> || std::is_same_v<From, __half>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kFromHalf) {
    return convert<To>(to_compute(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_same_v<To, __nv_bfloat16> || std::is_same_v<To, __half>) {
    if constexpr (std::is_same_v<From, float> || std::is_same_v<From, bool>) {
      return from_compute<To>(static_cast<float>(value));
    } else {
      return from_compute<To>(to_float_round_to_odd(static_cast<double>(value)));
    }
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The lower bound is a power of two and so exact; the upper one is not, and one past it is.
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr To kLeast = std::numeric_limits<To>::min(), kMost = std::numeric_limits<To>::max();
    if (!(value >= kLow)) return value != value ? To{0} : kLeast;
    return value < -kLow ? static_cast<To>(value) : kMost;
  } else {
    return static_cast<To>(value);
  }
}

// An element from memory. A user's bool may be any byte.
template <typename T>
__device__ T load_element(const void* source, std::int64_t index) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<const std::uint8_t*>(source)[index] != 0;
  } else {
    return static_cast<const T*>(source)[index];
  }
}

// Reads elements of the target's own type.
template <typename T>
struct PlainSource {
  const T* data;
  __device__ T operator()(std::int64_t index) const { return data[index]; }
};

// Reads elements of any dtype; all threads take the same branch.
template <typename To>
struct ConvertedSource {
  const void* data;
  DType dtype;
  __device__ To operator()(std::int64_t index) const {
    switch (dtype) {
      case DType::float32:
        return convert<To>(load_element<float>(data, index));
      case DType::float64:
        return convert<To>(load_element<double>(data, index));
      case DType::bfloat16:
        return convert<To>(load_element<__nv_bfloat16>(data, index));
      case DType::float16:
        return convert<To>(load_element<__half>(data, index));
      case DType::int32:
        return convert<To>(load_element<std::int32_t>(data, index));
      case DType::int64:
        return convert<To>(load_element<std::int64_t>(data, index));
      case DType::boolean:
        return convert<To>(load_element<bool>(data, index));
      case DType::int8:
        return convert<To>(load_element<std::int8_t>(data, index));
    }
    return To{};
  }
};

// Calls f.template operator()<T>() with the GPU's type of any dtype.
template <typename Function>
void dispatch_any_element(DType dtype, const Function& f) {
  dispatch_all(dtype, [&]<typename T>() { f.template operator()<DeviceElement<T>>(); });
}

// ---- loops ----

struct Dimension {
  std::int64_t size = 1;
  std::int64_t target_stride = 1;
  std::int64_t source_stride = 1;
};

// The loops of a copy, the innermost last; one at least.
struct Loops {
  Dimension dims[Shape::kMaxRank];
  int count = 0;

  Dimension& last() { return dims[count - 1]; }
  const Dimension& last() const { return dims[count - 1]; }
  bool contiguous() const { return count == 1 && last().target_stride == 1 && last().source_stride == 1; }
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (int dim = 0; dim < count; ++dim) product *= dims[dim].size;
    return product;
  }
};

// Orders the dimensions for sequential writes, and merges those that are one run in both memories.
Loops plan_loops(const StridedTarget& target, const StridedSource& source, const Shape& shape) {
  Loops all;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (shape[dim] != 1) all.dims[all.count++] = {shape[dim], target.strides[dim], source.strides[dim]};
  }
  std::stable_sort(all.dims, all.dims + all.count,
                   [](const Dimension& a, const Dimension& b) { return a.target_stride > b.target_stride; });
  Loops merged;
  for (int dim = 0; dim < all.count; ++dim) {
    const Dimension& inner = all.dims[dim];
    if (merged.count > 0 && merged.last().target_stride == inner.target_stride * inner.size &&
        merged.last().source_stride == inner.source_stride * inner.size) {
      merged.last() = {merged.last().size * inner.size, inner.target_stride, inner.source_stride};
    } else {
      merged.dims[merged.count++] = inner;
    }
  }
  if (merged.count == 0) merged.count = 1;
  return merged;
}

// The most bytes, up to 16, that can be moved as one element: all rows begin and end at multiples of them.
std::size_t widest_unit(const Loops& loops, const void* target, const void* source, std::size_t item) {
  if (loops.last().target_stride != 1 || loops.last().source_stride != 1) return item;
  std::size_t places = reinterpret_cast<std::uintptr_t>(target) | reinterpret_cast<std::uintptr_t>(source) |
                       static_cast<std::size_t>(loops.last().size) * item;
  for (int dim = 0; dim + 1 < loops.count; ++dim) {
    places |= static_cast<std::size_t>(loops.dims[dim].target_stride | loops.dims[dim].source_stride) * item;
  }
  std::size_t unit = 16;
  while (unit > item && places % unit != 0) unit /= 2;
  return unit;
}

// The same loops over units of `factor` neighbouring elements.
Loops widen(Loops loops, std::int64_t factor) {
  loops.last().size /= factor;
  for (int dim = 0; dim + 1 < loops.count; ++dim) {
    loops.dims[dim].target_stride /= factor;
    loops.dims[dim].source_stride /= factor;
  }
  return loops;
}

// ---- contiguous conversions ----

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T items[kCount];
};

// bool as it lies in memory.
template <typename T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

// Elements that one thread converts: 16 bytes of the wider type.
template <typename To, typename From>
constexpr int kPackCount = 16 / static_cast<int>(std::max(sizeof(To), sizeof(From)));

// target (count) = source (count); both aligned to packs.
template <typename To, typename From>
__global__ void convert_contiguous(Stored<To>* target, const Stored<From>* source, std::int64_t count) {
  constexpr int kCount = kPackCount<To, From>;
  const std::int64_t packs = count / kCount;
  const std::int64_t first = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  const std::int64_t step = gridDim.x * std::int64_t{kThreads};
  for (std::int64_t pack = first; pack < packs; pack += step) {
    const auto from = reinterpret_cast<const Pack<Stored<From>, kCount>*>(source)[pack];
    Pack<Stored<To>, kCount> to;
#pragma unroll
    for (int i = 0; i < kCount; ++i) to.items[i] = convert<To>(load_element<From>(from.items, i));
    reinterpret_cast<Pack<Stored<To>, kCount>*>(target)[pack] = to;
  }
  const std::int64_t rest = packs * kCount + first;
  if (rest < count) target[rest] = convert<To>(load_element<From>(source, rest));
}

// Whether the copy was a contiguous conversion that packs allow; if so it is done.
bool convert_packs(const StridedTarget& target, const StridedSource& source, std::int64_t count) {
  bool done = false;
  dispatch_any_element(target.dtype, [&]<typename To>() {
    dispatch_any_element(source.dtype, [&]<typename From>() {
      if constexpr (!std::is_same_v<To, From>) {
        constexpr int kCount = kPackCount<To, From>;
        if (reinterpret_cast<std::uintptr_t>(target.data) % (kCount * sizeof(To)) != 0 ||
            reinterpret_cast<std::uintptr_t>(source.data) % (kCount * sizeof(From)) != 0) {
          return;
        }
        const unsigned blocks = grid_for(count, kThreads * kCount);
        convert_contiguous<To, From><<<blocks, kThreads, 0, current_stream()>>>(
            static_cast<Stored<To>*>(target.data), static_cast<const Stored<From>*>(source.data), count);
        check_launch("convert_contiguous");
        done = true;
      }
    });
  });
  return done;
}

// ---- strided copies ----

// Where an element lies in both memories.
template <typename Index>
struct Offsets {
  Index target = 0;
  Index source = 0;
};

// Loops in the type that offsets are computed in.
template <typename Index>
struct IndexLoops {
  Index sizes[Shape::kMaxRank];
  Index target_strides[Shape::kMaxRank];
  Index source_strides[Shape::kMaxRank];
  int count;

  explicit IndexLoops(const Loops& loops) : count(loops.count) {
    for (int dim = 0; dim < loops.count; ++dim) {
      sizes[dim] = static_cast<Index>(loops.dims[dim].size);
      target_strides[dim] = static_cast<Index>(loops.dims[dim].target_stride);
      source_strides[dim] = static_cast<Index>(loops.dims[dim].source_stride);
    }
  }

  // The offsets of element `index` in row-major order of the first `dims` loops.
  __device__ Offsets<Index> at(Index index, int dims) const {
    Offsets<Index> offsets;
    for (int dim = dims - 1; dim >= 0; --dim) {
      const Index rest = index / sizes[dim];
      const Index position = index - rest * sizes[dim];
      offsets.target += position * target_strides[dim];
      offsets.source += position * source_strides[dim];
      index = rest;
    }
    return offsets;
  }
};

template <typename To, typename Source, typename Index>
__global__ void copy_elements(To* target, Source source, IndexLoops<Index> loops, std::int64_t count) {
  const std::int64_t step = gridDim.x * std::int64_t{kThreads};
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count; i += step) {
    const Offsets<Index> offsets = loops.at(static_cast<Index>(i), loops.count);
    target[offsets.target] = source(offsets.source);
  }
}

// Copies planes (rows, columns), the last two loops: the source runs along the rows, the target along the columns. A
// tile is read and written in runs of its own each, with a turn in shared memory.
template <typename To, typename Source>
__global__ void copy_transposed(To* target, Source source, IndexLoops<std::int64_t> loops, std::int64_t tiles) {
  __shared__ To tile[kTile][kTile + 1];  // (columns, rows), one more against bank conflicts
  const int outer = loops.count - 2;
  const std::int64_t rows = loops.sizes[outer], columns = loops.sizes[outer + 1];
  const std::int64_t row_tiles = (rows + kTile - 1) / kTile, column_tiles = (columns + kTile - 1) / kTile;
  const int x = threadIdx.x, y = threadIdx.y;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const Offsets<std::int64_t> plane = loops.at(t / (row_tiles * column_tiles), outer);
    const std::int64_t first_row = t / column_tiles % row_tiles * kTile, first_column = t % column_tiles * kTile;
    for (int j = y; j < kTile; j += kTileRows) {
      const std::int64_t row = first_row + x, column = first_column + j;
      if (row < rows && column < columns) {
        tile[j][x] =
            source(plane.source + row * loops.source_strides[outer] + column * loops.source_strides[outer + 1]);
      }
    }
    __syncthreads();
    for (int j = y; j < kTile; j += kTileRows) {
      const std::int64_t row = first_row + j, column = first_column + x;
      if (row < rows && column < columns) {
        target[plane.target + row * loops.target_strides[outer] + column * loops.target_strides[outer + 1]] =
            tile[x][j];
      }
    }
    __syncthreads();
  }
}

// Brings the loop along which the source runs next to the innermost one; false where there is nothing to transpose.
bool plan_transpose(Loops& loops) {
  Dimension* last = &loops.last();
  if (last->source_stride <= 1 || last->size < kThin) return false;
  Dimension* sequential = std::find_if(loops.dims, last, [](const Dimension& dim) { return dim.source_stride == 1; });
  if (sequential == last || sequential->size < kThin) return false;
  std::rotate(sequential, sequential + 1, last);
  return true;
}

// Whether all numbers of elements and offsets stay below 2^31.
bool fits_32_bits(const Loops& loops) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max();
  std::int64_t target = 0, source = 0;
  for (int dim = 0; dim < loops.count; ++dim) {
    target += (loops.dims[dim].size - 1) * loops.dims[dim].target_stride;
    source += (loops.dims[dim].size - 1) * loops.dims[dim].source_stride;
  }
  return loops.elements() <= kLimit && target <= kLimit && source <= kLimit;
}

// target = source, element by element or in tiles.
template <typename To, typename Source>
void copy_loops(To* target, const Source& source, Loops loops) {
  const std::int64_t count = loops.elements();
  if (plan_transpose(loops)) {
    const std::int64_t rows = loops.dims[loops.count - 2].size, columns = loops.last().size;
    const std::int64_t tiles =
        count / (rows * columns) * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
    copy_transposed<<<grid_for(tiles, 1), dim3(kTile, kTileRows), 0, current_stream()>>>(
        target, source, IndexLoops<std::int64_t>(loops), tiles);
    check_launch("copy_transposed");
  } else if (fits_32_bits(loops)) {
    copy_elements<<<grid_for(count, kThreads), kThreads, 0, current_stream()>>>(
        target, source, IndexLoops<std::uint32_t>(loops), count);
    check_launch("copy_elements");
  } else {
    copy_elements<<<grid_for(count, kThreads), kThreads, 0, current_stream()>>>(target, source,
                                                                                IndexLoops<std::int64_t>(loops), count);
    check_launch("copy_elements");
  }
}

// target (count) = one value everywhere; target is aligned to packs.
template <typename T>
__global__ void repeat_value(T* target, const T* value, std::int64_t count) {
  constexpr int kCount = 16 / sizeof(T);
  Pack<T, kCount> pack;
#pragma unroll
  for (T& item : pack.items) item = *value;
  const std::int64_t packs = count / kCount, step = gridDim.x * std::int64_t{kThreads};
  const std::int64_t first = blockIdx.x * std::int64_t{kThreads} + threadIdx.x;
  for (std::int64_t i = first; i < packs; i += step) reinterpret_cast<Pack<T, kCount>*>(target)[i] = pack;
  if (const std::int64_t rest = packs * kCount + first; rest < count) target[rest] = pack.items[0];
}

// Whether the copy was of one value to neighbours that packs allow; if so it is done.
bool repeat_packs(const StridedTarget& target, const StridedSource& source, const Loops& loops) {
  const Dimension& only = loops.dims[0];
  const std::size_t item = item_size(target.dtype);
  if (loops.count != 1 || only.source_stride != 0 || only.target_stride != 1 || item > 8 ||
      reinterpret_cast<std::uintptr_t>(target.data) % 16 != 0) {
    return false;
  }
  const auto repeat = [&]<typename T>(T) {
    repeat_value<<<grid_for(only.size, kThreads * (16 / static_cast<int>(sizeof(T)))), kThreads, 0, current_stream()>>>(
        static_cast<T*>(target.data), static_cast<const T*>(source.data), only.size);
    check_launch("repeat_value");
  };
  switch (item) {
    case 1:
      repeat(std::uint8_t{});
      break;
    case 2:
      repeat(std::uint16_t{});
      break;
    case 4:
      repeat(std::uint32_t{});
      break;
    default:
      repeat(std::uint64_t{});
  }
  return true;
}

// Copies elements of one dtype as units of bytes, as wide ones as their places allow.
void copy_units(const StridedTarget& target, const StridedSource& source, const Loops& loops) {
  const std::size_t item = item_size(target.dtype);
  const std::size_t unit = widest_unit(loops, target.data, source.data, item);
  const Loops wide = widen(loops, static_cast<std::int64_t>(unit / item));
  const auto copy = [&]<typename T>(T) {
    copy_loops(static_cast<T*>(target.data), PlainSource<T>{static_cast<const T*>(source.data)}, wide);
  };
  switch (unit) {
    case 1:
      return copy(std::uint8_t{});
    case 2:
      return copy(std::uint16_t{});
    case 4:
      return copy(std::uint32_t{});
    case 8:
      return copy(std::uint64_t{});
    default:
      return copy(uint4{});
  }
}

}  // namespace

void CudaBackend::strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape) {
  const OnGpu here = on_gpu();
  copy_strided(target, source, shape);
}

void copy_strided(const StridedTarget& target, const StridedSource& source, const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  const Loops loops = plan_loops(target, source, shape);
  if (target.dtype == source.dtype) {
    if (repeat_packs(target, source, loops)) return;
    if (!loops.contiguous()) return copy_units(target, source, loops);
    const std::size_t bytes = static_cast<std::size_t>(loops.elements()) * item_size(target.dtype);
    check_cuda(cudaMemcpyAsync(target.data, source.data, bytes, cudaMemcpyDeviceToDevice, current_stream()),
               "cudaMemcpyAsync");
    return;
  }
  if (loops.contiguous() && convert_packs(target, source, loops.elements())) return;
  dispatch_any_element(target.dtype, [&]<typename To>() {
    copy_loops(static_cast<To*>(target.data), ConvertedSource<To>{source.data, source.dtype}, loops);
  });
}

}  // namespace headway::inline v0::internal::cuda
