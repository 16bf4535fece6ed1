// Elementwise loops: whole vectors of converted elements, and one partial vector at the end.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "cpu/kernels/activation-inl.h"
#include "cpu/kernels/pack-inl.h"
#include "cpu/kernels/pointwise.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// The type in which elements of T are computed.
template <typename T>
using ComputeType = std::conditional_t<std::is_same_v<T, double>, double, float>;

// The first `count` lanes from memory, the others zero.
template <class D, typename T>
HWY_INLINE hn::Vec<D> load_some(D d, const T* source, std::int64_t count) {
  alignas(64) T elements[hn::MaxLanes(D())] = {};
  std::memcpy(elements, source, static_cast<std::size_t>(count) * sizeof(T));
  return load_converted(d, elements);
}

// The first `count` lanes to memory.
template <class D, typename T, class V = hn::Vec<D>>
HWY_INLINE void store_some(D d, V v, T* target, std::int64_t count) {
  alignas(64) T elements[hn::MaxLanes(D())];
  store_converted(d, v, elements);
  std::memcpy(target, elements, static_cast<std::size_t>(count) * sizeof(T));
}

// result[i] = function(d, inputs[i]...) for i in [0, count). result may be one of the inputs.
template <typename T, class Function, typename... Inputs>
HWY_INLINE void map_elements(T* result, std::int64_t count, const Function& function, const Inputs*... inputs) {
  const hn::ScalableTag<ComputeType<T>> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store_converted(d, function(d, load_converted(d, inputs + i)...), result + i);
  }
  if (i < count) {
    const std::int64_t rest = count - i;
    store_some(d, function(d, load_some(d, inputs + i, rest)...), result + i, rest);
  }
}

// ---- functions of vectors ----

template <Binary kOperation>
struct BinaryFunction {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D, V a, V b) const {
    if constexpr (kOperation == Binary::add) return hn::Add(a, b);
    if constexpr (kOperation == Binary::subtract) return hn::Sub(a, b);
    if constexpr (kOperation == Binary::multiply) return hn::Mul(a, b);
    if constexpr (kOperation == Binary::divide) return hn::Div(a, b);
    // A NaN in b fails every comparison and so is the result.
    if constexpr (kOperation == Binary::maximum) return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
    if constexpr (kOperation == Binary::minimum) return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  }
};

// exp(x) with its limits: Highway's leaves out NaN and what is too great for a float.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_everywhere(D d, V x) {
  using Real = hn::TFromD<D>;
  constexpr Real kGreatest = sizeof(Real) == 4 ? Real(88.72283) : Real(709.782712893384);
  const V finite = hn::IfThenElse(hn::Gt(x, hn::Set(d, kGreatest)), hn::Inf(d), hn::Exp(d, x));
  return hn::IfThenElse(hn::IsNaN(x), x, finite);
}

// log(x) with its limits: Highway's is for positive finite numbers alone.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_everywhere(D d, V x) {
  const V zero = hn::Zero(d);
  const V positive = hn::IfThenElse(hn::Lt(x, hn::Inf(d)), hn::Log(d, x), x);  // infinity and NaN stay
  const V at_zero = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(hn::Inf(d)), positive);
  return hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), at_zero);
}

// The value itself: what changes is the type in memory.
struct SameFunction {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D, V x) const {
    return x;
  }
};

template <Unary kOperation, typename Real>
struct UnaryFunction {
  Real number;
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    const V n = hn::Set(d, number);
    if constexpr (kOperation == Unary::add) return hn::Add(x, n);
    if constexpr (kOperation == Unary::subtract_from) return hn::Sub(n, x);
    if constexpr (kOperation == Unary::divide) return hn::Div(x, n);
    if constexpr (kOperation == Unary::divide_into) return hn::Div(n, x);
    if constexpr (kOperation == Unary::exp) return exp_everywhere(d, x);
    if constexpr (kOperation == Unary::log) return log_everywhere(d, x);
    if constexpr (kOperation == Unary::sqrt) return hn::Sqrt(x);
  }
};

template <typename Real>
struct ScaleFunction {
  Real factor;
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Mul(x, hn::Set(d, factor));
  }
};

template <Activation kActivation>
struct ActivateFunction {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    return HWY_NAMESPACE::activate<kActivation>(d, x);
  }
};

