// exp2 and tanh of whole vectors.
#pragma once

#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

inline constexpr double kLog2E = 1.4426950408889634074;
inline constexpr double kLn2 = 0.69314718055994530942;

// The value that a masked score takes.
template <typename Real>
inline constexpr Real kMasked = -std::numeric_limits<Real>::infinity();

// The base-2 log-sum-exp of a row; of one without keys a finite number, less which anything has an exp2 of 0.
template <typename Real>
inline constexpr Real kEmptyRow = sizeof(Real) == 4 ? Real(1e30) : Real(1e300);
template <typename Real>
HWY_INLINE Real reference_of(Real logsumexp) {
  return logsumexp == kMasked<Real> ? kEmptyRow<Real> : logsumexp * static_cast<Real>(kLog2E);
}

// x held between low and high; NaN stays NaN. Min and Max give their second operand then on x86, the number on NEON.
template <class V>
HWY_INLINE V clamp(V low, V x, V high) {
#if HWY_TARGET == HWY_NEON
  if constexpr (sizeof(hn::TFromV<V>) == 4) {
    return V(vminq_f32(high.raw, vmaxq_f32(low.raw, x.raw)));
  } else {
    return V(vminq_f64(high.raw, vmaxq_f64(low.raw, x.raw)));
  }
#else
  return hn::Min(high, hn::Max(low, x));
#endif
}

// A number split into a whole part and a rest of at most 1/2, with 2^(whole part) ready to be multiplied by.
template <class D>
struct PowerSplit {
  using V = hn::Vec<D>;
  V fraction;
#if HWY_TARGET <= HWY_AVX3
  V whole;

  HWY_INLINE PowerSplit(D, V x) {
    whole = hn::Round(x);
    fraction = hn::Sub(x, whole);
  }
  // y * 2^whole
  HWY_INLINE V scale(V y) const {
    if constexpr (sizeof(hn::TFromD<D>) == 4) {
      return V{_mm512_scalef_ps(y.raw, whole.raw)};
    } else {
      return V{_mm512_scalef_pd(y.raw, whole.raw)};
    }
  }
#else
  V power;

  // Added to a small number, 1.5 * 2^mantissa leaves its whole part in the low bits. Exponents are clamped to what a
  // float holds: the least becomes an exact zero.
  HWY_INLINE PowerSplit(D d, V x) {
    using Real = hn::TFromD<D>;
    constexpr int kMantissa = sizeof(Real) == 4 ? 23 : 52;
    constexpr int kBias = sizeof(Real) == 4 ? 127 : 1023;
    const hn::RebindToSigned<D> di;
    const V magic = hn::Set(d, sizeof(Real) == 4 ? Real(12582912.0) : Real(6755399441055744.0));
    const V clamped = clamp(hn::Set(d, Real(-kBias)), x, hn::Set(d, Real(kBias)));
    const V shifted = hn::Add(clamped, magic);
    fraction = hn::Sub(clamped, hn::Sub(shifted, magic));
    power = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, kBias))));
  }
  HWY_INLINE V scale(V y) const { return hn::Mul(y, power); }
#endif
};

// 2^r - 1 divided by r for |r| <= 1/2, as a polynomial. Minimax fits; with exp2 below 1.83 ulp in float, 1 ulp in
// double.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_fraction(D d, V r) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    V p = hn::Set(d, 0.001326472731307149f);
    p = hn::MulAdd(p, r, hn::Set(d, 0.009671512991189957f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.05550748482346535f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.24022240936756134f));
    return hn::MulAdd(p, r, hn::Set(d, 0.6931469440460205f));
  } else {
    V p = hn::Set(d, 4.0780717860928704165e-10);
    p = hn::MulAdd(p, r, hn::Set(d, 7.0725703945407994337e-9));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0180647660573069343e-7));
    p = hn::MulAdd(p, r, hn::Set(d, 1.3215442675452855182e-6));
    p = hn::MulAdd(p, r, hn::Set(d, 0.00001525272738518977478));
    p = hn::MulAdd(p, r, hn::Set(d, 0.00015403530441571850099));
    p = hn::MulAdd(p, r, hn::Set(d, 0.001333355815343996974));
    p = hn::MulAdd(p, r, hn::Set(d, 0.0096181291076070026171));
    p = hn::MulAdd(p, r, hn::Set(d, 0.055504108664790394528));
    p = hn::MulAdd(p, r, hn::Set(d, 0.24022650695910098006));
    return hn::MulAdd(p, r, hn::Set(d, 0.69314718055994569675));
  }
}

// The same with a relative error of 2.9e-6 in the power: enough where the result is rounded to bf16.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_fraction_short(D d, V r) {
  V p = hn::Set(d, 0.009582853266575769f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.05590642511013218f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.2402409860715904f));
  return hn::MulAdd(p, r, hn::Set(d, 0.6931241933124377f));
}

// 2^x for finite x. kShort: with the shorter polynomial.
template <bool kShort = false, class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_finite(D d, V x) {
  const PowerSplit<D> split(d, x);
  V p;
  if constexpr (kShort) {
    p = exp2_fraction_short(d, split.fraction);
  } else {
    p = exp2_fraction(d, split.fraction);
  }
  return split.scale(hn::MulAdd(p, split.fraction, hn::Set(d, 1)));
}

// 2^x for x < infinity; -infinity gives 0, NaN stays NaN (Max returns its second operand then).
template <bool kShort = false, class D, class V = hn::Vec<D>>
HWY_INLINE V exp2(D d, V x) {
#if HWY_TARGET <= HWY_AVX3
  using Real = hn::TFromD<D>;
  x = hn::Max(hn::Set(d, sizeof(Real) == 4 ? Real(-200) : Real(-1200)), x);
#endif
  return exp2_finite<kShort>(d, x);
}

// tanh(x) = e / (e + 2) with e = exp(2 x) - 1, computed without cancellation.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  using Real = hn::TFromD<D>;
  const V limit = hn::Set(d, sizeof(Real) == 4 ? Real(10) : Real(20));  // past it tanh rounds to 1
  const V clamped = clamp(hn::Neg(limit), x, limit);
  const PowerSplit<D> split(d, hn::Mul(clamped, hn::Set(d, static_cast<Real>(2 * kLog2E))));
  const V one = hn::Set(d, 1);
  const V power = split.scale(one);
  const V e = hn::MulAdd(hn::Mul(exp2_fraction(d, split.fraction), split.fraction), power, hn::Sub(power, one));
  return hn::Div(e, hn::Add(e, hn::Set(d, 2)));
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
