// Copies of models on the CPU.
#include "translation/cpu_twin.h"

#include "headway/random.h"

namespace headway::inline v0::internal {

const TranslationModel& CpuTwin::of(const TranslationModel& model) {
  if (model.parameters().front().device().is_cpu()) return model;
  if (!twin_) {
    const RandomState before = random_state();  // its first weights draw seeds, and count nothing
    twin_.emplace(model.options());
    set_random_state(before);
  }
  twin_->load_state_dict(model.state_dict());
  twin_->train(model.is_training());
  return *twin_;
}

}  // namespace headway::inline v0::internal
