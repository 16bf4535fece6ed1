// generate_from_features DIRECTORY FEATURES OPTIONS: prints [[token, ...], ...] for each tensor "0", "1", ... of a
// safetensors file. The options are JSON: "prompt" or "prompts", "tokens", "ends", "beams", "length_penalty",
// "early_stopping".
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "headway/safetensors.h"
#include "tasks/feature_generator.h"

namespace {

using headway::internal::FeatureGenerator;
using headway::internal::FeatureRequest;
using Json = nlohmann::json;

void run(const std::string& directory, const std::string& file, const Json& given) {
  const FeatureGenerator generator(headway::TransformerModel::load(directory));
  headway::GenerateOptions options;
  options.max_new_tokens = given.at("tokens").get<std::int64_t>();
  options.ignore_end = !given.at("ends").get<bool>();
  if (given.contains("beams")) options.beams = given.at("beams").get<std::int64_t>();
  if (given.contains("length_penalty")) options.length_penalty = given.at("length_penalty").get<double>();
  if (given.contains("early_stopping")) {
    const std::string name = given.at("early_stopping");
    options.early_stopping = name == "first"   ? headway::EarlyStopping::first
                             : name == "never" ? headway::EarlyStopping::never
                                               : headway::EarlyStopping::heuristic;
  }
  const std::map<std::string, headway::Tensor> features = headway::load_safetensors(file);
  std::vector<FeatureRequest> requests;
  for (std::size_t i = 0; i < features.size(); ++i) {
    const Json& prompt = given.contains("prompts") ? given.at("prompts").at(i) : given.at("prompt");
    requests.push_back({.features = features.at(std::to_string(i)), .prompt = prompt});
  }
  Json tokens = Json::array();
  for (const auto& texts : generator.generate("generate", requests, options)) tokens.push_back(texts.front().tokens);
  std::cout << tokens << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("expected DIRECTORY FEATURES OPTIONS");
    run(argv[1], argv[2], Json::parse(argv[3]));
  } catch (const std::exception& error) {
    std::cerr << "generate_from_features: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
