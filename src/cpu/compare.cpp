// Comparisons, choices and extremes; the tasks are described in backend/compare_tasks.h.
#include <cmath>
#include <type_traits>
#include <vector>

#include "backend/element_bits.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "cpu/backend.h"
#include "cpu/chunks.h"

namespace headway::inline v0::internal::cpu {
namespace {

// Calls the body with the type that holds an element for comparison: bytes for booleans, which may hold any
// value.
template <typename Body>
void dispatch_compared(DType dtype, const Body& body) {
  if (dtype == DType::boolean) return body.template operator()<std::uint8_t>();
  dispatch_all(dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool>) body.template operator()<T>();
  });
}

// An element as a number that can be compared.
template <typename T>
auto number_of(T element) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
    return to_float(element);
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return static_cast<int>(element != 0);
  } else if constexpr (std::is_same_v<T, std::int8_t>) {
    return static_cast<int>(element);
  } else {
    return element;
  }
}

// ---- comparisons ----

// Elements are brought to one of three types before they are compared, which saves a loop for every dtype.
constexpr std::int64_t kBlock = 256;

// result[i] = a[i] op b[i] for i in [0, count).
template <typename Number>
void compare_numbers(Comparison operation, const Number* a, const Number* b, bool* result, std::int64_t count) {
  const auto loop = [&](const auto& function) {
    for (std::int64_t i = 0; i < count; ++i) result[i] = function(a[i], b[i]);
  };
  switch (operation) {
    case Comparison::equal:
      return loop([](Number x, Number y) { return x == y; });
    case Comparison::not_equal:
      return loop([](Number x, Number y) { return x != y; });
    case Comparison::less:
      return loop([](Number x, Number y) { return x < y; });
    case Comparison::less_equal:
      return loop([](Number x, Number y) { return x <= y; });
    case Comparison::greater:
      return loop([](Number x, Number y) { return x > y; });
    case Comparison::greater_equal:
      return loop([](Number x, Number y) { return x >= y; });
  }
}

// What elements are compared in: as they are, but for whole numbers beside a number that may have a fraction.
template <typename T, bool kWithNumber>
using ComparedType = std::conditional_t<std::is_same_v<T, double> || (std::is_integral_v<T> && kWithNumber), double,
                                        std::conditional_t<std::is_integral_v<T>, std::int64_t, float>>;

template <typename Number, typename T>
void load_numbers(const T* elements, std::int64_t count, Number* numbers) {
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = static_cast<Number>(number_of(elements[i]));
}

template <typename T>
void compare_row(Comparison operation, const T* a, const T* b, bool* result, std::int64_t count) {
  using Number = ComparedType<T, false>;
  Number left[kBlock], right[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t some = std::min(kBlock, count - begin);
    load_numbers(a + begin, some, left);
    load_numbers(b + begin, some, right);
    compare_numbers(operation, left, right, result + begin, some);
  }
}

// A floating number is rounded to the dtype first, so that float32(0.1) equals 0.1.
template <typename T>
void compare_with_number(Comparison operation, const T* a, double number, bool* result, std::int64_t count) {
  using Number = ComparedType<T, true>;
  Number left[kBlock], right[kBlock];
  if constexpr (std::is_integral_v<T>) {
    std::fill_n(right, kBlock, number);
  } else {
    std::fill_n(right, kBlock, number_of(convert<T>(number)));
  }
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t some = std::min(kBlock, count - begin);
    load_numbers(a + begin, some, left);
    compare_numbers(operation, left, right, result + begin, some);
  }
}

// ---- extremes ----

// Whether `candidate` takes the place of the extreme so far, which came before it.
template <bool kGreatest, typename Number>
bool replaces(Number candidate, Number extreme) {
  const bool beyond = kGreatest ? candidate > extreme : candidate < extreme;
  if constexpr (std::is_floating_point_v<Number>) {
    return beyond || (std::isnan(candidate) && !std::isnan(extreme));
  } else {
    return beyond;
  }
}

// The first extreme of a run of `count` elements, `stride` apart.
template <bool kGreatest, typename T>
std::int64_t extreme_of_run(const T* x, std::int64_t count, std::int64_t stride) {
  std::int64_t found = 0;
  auto extreme = number_of(x[0]);
  for (std::int64_t i = 1; i < count; ++i) {
    const auto candidate = number_of(x[i * stride]);
    if (replaces<kGreatest>(candidate, extreme)) {
      extreme = candidate;
      found = i;
    }
  }
  return found;
}

