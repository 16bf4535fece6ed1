// Generated tokens beside the modules' own logits, for every family: the packed step, prompts, caches, beams.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "generate/beam.h"
#include "headway/autograd.h"
#include "headway/device.h"
#include "headway/ops.h"
#include "headway/text_generator.h"
#include "headway/text_to_text.h"
#include "headway/threads.h"
#include "support/message_of.h"

namespace {

using headway::DType;
using headway::GeneratedText;
using headway::GenerateOptions;
using headway::Tensor;
using headway::TextGenerator;
using headway::TextToText;
using headway::TransformerModel;
using headway_test::message_of;
using Ids = std::vector<std::int64_t>;

struct FamilyCase {
  const char* name;
  const char* config;
};

// Small models with every option that their family has; large initial values, so that tokens differ.
const std::vector<FamilyCase>& decoders() {
  static const std::vector<FamilyCase> kAll = {
      {"gpt2",
       R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 61, "n_embd": 24, "n_head": 3,
        "n_layer": 2, "n_positions": 64, "initializer_range": 0.4})"},
      {"llama", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 61, "hidden_size": 32,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3, "intermediate_size": 40,
        "max_position_embeddings": 128, "initializer_range": 0.4, "attention_bias": true, "mlp_bias": true,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}})"},
      {"yarn", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 61, "hidden_size": 32,
        "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 40, "max_position_embeddings": 48,
        "initializer_range": 0.4, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 12}})"},
      {"mistral", R"({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "vocab_size": 61,
        "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 1, "num_hidden_layers": 2,
        "intermediate_size": 40, "max_position_embeddings": 128, "sliding_window": 6, "initializer_range": 0.4})"},
      {"qwen2", R"({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 61, "hidden_size": 32,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 40,
        "max_position_embeddings": 128, "tie_word_embeddings": true, "initializer_range": 0.4})"},
      {"qwen3", R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 61, "hidden_size": 32,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "num_hidden_layers": 2,
        "intermediate_size": 40, "max_position_embeddings": 128, "initializer_range": 0.4})"},
      {"gemma2",
       R"({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "vocab_size": 61, "hidden_size": 32,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10, "num_hidden_layers": 4,
        "intermediate_size": 40, "max_position_embeddings": 128, "sliding_window": 5, "query_pre_attn_scalar": 10,
        "attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0, "initializer_range": 0.4})"},
      {"gemma3", R"({"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "vocab_size": 61,
        "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "num_hidden_layers": 7,
        "intermediate_size": 40, "max_position_embeddings": 128, "sliding_window": 5, "query_pre_attn_scalar": 12,
        "initializer_range": 0.4})"},
      {"phi3", R"({"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "vocab_size": 61, "hidden_size": 32,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 40,
        "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "initializer_range": 0.4})"},
      {"phi3 long", R"({"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "vocab_size": 61, "hidden_size": 32,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 40,
        "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "initializer_range": 0.4,
        "original_max_position_embeddings": 12, "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [1.5, 2.0, 3.0, 4.0]}})"},
  };
  return kAll;
}

const std::vector<FamilyCase>& encoder_decoders() {
  static const std::vector<FamilyCase> kAll = {
      {"t5", R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 61, "d_model": 24,
        "num_heads": 3, "d_kv": 10, "num_layers": 2, "num_decoder_layers": 3, "d_ff": 40, "feed_forward_proj":
        "gated-gelu", "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10,
        "tie_word_embeddings": true, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
        "initializer_factor": 3.0})"},
      {"bart", R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"], "vocab_size": 61,
        "d_model": 24, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
        "init_std": 0.4, "decoder_start_token_id": 2, "eos_token_id": 2, "bos_token_id": 0, "pad_token_id": 1,
        "forced_eos_token_id": null})"},
      {"pegasus", R"({"model_type": "pegasus", "architectures": ["PegasusForConditionalGeneration"], "vocab_size": 61,
        "d_model": 24, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
        "init_std": 0.4, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
        "forced_eos_token_id": null})"},
  };
  return kAll;
}

