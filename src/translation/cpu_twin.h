// The CPU's copy of a model that is trained elsewhere.
#pragma once

#include <optional>

#include "headway/translation_model.h"

namespace headway::inline v0::internal {

// Searching for translations and writing files want weights on the CPU.
class CpuTwin {
 public:
  // A model on the CPU with the weights that `model` has now: itself where it is there, else a copy, which the next
  // call changes.
  const TranslationModel& of(const TranslationModel& model);

 private:
  std::optional<TranslationModel> twin_;
};

}  // namespace headway::inline v0::internal
