// Generating on the GPU beside the CPU, with decoders of every family.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "headway/device.h"
#include "headway/random.h"
#include "headway/text_generator.h"
#include "headway/text_to_text.h"
#include "support/small_families.h"

namespace headway_test {
namespace {

using headway::Device;
using headway::DType;
using headway::GeneratedText;
using headway::GenerateOptions;
using headway::TextGenerator;
using headway::TextToText;
using headway::TransformerModel;
using Prompts = std::vector<std::vector<std::int64_t>>;

// Prompts of different lengths; 16 new tokens are far enough for windows to end.
const Prompts kPrompts = {{1, 5, 6}, {1}, {3, 4, 5, 6, 7, 8}, {9, 8}, {1, 5, 7}};

TransformerModel model_of(const std::string& config, DType dtype, Device device) {
  headway::set_random_seed(3);
  TransformerModel model = TransformerModel::from_config(config, dtype);
  model.eval();
  model.to(device);
  return model;
}

TextGenerator generator_of(const std::string& config, DType dtype, Device device) {
  return TextGenerator(model_of(config, dtype, device));
}

void expect_same(const std::vector<std::vector<GeneratedText>>& found,
                 const std::vector<std::vector<GeneratedText>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    for (std::size_t n = 0; n < found[i].size(); ++n) {
      EXPECT_EQ(found[i][n].tokens, expected[i][n].tokens) << "prompt " << i << ", text " << n;
      EXPECT_NEAR(found[i][n].score, expected[i][n].score, 1e-3);
    }
  }
}

TEST(CudaGenerate, FindsWhatTheCpuFinds) {
  for (const SmallFamily& family : small_families()) {
    if (family.is_encoder() || family.is_encoder_decoder()) continue;
    SCOPED_TRACE(family.name);
    const TextGenerator here = generator_of(family.config(), DType::float32, Device::cpu());
    const TextGenerator there = generator_of(family.config(), DType::float32, Device::cuda());
    const std::vector<GenerateOptions> options = {
        {.max_new_tokens = 16, .temperature = 0.0, .ignore_end = true},
        {.max_new_tokens = 16, .temperature = 0.0, .batch_size = 2},
        {.max_new_tokens = 16, .temperature = 0.8, .top_k = 10, .top_p = 0.9, .seed = 5, .num_return = 2},
        {.max_new_tokens = 12, .temperature = 0.0, .repetition_penalty = 1.3},
        {.max_new_tokens = 12, .temperature = 0.0, .beams = 3, .num_return = 2}};
    for (const GenerateOptions& one : options) expect_same(there.generate(kPrompts, one), here.generate(kPrompts, one));
  }
}

TEST(CudaGenerate, WritesWhatTheCpuWrites) {
  const Prompts sources = {{5, 6, 2}, {3, 4, 5, 6, 7, 8, 2}, {9, 2}};
  for (const SmallFamily& family : small_families()) {
    if (!family.is_encoder_decoder()) continue;
    SCOPED_TRACE(family.name);
    const TextToText here(model_of(family.config(), DType::float32, Device::cpu()));
    const TextToText there(model_of(family.config(), DType::float32, Device::cuda()));
    for (const std::int64_t beams : {1, 3}) {
      const headway::TextToTextOptions options = {.generate = {.max_new_tokens = 14, .beams = beams}};
      const auto found = there.run(sources, options), expected = here.run(sources, options);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        EXPECT_EQ(found[i].best[0].tokens, expected[i].best[0].tokens) << "source " << i << ", beams " << beams;
      }
    }
  }
}

// Weights of 16 bits: the kernels of few rows, overlapping in a recorded step, give the same tokens each time, whatever
// was generated before; the first token has the CPU's probability.
TEST(CudaGenerate, RepeatsItselfInSixteenBits) {
  const std::string config = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 1000,
      "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 8,
      "num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2})";
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    const TextGenerator here = generator_of(config, dtype, Device::cpu());
    const TextGenerator there = generator_of(config, dtype, Device::cuda());
    const GenerateOptions greedy = {.max_new_tokens = 120, .temperature = 0.0, .ignore_end = true};
    const auto first = there.generate(kPrompts, greedy), second = there.generate(kPrompts, greedy);
    there.generate(Prompts{{4, 5}}, {.max_new_tokens = 30, .temperature = 1.0, .seed = 1});
    const auto third = there.generate(kPrompts, greedy);
    const auto expected = here.generate(kPrompts, {.max_new_tokens = 1, .temperature = 0.0, .ignore_end = true});
    for (std::size_t i = 0; i < kPrompts.size(); ++i) {
      EXPECT_EQ(first[i][0].tokens, second[i][0].tokens) << "prompt " << i;
      EXPECT_EQ(first[i][0].tokens, third[i][0].tokens) << "prompt " << i;
      EXPECT_NEAR(first[i][0].log_probabilities[0], expected[i][0].log_probabilities[0], 0.05) << "prompt " << i;
    }
  }
}

}  // namespace
}  // namespace headway_test
