// The decoder of a TranslationModel.
#include "base/check.h"
#include "generate/decoder_weights.h"

namespace headway::inline v0::internal {

DecoderWeights decoder_weights(const TranslationModel& model) {
  DecoderWeights weights = decoder_weights(model.transformer());
  check(weights.dtype() == DType::float32 || !weights.device().is_cpu(), "search: the model is of ", weights.dtype(),
        " on the CPU, expected float32");
  return weights;
}

}  // namespace headway::inline v0::internal
