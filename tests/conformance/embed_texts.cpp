// Drives a text encoder from a script: a request per line on standard input, an answer per line, both JSON.
//   embed_texts MODEL_DIRECTORY [THREADS [DEVICE [DTYPE]]]
// {"texts": ["..."], "batch_tokens": 0} -> {"seconds": s, "processor_seconds": s, "vectors": [[x]]}
#include <chrono>
#include <ctime>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headway/error.h"
#include "headway/text_encoder.h"
#include "headway/threads.h"

namespace {

using Json = nlohmann::json;

Json embed(const headway::TextEncoder& encoder, const Json& request) {
  const auto texts = request.at("texts").get<std::vector<std::string>>();
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t processor_start = std::clock();
  const headway::Tensor vectors =
      encoder.embed(texts, {.batch_tokens = request.value("batch_tokens", std::int64_t{0})});
  Json answer = Json::object();
  answer["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  answer["processor_seconds"] = static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC;
  const float* row = vectors.data<float>();
  for (std::size_t i = 0; i < texts.size(); ++i, row += encoder.width()) {
    answer["vectors"].push_back(std::vector<float>(row, row + encoder.width()));
  }
  return answer;
}

headway::DType dtype_named(const std::string& name) {
  for (const auto dtype : {headway::DType::float32, headway::DType::bfloat16, headway::DType::int8}) {
    if (headway::dtype_name(dtype) == name) return dtype;
  }
  throw headway::Error("the dtype is " + name + ", expected float32, bfloat16 or int8");
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || count > 5) {
    std::cerr << "usage: embed_texts MODEL_DIRECTORY [THREADS [DEVICE [DTYPE]]]\n";
    return 2;
  }
  try {
    if (count > 2) headway::set_num_threads(std::stoi(arguments[2]));
    const headway::Device device = count > 3 ? headway::Device::parse(arguments[3]) : headway::Device::cpu();
    headway::TaskOptions options = {.device = device};
    if (count > 4) options.dtype = dtype_named(arguments[4]);
    const headway::TextEncoder encoder(arguments[1], options);
    for (std::string line; std::getline(std::cin, line);) {
      std::cout << embed(encoder, Json::parse(line)).dump() << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "embed_texts: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
