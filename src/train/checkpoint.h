// The directory of a run's checkpoints.
#pragma once

#include <filesystem>
#include <vector>

#include "headway/training.h"
#include "io/safetensors.h"

namespace headway::inline v0::internal {

// The steps of all checkpoints in a directory, ascending, whole or not.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& directory);

// directory/step-00001000.safetensors
std::filesystem::path checkpoint_path(const std::filesystem::path& directory, std::int64_t step);

// What a floating tensor has among its elements.
struct NumberKinds {
  bool nan = false;
  bool infinite = false;
};
NumberKinds number_kinds(const Tensor& tensor);

// save_checkpoint() of `checkpoint`, whose optimizer's state is empty, with the state that `optimizer` makes while the
// file is written.
void save_checkpoint_in_pieces(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                               std::vector<TensorToWrite> optimizer, std::int64_t keep);

// Throws unless the names, shapes and dtypes of a checkpoint are those that `expected` has; `what` is "module" or
// "optimizer".
void check_fits(const StateDict& values, const StateDict& expected, const char* what, std::int64_t step);

}  // namespace headway::inline v0::internal
