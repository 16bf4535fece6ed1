// export_state_dicts FIXTURES DIRECTORY [SEED]: Headway's own modules, with their own initial weights, computed on the
// inputs of every file in FIXTURES and saved in the same form, for tests/torch/check_state_dicts.py to load into torch.
// DIRECTORY/initial gets the initial weights of several modules of a kind.
#include <iostream>

#include "conformance/cases.h"
#include "headway/random.h"
#include "headway/safetensors.h"
#include "support/fixtures.h"

namespace headway_test {
namespace {

using headway::DType;

// Saves what a fresh module gives for the inputs of `file`. False where the case has no module.
bool export_case(const std::filesystem::path& file, const std::filesystem::path& directory) {
  const Fixture fixture = read_fixture(file);
  const TorchCase made = make_case(fixture.options, fixture.dtype);
  if (!made.module) return false;
  TensorMap tensors;
  for (const auto& [name, tensor] : made.module->state_dict()) tensors["state." + name] = tensor.clone();
  for (const auto& [name, tensor] : fixture.tensors) {
    if (name.starts_with("input.") || name.starts_with("d_output.")) tensors[name] = tensor;
  }
  tensors.merge(compute(made, fixture.options, fixture.dtype, fixture));
  headway::save_safetensors(directory / file.filename(), tensors, fixture.options.values());
  return true;
}

using Values = std::map<std::string, std::string>;
const std::map<std::string, Values> kInitialised = {
    {"linear", {{"kind", "linear"}, {"in_features", "48"}, {"out_features", "96"}}},
    {"embedding", {{"kind", "embedding"}, {"count", "100"}, {"features", "40"}}},
    {"embedding_padding", {{"kind", "embedding"}, {"count", "100"}, {"features", "40"}, {"padding_index", "7"}}},
    {"layer_norm", {{"kind", "layer_norm"}, {"features", "32"}}},
    {"rms_norm", {{"kind", "rms_norm"}, {"features", "32"}}},
    {"multi_head_attention",
     {{"kind", "multi_head_attention"}, {"embed_dim", "64"}, {"num_heads", "4"}, {"add_bias_kv", "true"}}},
    {"multi_head_attention_widths",
     {{"kind", "multi_head_attention"}, {"embed_dim", "64"}, {"num_heads", "4"}, {"kdim", "24"}, {"vdim", "100"}}},
    {"encoder_layer", {{"kind", "encoder_layer"}, {"d_model", "32"}, {"nhead", "4"}, {"dim_feedforward", "80"}}},
    {"decoder_layer", {{"kind", "decoder_layer"}, {"d_model", "32"}, {"nhead", "4"}, {"dim_feedforward", "80"}}},
    {"transformer",
     {{"kind", "transformer"},
      {"d_model", "32"},
      {"nhead", "4"},
      {"dim_feedforward", "80"},
      {"num_encoder_layers", "2"},
      {"num_decoder_layers", "2"}}}};

// Saves the weights of some new modules: "3.in_proj_weight" belongs to the fourth.
void export_initial(const std::string& name, const Values& values, const std::filesystem::path& directory) {
  constexpr int kModules = 64;
  TensorMap tensors;
  for (int module = 0; module < kModules; ++module) {
    const TorchCase made = make_case(FixtureOptions(values), DType::float32);
    for (const auto& [parameter, tensor] : made.module->state_dict()) {
      tensors[std::to_string(module) + "." + parameter] = tensor;
    }
  }
  headway::save_safetensors(directory / (name + ".safetensors"), tensors, values);
}

int run(int argc, char** argv) {
  if (argc < 3) throw std::runtime_error("usage: export_state_dicts FIXTURES DIRECTORY [SEED]");
  const std::filesystem::path directory = argv[2];
  std::filesystem::create_directories(directory / "initial");
  headway::set_random_seed(argc > 3 ? std::stoull(argv[3]) : 1);
  int count = 0;
  for (const auto& file : fixture_files(argv[1])) {
    try {
      count += export_case(file, directory) ? 1 : 0;
    } catch (const std::exception& error) {
      throw std::runtime_error(file.string() + ": " + error.what());
    }
  }
  for (const auto& [name, values] : kInitialised) export_initial(name, values, directory / "initial");
  std::cout << count << " modules and the initial weights of " << kInitialised.size() << " more in "
            << directory.string() << "\n";
  return count > 0 ? 0 : 1;
}

}  // namespace
}  // namespace headway_test

int main(int argc, char** argv) {
  try {
    return headway_test::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "export_state_dicts: " << error.what() << "\n";
    return 1;
  }
}
