// The cases of tests/torch/cases.py, computed by Headway.
#pragma once

#include <functional>
#include <optional>

#include "headway/module.h"
#include "support/fixtures.h"

namespace headway_test {

// One case: its module with fresh weights (none for plain functions), and the results by name for inputs by name.
struct TorchCase {
  std::optional<headway::Module> module = {};
  std::function<TensorMap(const TensorMap& inputs)> forward = {};
};

// Makes the case that a file's options speak of; throws where its kind is unknown.
TorchCase make_case(const FixtureOptions& options, headway::DType dtype);

// The kinds that make_case() shares out: layers and plain functions, and what attends. An unknown kind gives no
// forward.
TorchCase make_small_case(const FixtureOptions& options, headway::DType dtype);
TorchCase make_attending_case(const FixtureOptions& options, headway::DType dtype);

// All results under the names that they have in the file: output.*, d_input.* and d_state.*, or losses and after.*
// where the options name an optimizer. `given` has input.* and d_output.*.
TensorMap compute(const TorchCase& made, const FixtureOptions& options, headway::DType dtype, const Fixture& given);

}  // namespace headway_test
