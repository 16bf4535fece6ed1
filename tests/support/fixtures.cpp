#include "support/fixtures.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "headway/safetensors.h"

namespace headway_test {

using headway::DType;
using headway::Tensor;

std::string FixtureOptions::text(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw std::runtime_error("fixture: the metadata lack \"" + name + "\"");
  return found->second;
}

bool FixtureOptions::flag(const std::string& name, bool fallback) const {
  return has(name) ? text(name) == "true" : fallback;
}

std::int64_t FixtureOptions::integer(const std::string& name) const { return std::stoll(text(name)); }

std::optional<std::int64_t> FixtureOptions::optional_integer(const std::string& name) const {
  return has(name) ? std::optional(integer(name)) : std::nullopt;
}

double FixtureOptions::real(const std::string& name, double fallback) const {
  return has(name) ? std::stod(text(name)) : fallback;
}

std::optional<double> FixtureOptions::optional_real(const std::string& name) const {
  return has(name) ? std::optional(std::stod(text(name))) : std::nullopt;
}

TensorMap Fixture::part(const std::string& prefix) const {
  TensorMap result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) result[name.substr(prefix.size())] = tensor;
  }
  return result;
}

bool is_result(const std::string& tensor_name) {
  return !tensor_name.starts_with("state.") && !tensor_name.starts_with("input.") &&
         !tensor_name.starts_with("d_output.");
}

std::filesystem::path fixture_directory() {
  const char* chosen = std::getenv("HEADWAY_FIXTURES");
  return chosen != nullptr && *chosen != 0 ? chosen : HEADWAY_TEST_FIXTURES;
}

std::vector<std::filesystem::path> fixture_files(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) {
    throw std::runtime_error("fixtures: there is no directory " + directory.string());
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  if (files.empty()) throw std::runtime_error("fixtures: there is no *.safetensors in " + directory.string());
  std::sort(files.begin(), files.end());
  return files;
}

Fixture read_fixture(const std::filesystem::path& path) {
  const headway::SafeTensors file = headway::SafeTensors::open(path);
  Fixture fixture = {FixtureOptions(file.metadata()), DType::float64, {}};
  const std::string dtype = fixture.options.text("dtype");
  if (dtype != "float32" && dtype != "float64") throw std::runtime_error("fixture: dtype is " + dtype);
  fixture.dtype = dtype == "float32" ? DType::float32 : DType::float64;
  for (const std::string& name : file.names()) fixture.tensors[name] = file.get(name);
  return fixture;
}

double fixture_tolerance(DType dtype) { return dtype == DType::float64 ? 1e-10 : 1e-5; }

testing::AssertionResult agrees(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (!actual.defined()) return testing::AssertionFailure() << "is not there";
  if (!(actual.shape() == expected.shape())) {
    return testing::AssertionFailure() << "is " << actual.describe() << ", torch gives " << expected.describe();
  }
  const std::vector<double> values = actual.to_vector(), wanted = expected.to_vector();
  double magnitude = 0.1;
  for (double w : wanted) magnitude = std::max(magnitude, std::abs(w));
  for (std::size_t e = 0; e < wanted.size(); ++e) {
    if (!(std::abs(values[e] - wanted[e]) <= tolerance * magnitude)) {
      return testing::AssertionFailure() << actual.describe() << " has " << values[e] << " as element " << e
                                         << ", torch " << wanted[e] << ": differs by "
                                         << std::abs(values[e] - wanted[e]) << ", allowed " << tolerance * magnitude;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace headway_test
