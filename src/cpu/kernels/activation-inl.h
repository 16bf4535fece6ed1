// Activations of whole vectors and their slopes. NaN gives NaN. At the infinities values are what the formula gives
// (gelu and silu of -infinity are NaN, as -infinity * 0 is), slopes are the limits.
#pragma once

#include "cpu/kernels/math-inl.h"
#include "cpu/kernels/target-inl.h"
#include "headway/activation.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// A polynomial by Horner's rule, the highest power's coefficient first.
template <class D, class V = hn::Vec<D>, typename Real, int kCount>
HWY_INLINE V polynomial(D d, V x, const Real (&coefficients)[kCount]) {
  V sum = hn::Set(d, coefficients[0]);
#pragma GCC unroll 32
  for (int i = 1; i < kCount; ++i) sum = hn::MulAdd(sum, x, hn::Set(d, coefficients[i]));
  return sum;
}

// exp(x + rest) for x <= 0 and a rest far smaller than x; exactly zero long before x = -1000. Below 2 ulp: the part of
// x that a multiplication by log2(e) would lose is kept.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_negative(D d, V x, V rest) {
  using Real = hn::TFromD<D>;
  constexpr bool kSingle = sizeof(Real) == 4;
  const V base2 = hn::Mul(x, hn::Set(d, static_cast<Real>(kLog2E)));
  PowerSplit<D> split(d, base2);
  const V whole = hn::Sub(base2, split.fraction);
  // ln 2 in two parts, the first with so few bits that its product with a whole number is exact.
  const V high = hn::Set(d, kSingle ? Real(0.693145751953125) : Real(0x1.62e42fefap-1));
  const V low = hn::Set(d, kSingle ? Real(1.42860682030941723212e-6) : Real(0x1.cf79abc9e3b3ap-40));
  V natural = hn::NegMulAdd(whole, low, hn::NegMulAdd(whole, high, x));
  natural = hn::Add(natural, rest);
  split.fraction = hn::Mul(natural, hn::Set(d, static_cast<Real>(kLog2E)));
  return split.scale(hn::MulAdd(exp2_fraction(d, split.fraction), split.fraction, hn::Set(d, 1)));
}

// |x| up to where exp(-|x|) is zero; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exponent_magnitude(D d, V x) {
  using Real = hn::TFromD<D>;
  return clamp(hn::Zero(d), hn::Abs(x), hn::Set(d, sizeof(Real) == 4 ? Real(110) : Real(780)));
}

// exp(-x^2 / 2) for 0 <= x <= 40.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_half_square(D d, V x) {
  using Real = hn::TFromD<D>;
  const V square = hn::Mul(x, x);
#if HWY_NATIVE_FMA
  const V rest = hn::MulSub(x, x, square);
#else
  // The upper half of the bits squares exactly.
  const hn::RebindToUnsigned<D> bits;
  const V upper =
      hn::And(x, hn::BitCast(d, hn::Set(bits, static_cast<hn::TFromD<decltype(bits)>>(
                                                  sizeof(Real) == 4 ? 0xFFFFF000u : 0xFFFFFFFFF8000000ull))));
  const V lower = hn::Sub(x, upper);
  const V rest = hn::Add(hn::Sub(hn::Mul(upper, upper), square), hn::Mul(lower, hn::Add(x, upper)));
#endif
  const V half = hn::Set(d, Real(-0.5));
  return exp_negative(d, hn::Mul(square, half), hn::Mul(rest, half));
}

// The normal distribution at x: its tail beyond |x| and its density there without 1 / sqrt(2 pi).
template <class D>
struct NormalTail {
  hn::Vec<D> tail;     // Phi(-|x|)
  hn::Vec<D> density;  // exp(-x^2 / 2)