// d_after * slope, from the output where slope_from_output() says so.
template <Activation kActivation>
struct ActivationBackwardFunction {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V d_after, V saved) const {
    if constexpr (kActivation == Activation::relu) {
      return hn::IfThenZeroElse(hn::Le(saved, hn::Zero(d)), d_after);  // no product: infinity * 0 is NaN
    } else if constexpr (kActivation == Activation::tanh) {
      return hn::Mul(d_after, hn::NegMulAdd(saved, saved, hn::Set(d, 1)));
    } else if constexpr (kActivation == Activation::sigmoid) {
      return hn::Mul(d_after, hn::NegMulAdd(saved, saved, saved));
    } else {
      return hn::Mul(d_after, activation_slope<kActivation>(d, saved));
    }
  }
};

// ---- loops over rows ----

template <Binary kOperation, typename T>
HWY_INLINE void binary_rows(const BinaryTask& task) {
  const T* a = reinterpret_cast<const T*>(task.a);
  const T* b = reinterpret_cast<const T*>(task.b);
  T* result = reinterpret_cast<T*>(task.result);
  for (std::int64_t row = 0; row < task.rows; ++row) {
    map_elements(result, task.columns, BinaryFunction<kOperation>(), a, b);
    a += task.a_row_stride;
    b += task.b_row_stride;
    result += task.columns;
  }
}

// x^n one by one: the C library is exact for every n. result may be x.
template <typename Real>
HWY_INLINE void power_elements(const Real* x, Real* result, std::int64_t count, Real number) {
  for (std::int64_t i = 0; i < count; ++i) result[i] = std::pow(x[i], number);
}

// Sums over rows as trees of eight, which a running sum per column then takes in: short sums keep float32 exact enough,
// and eight rows are read for one visit of the running sums.
inline constexpr std::int64_t kSummedRows = 8;

// The sum of eight vectors, load(0) to load(7).
template <class D, class Load>
HWY_INLINE hn::Vec<D> sum_tree(D, const Load& load) {
  const auto low = hn::Add(hn::Add(load(0), load(1)), hn::Add(load(2), load(3)));
  return hn::Add(low, hn::Add(hn::Add(load(4), load(5)), hn::Add(load(6), load(7))));
}

// sums[c] += x[0][c] + ... + x[rows - 1][c], with one tree for eight rows and one by one for fewer.
template <typename T>
HWY_INLINE void add_rows(const T* x, std::int64_t row_stride, std::int64_t rows, std::int64_t columns,
                         ComputeType<T>* HWY_RESTRICT sums) {
  const hn::ScalableTag<ComputeType<T>> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  if (rows == kSummedRows) {
    for (; c + lanes <= columns; c += lanes) {
      const auto load = [&](std::int64_t r) HWY_ATTR { return load_converted(d, x + r * row_stride + c); };
      hn::StoreU(hn::Add(hn::LoadU(d, sums + c), sum_tree(d, load)), d, sums + c);
    }
    if (c < columns) {
      const auto load = [&](std::int64_t r) HWY_ATTR { return load_some(d, x + r * row_stride + c, columns - c); };
      store_some(d, hn::Add(load_some(d, sums + c, columns - c), sum_tree(d, load)), sums + c, columns - c);
    }
    return;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    map_elements(sums, columns, BinaryFunction<Binary::add>(), static_cast<const ComputeType<T>*>(sums),
                 x + row * row_stride);
  }
}

template <typename T>
HWY_INLINE void sum_rows(const ColumnSumsTask& task) {
  const T* x = reinterpret_cast<const T*>(task.x);
  auto* sums = reinterpret_cast<ComputeType<T>*>(task.sums);
  std::memset(sums, 0, static_cast<std::size_t>(task.columns) * sizeof(*sums));
  for (std::int64_t row = 0; row < task.rows; row += kSummedRows) {
    add_rows(x + row * task.row_stride, task.row_stride, std::min(kSummedRows, task.rows - row), task.columns, sums);
  }
}

// Eight rows at a time are computed and, while they are in the cache, summed: with the same bits as in sum_rows().
template <Activation kActivation, typename T>
HWY_INLINE void activation_backward_rows(const ActivationBackwardTask& task) {
  const T* d_after = reinterpret_cast<const T*>(task.d_after);
  const T* saved = reinterpret_cast<const T*>(task.saved);
  T* d_before = reinterpret_cast<T*>(task.d_before);
  auto* sums = reinterpret_cast<ComputeType<T>*>(task.sums);
  if (sums != nullptr) std::memset(sums, 0, static_cast<std::size_t>(task.columns) * sizeof(*sums));
  for (std::int64_t begin = 0; begin < task.rows; begin += kSummedRows) {
    const std::int64_t rows = std::min(kSummedRows, task.rows - begin);
    for (std::int64_t row = begin; row < begin + rows; ++row) {
      const std::int64_t at = row * task.row_stride;
      map_elements(d_before + at, task.columns, ActivationBackwardFunction<kActivation>(), d_after + at, saved + at);
    }
    if (sums != nullptr) add_rows(d_before + begin * task.row_stride, task.row_stride, rows, task.columns, sums);
  }
}

