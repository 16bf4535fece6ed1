// Generating with a Headway model on a GPU as a C interface, so that cuda_generate_bench.py can time it beside
// transformers in one process. On failure, functions return null or a negative number; cuda_generate_error() has the
// reason.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "guarded.h"
#include "headway/device.h"
#include "headway/error.h"
#include "headway/text_generator.h"

#define CUDA_GENERATE_API extern "C" __attribute__((visibility("default")))

struct CudaGenerate {
  headway::TextGenerator generator;
};

// What is generated.
struct CudaGenerateRequest {
  const std::int64_t* prompts;  // [batch, length]
  std::int64_t batch;
  std::int64_t length;
  std::int64_t new_tokens;
  std::int64_t* tokens;  // [batch, new_tokens]: the result
};

// Reads a model's directory.
CUDA_GENERATE_API CudaGenerate* cuda_generate_create(const char* directory) {
  CudaGenerate* made = nullptr;
  guarded([&] { made = new CudaGenerate{headway::TextGenerator(directory, {.device = headway::Device::cuda()})}; });
  return made;
}

// Continues the prompts with the most likely tokens, past end tokens too.
CUDA_GENERATE_API int cuda_generate_run(const CudaGenerate* generate, const CudaGenerateRequest* request) {
  return guarded([&] {
    std::vector<std::vector<std::int64_t>> prompts;
    for (std::int64_t i = 0; i < request->batch; ++i) {
      const std::int64_t* prompt = request->prompts + i * request->length;
      prompts.emplace_back(prompt, prompt + request->length);
    }
    const auto texts = generate->generator.generate(
        prompts,
        {.max_new_tokens = request->new_tokens, .temperature = 0.0, .ignore_end = true, .batch_size = request->batch});
    std::int64_t* to = request->tokens;
    for (const auto& text : texts) {
      const std::vector<std::int64_t>& tokens = text.front().tokens;
      if (static_cast<std::int64_t>(tokens.size()) != request->new_tokens) {
        throw headway::Error("cuda_generate_run: a text has " + std::to_string(tokens.size()) + " tokens");
      }
      to = std::copy(tokens.begin(), tokens.end(), to);
    }
  });
}

CUDA_GENERATE_API void cuda_generate_destroy(CudaGenerate* generate) { delete generate; }

CUDA_GENERATE_API const char* cuda_generate_error() { return last_error.c_str(); }
