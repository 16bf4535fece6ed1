#include "cpu/backend.h"

#include <utility>

#include "backend/add_norm.h"
#include "backend/registry.h"
#include "headway/info.h"

namespace headway::inline v0::internal::cpu {
namespace {

// Work is done at once, so that nothing is recorded: a replay calls the function again.
class CalledWork final : public RecordedWork {
 public:
  explicit CalledWork(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override { work_(); }

 private:
  std::function<void()> work_;
};

}  // namespace

std::string CpuBackend::description() { return "CPU, " + instruction_set(); }

std::unique_ptr<RecordedWork> CpuBackend::record(const std::function<void()>& work) {
  return std::make_unique<CalledWork>(work);
}

void CpuBackend::add_norm_backward(const AddNormBackwardInputs& inputs, const AddNormGradients& gradients) {
  add_norm_backward_in_steps(*this, inputs, gradients);
}

}  // namespace headway::inline v0::internal::cpu

namespace headway::inline v0::internal {

DeviceList cpu_devices() {
  return {.problem = "", .count = 1, .backend = [](int) -> Backend* {
            static auto* backend = new cpu::CpuBackend;  // never destroyed: tensors of static duration are its users
            return backend;
          }};
}

}  // namespace headway::inline v0::internal