TransformerModel make_model(const FamilyCase& family, DType dtype = DType::float32) {
  TransformerModel model = TransformerModel::from_config(family.config, dtype);
  model.eval();
  return model;
}

Ids ids_of(std::int64_t count, std::int64_t first) {
  Ids ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(3 + (first + 7 * i) % 57);
  return ids;
}

struct Written {
  Ids tokens;
  std::vector<double> log_probabilities;
};

// Greedy tokens by the modules, with their cache.
Written by_modules(const TransformerModel& model, const Ids& prompt, std::int64_t count, const Ids& source = {}) {
  const headway::NoGradGuard guard;
  headway::ModelCache cache;
  Tensor memory;
  if (!source.empty()) {
    memory = model.encode({.tokens = Tensor::from(source, {1, static_cast<std::int64_t>(source.size())})}).hidden;
  }
  Written written;
  Ids next = prompt;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto length = static_cast<std::int64_t>(next.size());
    const Tensor logits = model.decode({.tokens = Tensor::from(next, {1, length})}, cache, memory).logits;
    const Tensor last = log_softmax(logits.select(0, 0).select(0, length - 1).to(DType::float32));
    const auto token = static_cast<std::int64_t>(argmax(last).item());
    written.tokens.push_back(token);
    written.log_probabilities.push_back(last.at({token}));
    next = {token};
  }
  return written;
}

void expect_same(const GeneratedText& found, const Written& expected, double tolerance = 2e-4) {
  EXPECT_EQ(found.tokens, expected.tokens);
  ASSERT_EQ(found.log_probabilities.size(), expected.log_probabilities.size());
  for (std::size_t i = 0; i < expected.log_probabilities.size(); ++i) {
    ASSERT_NEAR(found.log_probabilities[i], expected.log_probabilities[i], tolerance) << i;
  }
}

// Prompts of different lengths in one batch, each as the modules continue it alone.
TEST(GenerateText, DecodersOfEveryFamilyFollowTheirModules) {
  for (const FamilyCase& family : decoders()) {
    SCOPED_TRACE(family.name);
    const TransformerModel model = make_model(family);
    const TextGenerator generator(model);
    const std::vector<Ids> prompts = {ids_of(5, 1), ids_of(1, 2), ids_of(11, 3), ids_of(2, 4)};
    const auto found = generator.generate(prompts, {.max_new_tokens = 20, .ignore_end = true});
    ASSERT_EQ(found.size(), prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      expect_same(found[i].front(), by_modules(model, prompts[i], 20));
      EXPECT_EQ(found[i].front().reason, headway::EndReason::length);
      EXPECT_EQ(found[i].front().prompt_tokens, static_cast<std::int64_t>(prompts[i].size()));
    }
  }
}

TEST(GenerateText, EncoderDecodersOfEveryFamilyFollowTheirModules) {
  for (const FamilyCase& family : encoder_decoders()) {
    SCOPED_TRACE(family.name);
    const TransformerModel model = make_model(family);
    const TextToText writer(model);
    const std::vector<Ids> sources = {ids_of(9, 1), ids_of(3, 2), ids_of(1, 5)};
    const auto found = writer.run(sources, {.generate = {.max_new_tokens = 16, .ignore_end = true}});
    for (std::size_t i = 0; i < sources.size(); ++i) {
      expect_same(found[i].best.front(), by_modules(model, {*model.options().decoder_start_id}, 16, sources[i]));
    }
  }
}

TEST(GenerateText, SixteenBitsOnTheCpu) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const FamilyCase& family : {decoders()[0], decoders()[1], decoders()[8]}) {
      SCOPED_TRACE(family.name);
      const TransformerModel model = make_model(family, dtype);
      const TextGenerator generator(model);
      const GeneratedText found = generator.generate(ids_of(7, 1), {.max_new_tokens = 1});
      const Written expected = by_modules(model, ids_of(7, 1), 1);
      ASSERT_NEAR(found.log_probabilities[0], expected.log_probabilities[0], 0.3);
    }
  }
}