  // tail / density is smooth in u = (|x| - k) / (|x| + k), which takes the half line to [-1, 1].
  HWY_INLINE NormalTail(D d, hn::Vec<D> x) {
    using Real = hn::TFromD<D>;
    using V = hn::Vec<D>;
    const V limit = hn::Set(d, sizeof(Real) == 4 ? Real(15) : Real(40));  // the density is zero there
    const V magnitude = clamp(hn::Zero(d), hn::Abs(x), limit);
    density = exp_half_square(d, magnitude);
    const V k = hn::Set(d, sizeof(Real) == 4 ? Real(4) : Real(5));
    const V reciprocal = hn::Div(hn::Set(d, 1), hn::Add(magnitude, k));
    const V u = hn::Mul(hn::Sub(magnitude, k), reciprocal);
    V p;
    if constexpr (sizeof(Real) == 4) {  // relative error 1.3e-8
      static constexpr float kRatio[] = {-0.000125558392f, 0.000188996521f, 0.00156688166f, -0.00352097279f,
                                         -0.00752540259f,  0.0604061857f,   -0.186523303f,  0.387136698f,
                                         -0.607896566f,    0.755285144f};
      p = polynomial(d, u, kRatio);
    } else {  // 1.2e-17
      static constexpr double kRatio[] = {
          -1.80732120781460434e-10,  1.68910576651537808e-9,  7.66723610720265331e-9,   -9.14450208128917386e-9,
          -6.58488684007973972e-8,   4.20918333388691458e-8,  4.32983703741560941e-7,   -3.3651220434990695e-7,
          -2.76914578228227786e-6,   3.98087128566697249e-6,  0.0000166811603645866454, -0.0000497628103779030353,
          -0.0000593757138164713118, 0.000544899065037323011, -0.000797869400739248787, -0.00299337677064926812,
          0.0207950668000914596,     -0.0691186387062946795,  0.165020366170375025,     -0.313533156671305171,
          0.495305615969976589,      -0.665382502890056694,   0.769193049750062958};
      p = polynomial(d, u, kRatio);
    }
    tail = hn::Mul(hn::Mul(p, reciprocal), density);
  }

  // Phi(x)
  HWY_INLINE hn::Vec<D> below(D d, hn::Vec<D> x) const {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1), tail));
  }
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf(D d, V x) {
  using Real = hn::TFromD<D>;
  const V one = hn::Set(d, 1);
  const V magnitude = hn::Abs(x);
  const NormalTail<D> normal(d, hn::Mul(magnitude, hn::Set(d, Real(1.41421356237309504880))));
  const V far = hn::CopySign(hn::NegMulAdd(normal.tail, hn::Set(d, 2), one), x);
  const V square = hn::Mul(x, x);
  V near;
  if constexpr (sizeof(Real) == 4) {  // erf(x) / x in x^2 up to 1, relative error 1.4e-9
    static constexpr float kSeries[] = {7.87587487e-05f, -0.00080168643f, 0.00518908724f, -0.0268542115f,
                                        0.112835944f,    -0.37612626f,    1.12837911f};
    near = hn::Mul(x, polynomial(d, square, kSeries));
  } else {  // 8.2e-18
    static constexpr double kSeries[] = {-7.79589882700214224e-10, 1.37200645467776856e-8,    -1.62084838018717059e-7,
                                         1.64474247033173624e-6,   -0.0000149247369074196603, 0.000120552949048397079,
                                         -0.000854832597538969208, 0.00522397760711642273,    -0.0268661706432377704,
                                         0.112837916709450063,     -0.376126389031835404,     1.12837916709551257};
    near = hn::Mul(x, polynomial(d, square, kSeries));
  }
  return hn::IfThenElse(hn::Lt(magnitude, one), near, far);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V relu(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V relu_slope(D d, V x) {
  return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), hn::Set(d, 1));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu(D d, V x) {
  return hn::Mul(x, NormalTail<D>(d, x).below(d, x));
}
// Phi(x) + x phi(x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_slope(D d, V x) {
  using Real = hn::TFromD<D>;
  const NormalTail<D> normal(d, x);
  const V limit = hn::Set(d, 50);  // beyond any x whose density is not zero
  const V bounded = clamp(hn::Neg(limit), x, limit);
  const V density = hn::Mul(normal.density, hn::Set(d, Real(0.39894228040143267794)));
  return hn::MulAdd(bounded, density, normal.below(d, x));
}

// e = exp(-|x|), 1 / (1 + e) and e / (1 + e): the sigmoid of |x| and of -|x|.
template <class D>
struct SigmoidParts {
  hn::Vec<D> upper;
  hn::Vec<D> lower;