// One long run, by chunks whose extremes are joined from the first to the last.
template <bool kGreatest, typename T>
std::int64_t extreme_of_long_run(const T* x, std::int64_t count) {
  const std::int64_t chunks = divide_up(count, kElementChunk);
  std::vector<std::int64_t> found(static_cast<std::size_t>(chunks));
  parallel_for(chunks, [&](std::int64_t chunk, int) {
    const std::int64_t begin = chunk * kElementChunk;
    found[static_cast<std::size_t>(chunk)] =
        begin + extreme_of_run<kGreatest>(x + begin, std::min(kElementChunk, count - begin), 1);
  });
  std::int64_t best = found[0];
  for (const std::int64_t candidate : found) {
    if (replaces<kGreatest>(number_of(x[candidate]), number_of(x[best]))) best = candidate;
  }
  return best;
}

template <bool kGreatest, typename T>
void find_extremes(const ExtremeTask& task) {
  const T* x = reinterpret_cast<const T*>(task.x);
  T* values = reinterpret_cast<T*>(task.values);
  const auto give = [&](std::int64_t at, std::int64_t index, const T* run) {
    task.indices[at] = index;
    if (values != nullptr) values[at] = run[index * task.inner];
  };
  if (task.outer == 1 && task.inner == 1 && task.middle > kOneTask) {
    return give(0, extreme_of_long_run<kGreatest>(x, task.middle), x);
  }
  for_chunks(task.outer * task.inner, task.middle, [&](std::int64_t begin, std::int64_t count) {
    for (std::int64_t at = begin; at < begin + count; ++at) {
      const T* run = x + at / task.inner * task.middle * task.inner + at % task.inner;
      give(at, extreme_of_run<kGreatest>(run, task.middle, task.inner), run);
    }
  });
}

}  // namespace

void CpuBackend::compare(const CompareTask& task) {
  if (task.rows * task.columns == 0) return;
  dispatch_compared(task.dtype, [&]<typename T>() {
    const auto run = [&](std::int64_t row, std::int64_t column, std::int64_t columns) {
      const T* a = reinterpret_cast<const T*>(task.a) + row * task.a_row_stride + column;
      bool* result = reinterpret_cast<bool*>(task.result) + row * task.columns + column;
      if (task.b == nullptr) return compare_with_number(task.operation, a, task.number, result, columns);
      const T* b = reinterpret_cast<const T*>(task.b) + row * task.b_row_stride + column;
      compare_row(task.operation, a, b, result, columns);
    };
    if (task.rows == 1) {
      return for_chunks(task.columns, 1, [&](std::int64_t begin, std::int64_t count) { run(0, begin, count); });
    }
    for_chunks(task.rows, task.columns, [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t row = begin; row < begin + count; ++row) run(row, 0, task.columns);
    });
  });
}

void CpuBackend::select(const SelectTask& task) {
  dispatch_size(task.dtype, [&]<typename Bits>() {
    const auto* mask = reinterpret_cast<const std::uint8_t*>(task.mask);
    const auto* a = reinterpret_cast<const Bits*>(task.a);
    const auto* b = reinterpret_cast<const Bits*>(task.b);
    auto* result = reinterpret_cast<Bits*>(task.result);
    const Bits a_bits = bits_of<Bits>(task.a_number, task.dtype), b_bits = bits_of<Bits>(task.b_number, task.dtype);
    for_chunks(task.count, 1, [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t i = begin; i < begin + count; ++i) {
        result[i] = mask[i] != 0 ? (a != nullptr ? a[i] : a_bits) : (b != nullptr ? b[i] : b_bits);
      }
    });
  });
}

void CpuBackend::extreme(const ExtremeTask& task) {
  dispatch_compared(task.dtype, [&]<typename T>() {
    if (task.greatest) {
      find_extremes<true, T>(task);
    } else {
      find_extremes<false, T>(task);
    }
  });
}

void CpuBackend::place(const PlaceTask& task) {
  dispatch_size(task.dtype, [&]<typename Bits>() {
    const auto* source = reinterpret_cast<const Bits*>(task.source);
    auto* target = reinterpret_cast<Bits*>(task.target);
    for_chunks(task.outer * task.inner, 1, [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t at = begin; at < begin + count; ++at) {
        const std::int64_t row = at / task.inner * task.middle + task.indices[at];
        target[row * task.inner + at % task.inner] = source[at];
      }
    });
  });
}

}  // namespace headway::inline v0::internal::cpu