// ---- dropout ----

// The upper halves of 64-bit lanes, moved to their lower halves.
template <class D, class W>
HWY_INLINE hn::Vec<D> upper_halves(D d, W v) {
  const hn::RepartitionToWide<D> wide;
  return hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, v)));
}

// One round of Philox4x32 on counters in the lower halves of 64-bit lanes, which hold a whole product. The upper halves
// are ignored.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void philox_wide_round(D d, V (&counter)[4], std::uint32_t key0, std::uint32_t key1) {
  const auto product0 = hn::MulEven(counter[0], hn::Set(d, 0xD2511F53u));
  const auto product1 = hn::MulEven(counter[2], hn::Set(d, 0xCD9E8D57u));
  counter[0] = hn::Xor(hn::Xor(upper_halves(d, product1), counter[1]), hn::Set(d, key0));
  counter[2] = hn::Xor(hn::Xor(upper_halves(d, product0), counter[3]), hn::Set(d, key1));
  counter[1] = hn::BitCast(d, product1);
  counter[3] = hn::BitCast(d, product0);
}

// The four words of Philox calls first, first + 1, ..., one call in each lane. The calls share the high word of their
// number. Even and odd ones go through the rounds apart, which saves putting products together after each.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void philox_calls(D d, std::uint64_t first, std::uint64_t seed, V (&words)[4]) {
  constexpr int kRounds = 7;
  const hn::RepartitionToWide<D> wide;
  const V number = hn::Iota(d, static_cast<std::uint32_t>(first));
  const V high = hn::Set(d, static_cast<std::uint32_t>(first >> 32)), domain = hn::Set(d, ElementDropout::kDomain);
  V even[4] = {number, high, hn::Zero(d), domain};
  V odd[4] = {upper_halves(d, number), high, hn::Zero(d), domain};
  std::uint32_t key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
#pragma GCC unroll 7
  for (int round = 0; round < kRounds; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
    philox_wide_round(d, even, key0, key1);
    philox_wide_round(d, odd, key0, key1);
  }
#pragma GCC unroll 4
  for (int word = 0; word < 4; ++word) {
    words[word] = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(wide, odd[word]))), even[word]);
  }
}

// Calls body(draws, first element) for the vectors of 16-bit draws of one block of 128 elements.
template <class Body>
HWY_INLINE void for_draws(std::int64_t block, std::uint64_t seed, const Body& body) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::RebindToSigned<decltype(d)> di;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t call = 0; call < ElementDropout::kCalls; call += lanes) {
    hn::Vec<decltype(d)> words[4];
    philox_calls(d, static_cast<std::uint64_t>(block * ElementDropout::kCalls + call), seed, words);
#pragma GCC unroll 4
    for (int word = 0; word < 4; ++word) {
      const std::int64_t element = 2 * word * ElementDropout::kCalls + call;
      body(hn::BitCast(di, hn::And(words[word], hn::Set(d, 0xFFFFu))), element);
      body(hn::BitCast(di, hn::ShiftRight<16>(words[word])), element + ElementDropout::kCalls);
    }
  }
}

template <typename T, bool kBase>
class DropoutRows {
 public:
  using Real = ComputeType<T>;

  HWY_INLINE explicit DropoutRows(const DropoutTask& task) : task_(task) {}

  HWY_INLINE void run() const {
    for (std::int64_t begin = 0; begin < task_.count; begin += ElementDropout::kBlock) {
      const std::int64_t count = std::min(ElementDropout::kBlock, task_.count - begin);
      const std::int64_t block = (task_.first + begin) / ElementDropout::kBlock;
      if (sizeof(Real) == 4 && count == ElementDropout::kBlock) {
        whole_block(block, begin);
      } else {
        part_of_block(block, begin, count);
      }
    }
  }

 private:
  // Draws are used in registers, without a detour through memory.
  HWY_INLINE void whole_block(std::int64_t block, std::int64_t begin) const {
    const hn::ScalableTag<float> d;
    for_draws(block, task_.rule.seed, [&](auto draws, std::int64_t element) HWY_ATTR {
      if constexpr (sizeof(Real) == 4) {
        const std::int64_t at = begin + element;
        auto v = drop(d, load_converted(d, x() + at), draws);
        if constexpr (kBase) v = hn::Add(load_converted(d, base() + at), v);
        store_converted(d, v, result() + at);
      }
    });
  }