// Prompts longer than one pass, which are cut, and windows that begin inside them.
TEST(GenerateText, LongPrompts) {
  const TransformerModel model = make_model(
      {"long",
       R"({"model_type": "mistral", "architectures": ["MistralForCausalLM"], "vocab_size": 61, "hidden_size": 16,
        "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2, "intermediate_size": 24,
        "max_position_embeddings": 4096, "sliding_window": 700, "initializer_range": 0.4})"});
  const TextGenerator generator(model);
  const std::vector<Ids> prompts = {ids_of(40, 5), ids_of(2500, 1), ids_of(700, 2)};
  const auto found = generator.generate(prompts, {.max_new_tokens = 5, .ignore_end = true});
  for (std::size_t i = 0; i < prompts.size(); ++i) expect_same(found[i].front(), by_modules(model, prompts[i], 5));
}

// Beams by the modules: every hypothesis computed from its beginning.
std::vector<headway::internal::Generated> beams_by_modules(const TransformerModel& model, const Ids& prompt,
                                                           const headway::internal::BeamOptions& options) {
  const headway::NoGradGuard guard;
  headway::internal::BeamSearch search(options);
  headway::internal::BestCandidates best(headway::internal::candidates_of(options));
  while (!search.done()) {
    best.clear();
    for (std::size_t beam = 0; beam < search.scores().size(); ++beam) {
      Ids all = prompt;
      all.insert(all.end(), search.so_far()[beam].begin(), search.so_far()[beam].end());
      const auto length = static_cast<std::int64_t>(all.size());
      const Tensor logits = model.forward({.tokens = Tensor::from(all, {1, length})}).logits;
      const std::vector<double> scores = log_softmax(logits.select(0, 0).select(0, length - 1)).to_vector();
      for (std::size_t token = 0; token < scores.size(); ++token) {
        best.add({search.scores()[beam] + scores[token], static_cast<std::int64_t>(beam),
                  static_cast<std::int64_t>(token), scores[token]});
      }
    }
    search.advance(best.sorted());
  }
  return search.best(options.beam);
}

TEST(GenerateText, BeamsShareTheirPast) {
  using headway::EarlyStopping;
  for (const FamilyCase& family : {decoders()[1], decoders()[0], decoders()[6]}) {
    for (const EarlyStopping early : {EarlyStopping::heuristic, EarlyStopping::first, EarlyStopping::never}) {
      SCOPED_TRACE(family.name);
      const TransformerModel model = make_model(family);
      const TextGenerator generator(model);
      const Ids ends = {5, 17};
      const std::vector<Ids> prompts = {ids_of(4, 1), ids_of(9, 2), ids_of(1, 3)};
      const auto found = generator.generate(prompts, {.max_new_tokens = 10,
                                                      .stop_ids = ends,
                                                      .ignore_end = true,
                                                      .beams = 3,
                                                      .num_return = 3,
                                                      .length_penalty = 0.7,
                                                      .early_stopping = early});
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        const auto expected = beams_by_modules(
            model, prompts[i],
            {.beam = 3, .length_penalty = 0.7, .early_stopping = early, .max_length = 10, .end_ids = ends});
        ASSERT_EQ(found[i].size(), expected.size());
        for (std::size_t n = 0; n < expected.size(); ++n) {
          EXPECT_EQ(found[i][n].tokens, expected[n].tokens);
          EXPECT_NEAR(found[i][n].score, expected[n].score, 1e-3);
        }
      }
    }
  }
}

