// New models of a given shape.
#include "training/evaluation_copies.h"

#include "core/random_stream.h"

namespace headway::inline v0::internal {

TranslationModel fresh_model(const TranslationModel& like) {
  const OwnRandomStream stream(random_state());
  return TranslationModel(like.options());
}

TransformerModel fresh_model(const TransformerModel& like) {
  const OwnRandomStream stream(random_state());
  return TransformerModel::from_config(like.config());
}

}  // namespace headway::inline v0::internal