  HWY_INLINE void part_of_block(std::int64_t block, std::int64_t begin, std::int64_t count) const {
    const hn::ScalableTag<Real> d;
    const hn::Rebind<std::int32_t, decltype(d)> stored;
    const hn::RebindToSigned<decltype(d)> whole;
    const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
    alignas(64) std::int32_t draws[ElementDropout::kBlock];
    for_draws(block, task_.rule.seed, [&](auto v, std::int64_t element) HWY_ATTR {
      hn::Store(v, hn::ScalableTag<std::int32_t>(), draws + element);
    });
    for (std::int64_t i = 0; i < count; i += lanes) {
      const std::int64_t at = begin + i, some = std::min(lanes, count - i);
      hn::Vec<decltype(whole)> drawn;
      if constexpr (sizeof(Real) == 4) {
        drawn = hn::Load(stored, draws + i);
      } else {
        drawn = hn::PromoteTo(whole, hn::Load(stored, draws + i));
      }
      auto v = drop(d, some == lanes ? load_converted(d, x() + at) : load_some(d, x() + at, some), drawn);
      if constexpr (kBase) {
        v = hn::Add(some == lanes ? load_converted(d, base() + at) : load_some(d, base() + at, some), v);
      }
      if (some == lanes) {
        store_converted(d, v, result() + at);
      } else {
        store_some(d, v, result() + at, some);
      }
    }
  }

  // v * scale where the element stays, 0 elsewhere. Draws have 16 bits: signed comparisons will do.
  template <class D, class V, class W>
  HWY_INLINE V drop(D d, V v, W draws) const {
    const hn::RebindToSigned<D> whole;
    const auto last_dropped = hn::Set(whole, static_cast<hn::TFromD<decltype(whole)>>(task_.rule.threshold) - 1);
    const V scaled = hn::Mul(v, hn::Set(d, static_cast<hn::TFromD<D>>(task_.rule.scale)));
    return hn::IfThenElseZero(hn::RebindMask(d, hn::Gt(draws, last_dropped)), scaled);
  }

  HWY_INLINE const T* x() const { return reinterpret_cast<const T*>(task_.x); }
  HWY_INLINE const T* base() const { return reinterpret_cast<const T*>(task_.base); }
  HWY_INLINE T* result() const { return reinterpret_cast<T*>(task_.result); }

  const DropoutTask task_;
};

// ---- rotary positions ----

// Pairs are halves: (i, i + dims / 2).
template <typename T>
HWY_INLINE void rotate_halves(const T* x, T* result, std::int64_t half, const ComputeType<T>* cosines,
                              const ComputeType<T>* sines) {
  const hn::ScalableTag<ComputeType<T>> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < half; i += lanes) {
    const std::int64_t count = std::min(lanes, half - i);
    const bool whole = count == lanes;
    const auto a = whole ? load_converted(d, x + i) : load_some(d, x + i, count);
    const auto b = whole ? load_converted(d, x + half + i) : load_some(d, x + half + i, count);
    const auto c = whole ? hn::LoadU(d, cosines + i) : load_some(d, cosines + i, count);
    const auto s = whole ? hn::LoadU(d, sines + i) : load_some(d, sines + i, count);
    const auto first = hn::NegMulAdd(b, s, hn::Mul(a, c));
    const auto second = hn::MulAdd(a, s, hn::Mul(b, c));
    if (whole) {
      store_converted(d, first, result + i);
      store_converted(d, second, result + half + i);
    } else {
      store_some(d, first, result + i, count);
      store_some(d, second, result + half + i, count);
    }
  }
}

// Pairs are neighbours: x cos + (x with neighbours exchanged) sin, the sines having their signs.
struct RotateNeighbours {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x, V cosine, V sine) const {
    return hn::MulAdd(hn::Reverse2(d, x), sine, hn::Mul(x, cosine));
  }
};

template <typename T>
HWY_INLINE void rotate_rows(const RotaryTask& task) {
  using Real = ComputeType<T>;
  const T* x = reinterpret_cast<const T*>(task.x);
  T* result = reinterpret_cast<T*>(task.result);
  const Real* cosines = reinterpret_cast<const Real*>(task.cosines);
  const Real* sines = reinterpret_cast<const Real*>(task.sines);
  const std::int64_t width = task.interleaved ? task.dims : task.dims / 2;
  for (std::int64_t row = 0; row < task.rows; ++row) {
    if (task.interleaved) {
      map_elements(result, task.dims, RotateNeighbours(), x, cosines, sines);
    } else {
      rotate_halves(x, result, task.dims / 2, cosines, sines);
    }
    if (x != result) {
      std::memcpy(result + task.dims, x + task.dims, static_cast<std::size_t>(task.head_dim - task.dims) * sizeof(T));
    }
    x += task.x_row_stride;
    result += task.head_dim;
    cosines += width;
    sines += width;
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