TEST(GenerateText, ASeedGivesTheSameTokensEverywhere) {
  const TextGenerator generator(make_model(decoders()[1]));
  const std::vector<Ids> prompts = {ids_of(4, 1), ids_of(9, 2), ids_of(1, 3), ids_of(6, 4)};
  const GenerateOptions options = {
      .max_new_tokens = 12, .temperature = 1.5, .top_p = 0.9, .ignore_end = true, .seed = 7};
  const int threads = headway::num_threads();
  headway::set_num_threads(1);
  const auto all = generator.generate(prompts, options);
  headway::set_num_threads(2);
  GenerateOptions smaller = options;
  smaller.batch_size = 1;
  const auto one_by_one = generator.generate(prompts, smaller);
  headway::set_num_threads(threads);
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(all[i][0].tokens, one_by_one[i][0].tokens);
  // Rules that do nothing take the other way through the host.
  GenerateOptions by_host = options;
  by_host.logit_bias = {{3, 0.0}};
  EXPECT_EQ(generator.generate(prompts, by_host)[1][0].tokens, all[1][0].tokens);
  GenerateOptions other = options;
  other.seed = 8;
  EXPECT_NE(generator.generate(prompts, other)[0][0].tokens, all[0][0].tokens);
}

TEST(GenerateText, SeveralDrawnTextsOfOnePrompt) {
  const TextGenerator generator(make_model(decoders()[1]));
  const auto texts =
      generator.generate(std::vector<Ids>{ids_of(6, 1)},
                         {.max_new_tokens = 8, .temperature = 2.0, .ignore_end = true, .num_return = 5})[0];
  ASSERT_EQ(texts.size(), 5U);
  EXPECT_NE(texts[0].tokens, texts[1].tokens);
  EXPECT_EQ(generator.generate(ids_of(6, 1), {.max_new_tokens = 8, .temperature = 0.0}).tokens,
            generator.generate(ids_of(6, 1), {.max_new_tokens = 8}).tokens);
  // Each is what its own past leads to: its log-probabilities are those of the modules.
  for (const GeneratedText& text : texts) {
    Ids all = ids_of(6, 1);
    all.insert(all.end(), text.tokens.begin(), text.tokens.end());
    const headway::TextScore score = generator.score(all);
    for (std::size_t i = 0; i < text.tokens.size(); ++i) {
      EXPECT_NEAR(score.log_probabilities[5 + i], text.log_probabilities[i], 2e-4);
    }
  }
}

TEST(GenerateText, APromptThatWasReadBefore) {
  const TransformerModel model = make_model(decoders()[1]);
  const TextGenerator generator(model);
  const Ids common = ids_of(13, 1);
  const headway::PromptCache prefix = generator.read_prompt(common);
  EXPECT_EQ(prefix.tokens(), common);
  const std::vector<Ids> rests = {ids_of(4, 9), {}, ids_of(1, 3)};
  const auto found = generator.generate(rests, {.max_new_tokens = 9, .ignore_end = true, .prefix = &prefix});
  for (std::size_t i = 0; i < rests.size(); ++i) {
    Ids all = common;
    all.insert(all.end(), rests[i].begin(), rests[i].end());
    expect_same(found[i].front(), by_modules(model, all, 9));
  }
  const TextGenerator other(make_model(decoders()[0]));
  EXPECT_EQ(message_of([&] { other.generate(rests[0], {.prefix = &prefix}); }),
            "generate: the prefix was read by another model, or before this one changed");
}

TEST(GenerateText, AChangedModelIsSeen) {
  const TransformerModel model = make_model(decoders()[0]);
  const TextGenerator generator(model);
  const Ids prompt = ids_of(4, 1);
  generator.generate(prompt, {.max_new_tokens = 2});
  {
    const headway::NoGradGuard guard;
    for (const auto& [name, tensor] : model.state_dict()) Tensor(tensor).copy_from(scale(tensor, 0.5));
  }
  expect_same(generator.generate(prompt, {.max_new_tokens = 6, .ignore_end = true}), by_modules(model, prompt, 6));
}

