// Drives a translation model from a script: a request per line on standard input, an answer per line, both JSON.
//   translate_tokens MODEL_DIRECTORY [THREADS [DEVICE [DTYPE]]]
// {"sources": [[ids]], "beam": 4, "num_best": 1, "max_length": 20, "batch_size": 32, "length_penalty": 1.0}
//   -> {"seconds": s, "processor_seconds": s, "hypotheses": [[{"tokens": [ids], "score": x, "complete": true}]]}
// {"source": [[ids]], "lengths": [n], "target": [[ids]]} -> {"logits": [...], flat}
// {"texts": ["..."], "to": "deu", "beam": 1} -> {"seconds": s, "processor_seconds": s, "translations": ["..."]}
// {"save": DIRECTORY, "dtype": "float16"} -> {"saved": DIRECTORY}
#include <chrono>
#include <ctime>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/threads.h"
#include "headway/translation_model.h"
#include "headway/translator.h"

namespace {

using headway::Tensor;
using Json = nlohmann::json;
using Rows = std::vector<std::vector<std::int64_t>>;

// Seconds on the wall and of all threads' processors since it was made.
class Stopwatch {
 public:
  void write_to(Json& answer) const {
    answer["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    answer["processor_seconds"] = static_cast<double>(std::clock() - processor_start_) / CLOCKS_PER_SEC;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::clock_t processor_start_ = std::clock();
};

Tensor tensor_of(const Rows& rows) {
  std::vector<std::int64_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return Tensor::from(all, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.at(0).size())});
}

headway::DType dtype_of(const std::string& name) {
  if (name == "float16") return headway::DType::float16;
  if (name == "int8") return headway::DType::int8;
  return name == "bfloat16" ? headway::DType::bfloat16 : headway::DType::float32;
}

headway::SearchOptions search_options(const Json& request) {
  return {.beam = request.value("beam", std::int64_t{1}),
          .num_best = request.value("num_best", std::int64_t{1}),
          .length_penalty = request.value("length_penalty", 1.0),
          .max_length = request.value("max_length", std::int64_t{0}),
          .batch_size = request.value("batch_size", std::int64_t{32})};
}

Json search(const headway::TranslationModel& model, const Json& request) {
  const Rows sources = request.at("sources").get<Rows>();
  const Stopwatch watch;
  const auto found = headway::search(model, sources, search_options(request));
  Json answer = {{"hypotheses", Json::array()}};
  watch.write_to(answer);
  for (const auto& hypotheses : found) {
    Json list = Json::array();
    for (const auto& one : hypotheses) {
      list.push_back({{"tokens", one.tokens}, {"score", one.score}, {"complete", one.complete}});
    }
    answer["hypotheses"].push_back(list);
  }
  return answer;
}

Json logits(const headway::TranslationModel& model, const Json& request) {
  const headway::NoGradGuard guard;
  const auto lengths = request.at("lengths").get<std::vector<std::int64_t>>();
  const auto result = model.forward({.source = tensor_of(request.at("source").get<Rows>()),
                                     .source_lengths = lengths,
                                     .target = tensor_of(request.at("target").get<Rows>())});
  return {{"logits", result.logits.to_vector()}};
}

class Session {
 public:
  Session(const std::string& directory, headway::Device device, headway::DType dtype)
      : directory_(directory),
        device_(device),
        dtype_(dtype),
        model_(headway::TranslationModel::load(directory,
                                               dtype == headway::DType::int8 ? dtype : headway::DType::float32)) {
    model_.eval();
    if (dtype != headway::DType::int8) model_.to(dtype);
    model_.to(device);
  }

  Json answer(const Json& request) {
    if (request.contains("sources")) return search(model_, request);
    if (request.contains("source")) return logits(model_, request);
    if (request.contains("texts")) return translate(request);
    model_.save(request.at("save").get<std::string>(), dtype_of(request.value("dtype", "float32")));
    return {{"saved", request.at("save")}};
  }

 private:
  Json translate(const Json& request) {
    if (!translator_) translator_ = std::make_unique<headway::Translator>(directory_, device_, dtype_);
    const auto texts = request.at("texts").get<std::vector<std::string>>();
    const Stopwatch watch;
    const auto found =
        translator_->translate(texts, {.search = search_options(request), .to = request.value("to", "")});
    Json answer = {{"translations", Json::array()}};
    watch.write_to(answer);
    for (const auto& one : found) answer["translations"].push_back(one.text);
    return answer;
  }

  std::string directory_;
  headway::Device device_;
  headway::DType dtype_;
  headway::TranslationModel model_;
  std::unique_ptr<headway::Translator> translator_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "usage: translate_tokens MODEL_DIRECTORY [THREADS [DEVICE [DTYPE]]]\n";
    return 2;
  }
  try {
    if (count > 2) headway::set_num_threads(std::stoi(arguments[2]));
    Session session(arguments[1], headway::Device::parse(count > 3 ? arguments[3] : "cpu"),
                    dtype_of(count > 4 ? arguments[4] : "float32"));
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << session.answer(Json::parse(line)).dump() << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "translate_tokens: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
