// Every module against the numbers that PyTorch computes from the same weights and inputs: outputs, attention weights,
// gradients, and parameters after 20 steps of an optimizer. HEADWAY_FIXTURES may name another directory of files.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <set>

#include "conformance/cases.h"
#include "headway/dtype.h"
#include "support/fixtures.h"

namespace headway_test {
namespace {

using headway::DType;
using headway::Tensor;

struct FileAndDtype {
  std::filesystem::path file;
  DType dtype;
};
std::ostream& operator<<(std::ostream& out, const FileAndDtype& p) {
  return out << p.file.filename().string() << " in " << headway::dtype_name(p.dtype);
}

// Every file in float32, and in float64 where torch computed in that. None where the directory is not there, which
// TorchFixtures.AreThere tells.
std::vector<FileAndDtype> files_and_dtypes() {
  std::vector<FileAndDtype> all;
  try {
    for (const auto& file : fixture_files(fixture_directory())) {
      all.push_back({file, DType::float32});
      if (read_fixture(file).dtype == DType::float64) all.push_back({file, DType::float64});
    }
  } catch (const std::exception&) {
    all.clear();
  }
  return all;
}

std::set<std::string> names_of(const TensorMap& tensors) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) names.insert(name);
  return names;
}

// The same added to all keys changes no softmax, so the keys' bias has a gradient of rounding errors alone, which Adam
// then turns into steps of full size: that third of the vector says nothing. With bias_k, not all keys have it added.
bool keys_bias_is_noise(const FixtureOptions& options, const std::string& name) {
  return options.has("optimizer") && options.text("optimizer") != "sgd" && !options.flag("add_bias_kv") &&
         name.ends_with("in_proj_bias");
}

Tensor without_keys_bias(const Tensor& bias) {
  Tensor result = bias.clone();
  result.slice(0, result.size(0) / 3, result.size(0) / 3 * 2).fill(0);
  return result;
}

class TorchFixture : public testing::TestWithParam<FileAndDtype> {};

TEST_P(TorchFixture, GivesTheSameNumbers) {
  const auto& [file, dtype] = GetParam();
  const Fixture fixture = read_fixture(file);
  const TorchCase made = make_case(fixture.options, dtype);
  const TensorMap state = fixture.part("state.");
  if (made.module) {
    EXPECT_EQ(names_of(made.module->state_dict()), names_of(state));
    made.module->load_state_dict(state);
  }
  EXPECT_EQ(made.module.has_value(), !state.empty() || fixture.options.has("affine"));
  const TensorMap results = compute(made, fixture.options, dtype, fixture);

  int compared = 0;
  for (const auto& [name, expected] : fixture.tensors) {
    if (!is_result(name)) continue;
    ASSERT_TRUE(results.contains(name)) << name << " is missing";
    Tensor actual = results.at(name), wanted = expected;
    if (keys_bias_is_noise(fixture.options, name)) {
      actual = without_keys_bias(actual);
      wanted = without_keys_bias(wanted);
    }
    EXPECT_TRUE(agrees(actual, wanted, fixture_tolerance(dtype))) << name;
    ++compared;
  }
  EXPECT_EQ(compared, static_cast<int>(results.size()));
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(All, TorchFixture, testing::ValuesIn(files_and_dtypes()), [](const auto& info) {
  return info.param.file.stem().string() + "_in_" + std::string(headway::dtype_name(info.param.dtype));
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TorchFixture);

TEST(TorchFixtures, AreThere) {
  std::map<std::string, int> files, trained;
  for (const auto& file : fixture_files(fixture_directory())) {
    const FixtureOptions options = read_fixture(file).options;
    ++(options.has("optimizer") ? trained : files)[options.text("kind")];
  }
  for (const char* kind : {"linear", "layer_norm", "rms_norm", "embedding", "activation", "softmax", "matmul",
                           "cross_entropy", "attention", "multi_head_attention", "encoder_layer", "decoder_layer",
                           "encoder", "decoder", "transformer", "schedule"}) {
    EXPECT_GT(files[kind], 0) << kind;
  }
  EXPECT_GE(files["multi_head_attention"], 30);
  for (const char* kind : {"linear", "layer_norm", "rms_norm", "embedding", "multi_head_attention", "encoder_layer",
                           "decoder_layer", "encoder", "decoder", "transformer"}) {
    EXPECT_GT(trained[kind], 0) << kind << " with an optimizer";
  }
}

TEST(TorchFixtures, MissingOnesAreAnError) {
  EXPECT_THROW(fixture_files("/nonexistent/fixtures"), std::runtime_error);
  const std::filesystem::path empty = std::filesystem::path(testing::TempDir()) / "headway-no-fixtures";
  std::filesystem::create_directories(empty);
  EXPECT_THROW(fixture_files(empty), std::runtime_error);
  std::filesystem::remove(empty);
}

TEST(TorchFixtures, ADifferenceIsNoticed) {
  const Tensor expected = Tensor::from({1.0, -200.0, 3.0}, {3});
  EXPECT_TRUE(agrees(Tensor::from({1.0019, -200.0, 3.0}, {3}), expected, 1e-5));
  EXPECT_FALSE(agrees(Tensor::from({1.0021, -200.0, 3.0}, {3}), expected, 1e-5));
  EXPECT_FALSE(agrees(Tensor::from({std::nan(""), -200.0, 3.0}, {3}), expected, 1e-5));
  EXPECT_FALSE(agrees(expected.reshape({3, 1}), expected, 1e-5));
  EXPECT_FALSE(agrees(Tensor(), expected, 1e-5));
}

}  // namespace
}  // namespace headway_test