TEST(GenerateText, ScoresOfGivenTextByWindows) {
  const TransformerModel model = make_model(decoders()[0]);
  const TextGenerator generator(model);
  const Ids text = ids_of(100, 1);
  const headway::NoGradGuard guard;
  const auto log_probabilities = [&](std::int64_t begin, std::int64_t end) {
    const Tensor ids = Tensor::from(text.data() + begin, {1, end - begin});
    return log_softmax(model.forward({.tokens = ids}).logits.select(0, 0));
  };
  const headway::TextScore score = generator.score(text, {.window = 40, .stride = 25});
  ASSERT_EQ(score.log_probabilities.size(), 99U);
  const Tensor first = log_probabilities(0, 40), second = log_probabilities(25, 65);
  EXPECT_NEAR(score.log_probabilities[38], first.at({38, text[39]}), 1e-4);
  EXPECT_NEAR(score.log_probabilities[39], second.at({14, text[40]}), 1e-4);
  double sum = 0;
  for (const double value : score.log_probabilities) sum += value;
  EXPECT_NEAR(score.log_probability, sum, 1e-9);
  EXPECT_NEAR(score.perplexity, std::exp(-sum / 99), 1e-6);
  EXPECT_EQ(message_of([&] { generator.score(Ids{4}); }), "score: the text has 1 tokens, expected two or more");
  EXPECT_EQ(message_of([&] { generator.score(text, {.window = 65}); }), "score: window is 65, expected 2 to 64");
}

TEST(GenerateText, AttentionOfWhatIsGenerated) {
  for (const FamilyCase& family : {decoders()[0], decoders()[1], decoders()[3], decoders()[6]}) {
    SCOPED_TRACE(family.name);
    const TransformerModel model = make_model(family);
    const TextGenerator generator(model);
    const Ids prompt = ids_of(9, 1);
    const GeneratedText text =
        generator.generate(prompt, {.max_new_tokens = 4, .ignore_end = true, .weights = headway::Weights::per_head});
    EXPECT_EQ(text.tokens, generator.generate(prompt, {.max_new_tokens = 4, .ignore_end = true}).tokens);
    ASSERT_EQ(text.attention.size(), 4U);
    Ids all = prompt;
    all.insert(all.end(), text.tokens.begin(), text.tokens.end() - 1);
    const headway::NoGradGuard guard;
    const auto length = static_cast<std::int64_t>(all.size());
    const headway::ModelResult whole =
        model.forward({.tokens = Tensor::from(all, {1, length}), .weights = headway::Weights::per_head});
    const auto check = [&](const headway::GeneratedAttention& found) {
      ASSERT_EQ(found.self.size(), whole.decoder_weights.size());
      for (std::size_t layer = 0; layer < found.self.size(); ++layer) {
        const Tensor row = whole.decoder_weights[layer].select(0, 0).select(1, found.position);
        const std::vector<double> a = found.self[layer].to_vector();
        const std::vector<double> b = row.slice(1, 0, found.position + 1).contiguous().to_vector();
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4);
      }
    };
    for (const headway::GeneratedAttention& step : text.attention) check(step);
    EXPECT_EQ(text.attention[2].position, 10);
    check(generator.attention(all, 5));
    EXPECT_EQ(generator.attention(all, 5, headway::Weights::mean).self[0].shape(), headway::Shape({6}));
  }
}

TEST(GenerateText, AttentionOfEncoderDecoders) {
  const TransformerModel model = make_model(encoder_decoders()[0]);
  const TextToText writer(model);
  std::vector<headway::GeneratedAttention> steps;
  writer.run(std::vector<Ids>{ids_of(7, 1)},
             {.generate = {.max_new_tokens = 3,
                           .ignore_end = true,
                           .weights = headway::Weights::mean,
                           .on_attention = [&](const auto& attention) { steps.push_back(attention); }}});
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[2].self[0].shape(), headway::Shape({3}));
  EXPECT_EQ(steps[2].cross[2].shape(), headway::Shape({7}));
  EXPECT_NEAR(sum(steps[1].cross[1]).item(), 1.0, 1e-5);
}

