// New models of a given shape.
#include "training/evaluation_copies.h"

#include "headway/random.h"

namespace headway::inline v0::internal {
namespace {

// Calls make() and puts the random state back: initial weights take seeds.
template <typename Make>
auto with_kept_random_state(const Make& make) {
  const RandomState before = random_state();
  auto model = make();
  set_random_state(before);
  return model;
}

}  // namespace

TranslationModel fresh_model(const TranslationModel& like) {
  return with_kept_random_state([&] { return TranslationModel(like.options()); });
}

TransformerModel fresh_model(const TransformerModel& like) {
  return with_kept_random_state([&] { return TransformerModel::from_config(like.config()); });
}

}  // namespace headway::inline v0::internal