  HWY_INLINE SigmoidParts(D d, hn::Vec<D> x) {
    const auto e = exp_negative(d, hn::Neg(exponent_magnitude(d, x)), hn::Zero(d));
    const auto one = hn::Set(d, 1);
    upper = hn::Div(one, hn::Add(one, e));
    lower = hn::Mul(e, upper);
  }
  HWY_INLINE hn::Vec<D> value(D d, hn::Vec<D> x) const { return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), lower, upper); }
  HWY_INLINE hn::Vec<D> slope() const { return hn::Mul(lower, upper); }
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  return SigmoidParts<D>(d, x).value(d, x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_slope(D d, V x) {
  return SigmoidParts<D>(d, x).slope();
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V silu(D d, V x) {
  return hn::Mul(x, sigmoid(d, x));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V silu_slope(D d, V x) {
  const SigmoidParts<D> parts(d, x);
  const V limit = hn::Set(d, 1000);  // beyond any x whose slope is not 0 or 1
  return hn::MulAdd(clamp(hn::Neg(limit), x, limit), parts.slope(), parts.value(d, x));
}

// x sigmoid(1.702 x)
inline constexpr double kQuickGeluScale = 1.702;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V quick_gelu(D d, V x) {
  return hn::Mul(x, sigmoid(d, hn::Mul(x, hn::Set(d, static_cast<hn::TFromD<D>>(kQuickGeluScale)))));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V quick_gelu_slope(D d, V x) {
  return silu_slope(d, hn::Mul(x, hn::Set(d, static_cast<hn::TFromD<D>>(kQuickGeluScale))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_slope(D d, V x) {
  return hn::Mul(hn::Set(d, 4), sigmoid_slope(d, hn::Add(x, x)));
}

// x (1 + tanh(v / 2)) / 2 is x sigmoid(v) with v = sqrt(8 / pi) (x + 0.044715 x^3), and that does not cancel.
inline constexpr double kGeluTanhScale = 1.59576912160573071176;
inline constexpr double kGeluTanhCube = 0.044715;

// x up to where sigmoid(v) is 0 or 1, so that v stays finite.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh_bounded(D d, V x) {
  const V limit = hn::Set(d, 50);
  return clamp(hn::Neg(limit), x, limit);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh_inner(D d, V x) {
  using Real = hn::TFromD<D>;
  const V cube = hn::Mul(hn::Mul(x, x), hn::Set(d, Real(kGeluTanhScale * kGeluTanhCube)));
  return hn::Mul(x, hn::Add(cube, hn::Set(d, Real(kGeluTanhScale))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh(D d, V x) {
  return hn::Mul(x, sigmoid(d, gelu_tanh_inner(d, gelu_tanh_bounded(d, x))));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh_slope(D d, V x) {
  using Real = hn::TFromD<D>;
  const V bounded = gelu_tanh_bounded(d, x);
  const V inner = gelu_tanh_inner(d, bounded);
  const SigmoidParts<D> parts(d, inner);
  const V square = hn::Mul(bounded, bounded);
  const V inner_slope =
      hn::MulAdd(square, hn::Set(d, Real(3 * kGeluTanhScale * kGeluTanhCube)), hn::Set(d, Real(kGeluTanhScale)));
  return hn::MulAdd(hn::Mul(bounded, inner_slope), parts.slope(), parts.value(d, inner));
}

// The activation that kActivation names.
template <Activation kActivation, class D, class V = hn::Vec<D>>
HWY_INLINE V activate(D d, V x) {
  if constexpr (kActivation == Activation::relu) return relu(d, x);
  if constexpr (kActivation == Activation::gelu) return gelu(d, x);
  if constexpr (kActivation == Activation::gelu_tanh) return gelu_tanh(d, x);
  if constexpr (kActivation == Activation::silu) return silu(d, x);
  if constexpr (kActivation == Activation::tanh) return HWY_NAMESPACE::tanh(d, x);
  if constexpr (kActivation == Activation::sigmoid) return sigmoid(d, x);
  if constexpr (kActivation == Activation::quick_gelu) return quick_gelu(d, x);
  if constexpr (kActivation == Activation::none) return x;
}

// Its derivative at x, the value before the activation.
template <Activation kActivation, class D, class V = hn::Vec<D>>
HWY_INLINE V activation_slope(D d, V x) {
  if constexpr (kActivation == Activation::relu) return relu_slope(d, x);
  if constexpr (kActivation == Activation::gelu) return gelu_slope(d, x);
  if constexpr (kActivation == Activation::gelu_tanh) return gelu_tanh_slope(d, x);
  if constexpr (kActivation == Activation::silu) return silu_slope(d, x);
  if constexpr (kActivation == Activation::tanh) return tanh_slope(d, x);
  if constexpr (kActivation == Activation::sigmoid) return sigmoid_slope(d, x);
  if constexpr (kActivation == Activation::quick_gelu) return quick_gelu_slope(d, x);
  if constexpr (kActivation == Activation::none) return hn::Set(d, 1);
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
