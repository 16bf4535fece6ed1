// Files of results that PyTorch computed: tests/torch/make_fixtures.py writes them, tests/torch/cases.py says what is
// in them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "headway/tensor.h"

namespace headway_test {

using TensorMap = std::map<std::string, headway::Tensor>;

// A file's metadata: options by name. What is asked for without a fallback must be there.
class FixtureOptions {
 public:
  explicit FixtureOptions(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  bool has(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name) const;
  bool flag(const std::string& name, bool fallback = false) const;
  std::int64_t integer(const std::string& name) const;
  std::optional<std::int64_t> optional_integer(const std::string& name) const;
  double real(const std::string& name, double fallback) const;
  std::optional<double> optional_real(const std::string& name) const;
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

struct Fixture {
  FixtureOptions options;
  headway::DType dtype;  // in which torch computed
  TensorMap tensors;

  // Tensors whose names start with the prefix, under the rest of their names.
  TensorMap part(const std::string& prefix) const;
};

// True for results of a computation; false for state, inputs and gradients from above.
bool is_result(const std::string& tensor_name);

// Where the files are: HEADWAY_FIXTURES, else those of the repository.
std::filesystem::path fixture_directory();

// All files of a directory in the order of their names; throws where it is missing or holds none.
std::vector<std::filesystem::path> fixture_files(const std::filesystem::path& directory);

Fixture read_fixture(const std::filesystem::path& path);

// What results in this dtype may differ from torch's: 1e-5 in float32 and 1e-10 in float64, relative to the tensor's
// largest magnitude.
double fixture_tolerance(headway::DType dtype);

// Success when the shapes are the same and no element differs by more than `tolerance` times the largest magnitude in
// `expected`. Magnitudes count as 0.1 at least: results that cancel to nothing keep the rounding errors of their
// terms.
testing::AssertionResult agrees(const headway::Tensor& actual, const headway::Tensor& expected, double tolerance);

}  // namespace headway_test
