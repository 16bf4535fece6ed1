// One step of an optimizer over neighbouring elements.
#pragma once

#include "cpu/kernels/optimizer.h"
#include "cpu/kernels/rowwise-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// The weights that a step changes: values of type T, and the master that 16-bit ones may have.
template <typename T>
class Weights {
 public:
  using Real = RealFor<T>;
  using D = hn::ScalableTag<Real>;
  using V = hn::Vec<D>;

  Weights(void* value, float* master) : value_(static_cast<T*>(value)), master_(master) {}

  // What the step starts from: the master, unless it no longer rounds to the value.
  template <typename Amount>
  HWY_INLINE V get(std::int64_t i, Amount part) const {
    const V value = load(D(), value_ + i, part);
    if constexpr (kHasMaster) {
      if (master_) {
        const V master = load(D(), master_ + i, part);
        return hn::IfThenElse(hn::Eq(rounded(master), value), master, value);
      }
    }
    return value;
  }
  template <typename Amount>
  HWY_INLINE void set(std::int64_t i, V weight, Amount part) const {
    store(D(), weight, value_ + i, part);
    if constexpr (kHasMaster) {
      if (master_) store(D(), weight, master_ + i, part);
    }
  }

 private:
  static constexpr bool kHasMaster = !std::is_same_v<T, Real>;

  // As it is after a store and a load.
  static HWY_INLINE V rounded(V v) {
    T elements[hn::MaxLanes(D())];  // (lanes)
    store_converted(D(), v, elements);
    return load_converted(D(), elements);
  }

  T* value_;       // (count)
  float* master_;  // (count); null: none
};

template <typename T>
void sgd_step(const SgdTask& task) {
  using Real = RealFor<T>;
  using V = hn::Vec<hn::ScalableTag<Real>>;
  const hn::ScalableTag<Real> d;
  const Weights<T> weights(task.value, task.master);
  const T* gradient = static_cast<const T*>(task.gradient);
  Real* momentum = static_cast<Real*>(task.momentum);
  const V gradient_factor = hn::Set(d, static_cast<Real>(task.gradient_factor));
  const V momentum_factor = hn::Set(d, static_cast<Real>(task.momentum_factor));
  const V fresh = hn::Set(d, static_cast<Real>(1 - task.dampening));
  const V weight_decay = hn::Set(d, static_cast<Real>(task.weight_decay));
  const V rate = hn::Set(d, static_cast<Real>(task.learning_rate));
  for_each_vector(d, task.count, [&](std::int64_t i, auto part) HEADWAY_INNER {
    const V v = weights.get(i, part);
    V g = hn::Mul(load(d, gradient + i, part), gradient_factor);
    if (task.weight_decay != 0) g = hn::MulAdd(v, weight_decay, g);
    if (momentum) {
      const V m = task.first_step ? g : hn::MulAdd(load(d, momentum + i, part), momentum_factor, hn::Mul(g, fresh));
      store(d, m, momentum + i, part);
      g = task.nesterov ? hn::MulAdd(m, momentum_factor, g) : m;
    }
    weights.set(i, hn::NegMulAdd(g, rate, v), part);
  });
}

template <typename T>
void adam_step(const AdamTask& task) {
  using Real = RealFor<T>;
  using V = hn::Vec<hn::ScalableTag<Real>>;
  const hn::ScalableTag<Real> d;
  const Weights<T> weights(task.value, task.master);
  const T* gradient = static_cast<const T*>(task.gradient);
  Real* first = static_cast<Real*>(task.first);
  Real* second = static_cast<Real*>(task.second);
  Real* largest = static_cast<Real*>(task.largest);
  const V gradient_factor = hn::Set(d, static_cast<Real>(task.gradient_factor));
  const V fresh1 = hn::Set(d, static_cast<Real>(1 - task.beta1));
  const V beta2 = hn::Set(d, static_cast<Real>(task.beta2));
  const V fresh2 = hn::Set(d, static_cast<Real>(1 - task.beta2));
  const V epsilon = hn::Set(d, static_cast<Real>(task.epsilon));
  const V step_size = hn::Set(d, static_cast<Real>(task.step_size));
  const V inverse_root = hn::Set(d, static_cast<Real>(task.inverse_root));
  const V added_decay = hn::Set(d, static_cast<Real>(task.added_decay));
  const V kept_share = hn::Set(d, static_cast<Real>(task.kept_share));
  for_each_vector(d, task.count, [&](std::int64_t i, auto part) HEADWAY_INNER {
    V v = weights.get(i, part);
    V g = hn::Mul(load(d, gradient + i, part), gradient_factor);
    if (task.added_decay != 0) g = hn::MulAdd(v, added_decay, g);
    v = hn::Mul(v, kept_share);
    V m = load(d, first + i, part);
    m = hn::MulAdd(fresh1, hn::Sub(g, m), m);
    store(d, m, first + i, part);
    V s = hn::MulAdd(load(d, second + i, part), beta2, hn::Mul(hn::Mul(fresh2, g), g));
    store(d, s, second + i, part);
    if (largest) {
      const V earlier = load(d, largest + i, part);
      s = hn::IfThenElse(hn::Lt(s, earlier), earlier, s);  // a NaN in s stays
      store(d, s, largest + i, part);
    }
    const V root = hn::MulAdd(hn::Sqrt(s), inverse_root, epsilon);
    weights.set(i, hn::Sub(v, hn::Div(hn::Mul(step_size, m), root)), part);
  });
}

template <typename T>
double sum_squares(const T* values, std::int64_t count) {
  using V = hn::Vec<hn::ScalableTag<double>>;
  const hn::ScalableTag<double> d;
  if constexpr (std::is_same_v<T, double>) {
    return sum_row(d, count, [&](V sum, std::int64_t i, auto part) HEADWAY_INNER {
      const V v = load(d, values + i, part);
      return hn::MulAdd(v, v, sum);
    });
  } else {
    const hn::Rebind<float, decltype(d)> half;  // as many floats as there are doubles in a vector
    return sum_row(d, count, [&](V sum, std::int64_t i, auto part) HEADWAY_INNER {
      const V v = hn::PromoteTo(d, load(half, values + i, part));
      return hn::MulAdd(v, v, sum);
    });
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