// The same tokens on a device, whose buffers the host may not touch.
TEST(GenerateTextOnADevice, FindsWhatTheCpuFinds) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const std::vector<Ids> prompts = {ids_of(5, 1), ids_of(1, 2), ids_of(11, 3)};
  const std::vector<GenerateOptions> ways = {
      {.max_new_tokens = 9, .ignore_end = true},
      {.max_new_tokens = 9,
       .temperature = 1.2,
       .top_k = 20,
       .top_p = 0.9,
       .ignore_end = true,
       .seed = 3,
       .num_return = 2},
      {.max_new_tokens = 9, .stop_ids = {7}, .ignore_end = true, .beams = 3},
      {.max_new_tokens = 9, .repetition_penalty = 1.3, .ignore_end = true, .beams = 2},
      {.max_new_tokens = 9, .no_repeat_ngram = 2, .ignore_end = true, .weights = headway::Weights::per_head},
  };
  for (const FamilyCase& family : {decoders()[0], decoders()[1], decoders()[6], decoders()[9]}) {
    SCOPED_TRACE(family.name);
    const TransformerModel model = make_model(family);
    std::vector<std::vector<Ids>> expected;
    for (const GenerateOptions& options : ways) {
      std::vector<Ids>& tokens = expected.emplace_back();
      for (const auto& texts : TextGenerator(model).generate(prompts, options)) tokens.push_back(texts.front().tokens);
    }
    model.to(headway::Device::cuda());
    const TextGenerator generator(model);
    for (std::size_t way = 0; way < ways.size(); ++way) {
      SCOPED_TRACE(way);
      const auto found = generator.generate(prompts, ways[way]);
      for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(found[i].front().tokens, expected[way][i]);
    }
    const headway::PromptCache prefix = generator.read_prompt(ids_of(5, 1));
    EXPECT_EQ(generator.generate(Ids{}, {.max_new_tokens = 9, .ignore_end = true, .prefix = &prefix}).tokens,
              expected[0][0]);
  }
}

TEST(GenerateTextOnADevice, FollowsEncoderDecoders) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  for (const FamilyCase& family : encoder_decoders()) {
    SCOPED_TRACE(family.name);
    const TransformerModel model = make_model(family);
    const std::vector<Ids> sources = {ids_of(9, 1), ids_of(3, 2)};
    const headway::TextToTextOptions options = {.generate = {.max_new_tokens = 8, .ignore_end = true, .beams = 2}};
    const auto expected = TextToText(model).run(sources, options);
    model.to(headway::Device::cuda());
    const auto found = TextToText(model).run(sources, options);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(found[i].best.front().tokens, expected[i].best.front().tokens);
  }
}

TEST(GenerateText, BadInputIsNamed) {
  const TextGenerator generator(make_model(decoders()[0]));
  const auto message = [&](const Ids& prompt, const GenerateOptions& options) {
    return message_of([&] { generator.generate(prompt, options); });
  };
  EXPECT_EQ(message({}, {}), "generate: prompt 0 has no tokens");
  EXPECT_EQ(message({3, 61}, {}), "generate: prompt 0 has id 61, expected 0 to 60");
  EXPECT_EQ(message(ids_of(65, 1), {}), "generate: prompt 0 has 65 tokens, and the model has 64 positions");
  EXPECT_EQ(message({3}, {.temperature = -1.0}), "generate: temperature is -1, expected 0 or more");
  EXPECT_EQ(message({3}, {.top_p = 1.5}), "generate: top_p is 1.5, expected more than 0, at most 1");
  EXPECT_EQ(message({3}, {.temperature = 1.0, .beams = 2}), "generate: beams is 2, expected 1 where tokens are drawn");
  EXPECT_EQ(message({3}, {.num_return = 2}),
            "generate: num_return is 2, expected at most beams, 1, where nothing is drawn");
  EXPECT_EQ(message({3}, {.stop = {"x"}}), "generate: stop is given, and the model has no tokenizer");
  EXPECT_EQ(message_of([&] { generator.generate("text"); }), "the model has no tokenizer, expected token ids");
  EXPECT_EQ(message_of([&] { TextToText(make_model(decoders()[0])); }),
            "the model of family gpt2 is not an encoder-decoder; decoders alone are run by TextGenerator");
  // The last position may be read, and one more token follows it.
  EXPECT_EQ(generator.generate(ids_of(64, 1), {.max_new_tokens = 9, .ignore_end = true}).tokens.size(), 1U);
}

}  // namespace
