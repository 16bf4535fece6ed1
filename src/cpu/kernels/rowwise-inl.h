// Walking along rows: whole vectors, then the part of one that is left, and folds over a row.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/kernels/activation-inl.h"
#include "cpu/kernels/math-inl.h"
#include "cpu/kernels/pack-inl.h"
#include "cpu/kernels/target-inl.h"
#include "headway/dtype.h"

// A lambda of a kernel's inner loop: it must be inlined, or what it captures would be kept in memory.
#define HEADWAY_INNER HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// The type in which elements of T are computed.
template <typename T>
using RealFor = std::conditional_t<std::is_same_v<T, double>, double, float>;

// The part of a vector that an access covers.
struct Whole {};
struct Part {
  std::int64_t count;  // the first lanes, fewer than all
};

// True where parts of vectors of T are loaded and stored by a mask, without touching the memory after them.
template <typename T>
inline constexpr bool kMasksParts = HWY_TARGET <= HWY_AVX2&& std::is_floating_point_v<T>;

template <class D, typename T>
HWY_INLINE hn::Vec<D> load(D d, const T* source, Whole) {
  return load_converted(d, source);
}
// Lanes past the part are zero.
template <class D, typename T>
HWY_INLINE hn::Vec<D> load(D d, const T* source, Part part) {
  if constexpr (kMasksParts<T>) {
    return hn::MaskedLoad(hn::FirstN(d, part.count), d, source);
  } else {
    T elements[hn::MaxLanes(D())] = {};
    for (std::int64_t i = 0; i < part.count; ++i) elements[i] = source[i];
    return load_converted(d, elements);
  }
}

template <class D, class V = hn::Vec<D>, typename T>
HWY_INLINE void store(D d, V v, T* target, Whole) {
  store_converted(d, v, target);
}
template <class D, class V = hn::Vec<D>, typename T>
HWY_INLINE void store(D d, V v, T* target, Part part) {
  if constexpr (kMasksParts<T>) {
    hn::BlendedStore(v, hn::FirstN(d, part.count), d, target);
  } else {
    T elements[hn::MaxLanes(D())];
    store_converted(d, v, elements);
    for (std::int64_t i = 0; i < part.count; ++i) target[i] = elements[i];
  }
}

// v, with `other` in the lanes past the part.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V keep(D, V v, V, Whole) {
  return v;
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V keep(D d, V v, V other, Part part) {
  return hn::IfThenElse(hn::FirstN(d, part.count), v, other);
}

// visit(offset, Whole or Part) along a row of `count` elements.
template <class D, typename Visit>
HWY_INLINE void for_each_vector(D d, std::int64_t count, Visit visit) {
  const std::int64_t lanes = hn::Lanes(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) visit(i, Whole());
  if (i < count) visit(i, Part{count - i});
}

// Folds a row into one vector: value = step(value, offset, Whole or Part) in four chains, which start equal and are
// joined at the end.
template <class D, class V = hn::Vec<D>, typename Step, typename Join>
HWY_INLINE V fold(D d, std::int64_t count, V start, Step step, Join join) {
  const std::int64_t lanes = hn::Lanes(d);
  V v0 = start, v1 = start, v2 = start, v3 = start;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    v0 = step(v0, i, Whole());
    v1 = step(v1, i + lanes, Whole());
    v2 = step(v2, i + 2 * lanes, Whole());
    v3 = step(v3, i + 3 * lanes, Whole());
  }
  for (; i + lanes <= count; i += lanes) v0 = step(v0, i, Whole());
  if (i < count) v1 = step(v1, i, Part{count - i});
  return join(join(v0, v1), join(v2, v3));
}

// The sum of a row: sum = step(sum, offset, Whole or Part) adds a vector's share.
template <class D, typename Step>
HWY_INLINE hn::TFromD<D> sum_row(D d, std::int64_t count, Step step) {
  using V = hn::Vec<D>;
  const V sum = fold(d, count, hn::Zero(d), step, [](V a, V b) HEADWAY_INNER { return hn::Add(a, b); });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// The largest of a row; NaNs may be skipped.
template <class D, typename T>
HWY_INLINE hn::TFromD<D> max_row(D d, std::int64_t count, const T* x) {
  using V = hn::Vec<D>;
  const V least = hn::Set(d, kMasked<hn::TFromD<D>>);
  const auto step = [&](V largest, std::int64_t i, auto part)
                        HEADWAY_INNER { return hn::Max(largest, keep(d, load(d, x + i, part), least, part)); };
  const V largest = fold(d, count, least, step, [](V a, V b) HEADWAY_INNER { return hn::Max(a, b); });
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// exp(x) for x of at most zero, give or take a rounding; -infinity gives 0, NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_nonpositive(D d, V x) {
  using Real = hn::TFromD<D>;
  const V least = hn::Set(d, sizeof(Real) == 4 ? Real(-110) : Real(-780));  // exp is zero there
  return exp_negative(d, clamp(least, x, hn::Set(d, 1)), hn::Zero(d));
}

// Calls visit(an element of the dtype's type).
template <typename Visit>
HWY_INLINE void with_element(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::float64:
      return visit(double());
    case DType::bfloat16:
      return visit(bfloat16());
    case DType::float16:
      return visit(float16());
    default:
      return visit(float());
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
