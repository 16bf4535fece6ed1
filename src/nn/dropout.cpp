#include "base/check.h"
#include "dist/sequence_guard.h"
#include "headway/layers.h"
#include "headway/random.h"
#include "ops/linear.h"

namespace headway::inline v0 {

Dropout::Dropout(double probability) : probability_(probability) {
  internal::check(probability >= 0 && probability < 1, "Dropout: probability is ", probability,
                  ", expected 0 or more and less than 1");
}

Tensor Dropout::forward(const Tensor& x) const {
  if (probability_ == 0 || !is_training()) return x;
  return dropout(x, probability_, internal::seed_of_rank(next_random_seed()));
}

Tensor Dropout::forward(const Linear& linear, const Tensor& x) const {
  if (probability_ == 0 || !is_training()) return linear.forward(x);
  if (linear.weight_scale().defined()) return forward(linear.forward(x));
  return internal::linear_dropout(x, linear.weight().get(), linear.bias().get(), linear.options().activation,
                                  probability_, internal::seed_of_rank(next_random_seed()));
}

Tensor Dropout::add_to(const Tensor& x, const Tensor& y) const {
  if (probability_ == 0 || !is_training()) return add(x, y);
  return add_dropout(x, y, probability_, internal::seed_of_rank(next_random_seed()));
}

AddNorm Dropout::add_to(const Tensor& x, const Tensor& y, const LayerNorm& norm) const {
  const bool drops = probability_ > 0 && is_training();
  return add_dropout_norm(x, y,
                          {.probability = drops ? probability_ : 0,
                           .seed = drops ? internal::seed_of_rank(next_random_seed()) : 0,
                           .weight = norm.weight().get(),
                           .bias = norm.bias().get(),
                           .epsilon = norm.options().epsilon});
}

}  // namespace headway::inline v0
