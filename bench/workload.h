// The two sides of a row: the same inputs, computed by Headway and by PyTorch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "case.h"
#include "measure.h"

namespace bench {

struct Workload {
  Contender headway;
  std::optional<Contender> headway_plain;  // the same call without weights, where the row asks for weights
  std::vector<Contender> torch;            // the ways PyTorch's users have; the fastest one counts

  // Computes Headway's result and compares it with PyTorch's in float32: the largest relative error of a row of a
  // result, rows far below the average length being measured against the average.
  std::function<double()> error;
  double tolerance = 0;
};

// Makes random inputs for a case and everything that is needed to run it.
Workload make_workload(const Case& c);

// Sets the number of threads of both sides.
void set_threads(int threads);

// "2.13.0"
std::string torch_version();

}  // namespace bench
