// Generated text: pieces as they come, strings at which it ends, defaults of the model's directory.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/files.h"
#include "headway/text_generator.h"
#include "headway/text_to_text.h"
#include "support/message_of.h"
#include "tasks/generation_defaults.h"
#include "tasks/text_stream.h"

namespace {

using headway::GeneratedText;
using headway::TextGenerator;
using headway::TextTokenizer;
using headway::TransformerModel;
using headway::internal::TextStream;
using headway_test::message_of;
using Ids = std::vector<std::int64_t>;

// Bytes in GPT-2's spelling: "é" is two tokens.
TextTokenizer letters() {
  return TextTokenizer::from_json(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 0, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
              "vocab": {"<end>": 0, "a": 1, "b": 2, "c": 3, "Ġ": 4, "Ã": 5, "©": 6, "ab": 7, "bc": 8, "d": 9},
              "merges": ["a b", "b c"]}})");
}

struct Streamed {
  std::string text;
  std::vector<std::string> pieces;
  std::size_t taken = 0;  // tokens before it ended
};

Streamed streamed(const Ids& tokens, const std::vector<std::string>& stops) {
  Streamed result;
  TextStream stream(letters(), {}, stops, [&](std::string_view piece) { result.pieces.emplace_back(piece); });
  for (const std::int64_t token : tokens) {
    ++result.taken;
    if (stream.add(token)) break;
  }
  result.text = stream.finish();
  std::string joined;
  for (const std::string& piece : result.pieces) joined += piece;
  EXPECT_EQ(joined, result.text);
  return result;
}

TEST(TextStream, PiecesJoinToTheText) {
  const Streamed all = streamed({7, 4, 5, 6, 3}, {});
  EXPECT_EQ(all.text, "ab \u00e9c");
  for (const std::string& piece : all.pieces) EXPECT_NE(piece.front(), '\xA9');  // no half of a character
}

TEST(TextStream, EndsBeforeAStopStringAcrossTokens) {
  EXPECT_EQ(streamed({7, 3, 9}, {"bc"}).text, "a");
  EXPECT_EQ(streamed({7, 3, 9}, {"bc"}).taken, 2U);
  EXPECT_EQ(streamed({1, 7, 3, 9}, {"d", "bcd"}).text, "aa");
  EXPECT_EQ(streamed({1, 5, 6, 9}, {"\u00e9"}).text, "a");
  EXPECT_EQ(streamed({7, 7}, {"x"}).text, "abab");
}

TEST(TextStream, KeepsBackWhatMayBeAStopString) {
  const Streamed found = streamed({7, 7, 9}, {"abc"});
  EXPECT_EQ(found.text, "ababd");
  EXPECT_EQ(found.pieces, (std::vector<std::string>{"ab", "abd"}));
}

constexpr const char* kGpt = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 10,
  "n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 64, "initializer_range": 0.6, "eos_token_id": 0,
  "bos_token_id": 0})";

TextGenerator small_generator() {
  const TransformerModel model = TransformerModel::from_config(kGpt);
  model.eval();
  return TextGenerator(model, letters());
}

TEST(TextGenerator, StreamsWhatItReturns) {
  const TextGenerator generator = small_generator();
  std::string pieces;
  Ids tokens;
  const GeneratedText text = generator.generate("ab cab", {.max_new_tokens = 20,
                                                           .temperature = 1.0,
                                                           .seed = 3,
                                                           .on_text = [&](std::string_view piece) { pieces += piece; },
                                                           .on_token =
                                                               [&](std::int64_t token, double) {
                                                                 tokens.push_back(token);
                                                                 return true;
                                                               }});
  EXPECT_EQ(pieces, text.text);
  EXPECT_EQ(tokens, text.tokens);
  EXPECT_EQ(generator.generate("ab cab", {.max_new_tokens = 20, .temperature = 1.0, .seed = 3}).text, text.text);
}

TEST(TextGenerator, StopStringsEndEachTextOfABatch) {
  const TextGenerator generator = small_generator();
  const std::vector<std::string> prompts = {"ab", "c", "abcab", "bb"};
  const headway::GenerateOptions options = {.max_new_tokens = 30, .temperature = 1.0, .ignore_end = true, .seed = 5};
  const auto whole = generator.generate(prompts, options);
  headway::GenerateOptions stopping = options;
  stopping.stop = {"c"};
  const auto found = generator.generate(prompts, stopping);
  bool some_stop = false;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::string& text = whole[i][0].text;
    EXPECT_EQ(found[i][0].text, text.substr(0, text.find('c')));
    const bool stops = text.find('c') != std::string::npos;
    EXPECT_EQ(found[i][0].reason, stops ? headway::EndReason::stop_text : headway::EndReason::length);
    some_stop = some_stop || stops;
  }
  EXPECT_TRUE(some_stop);
  const auto beams = generator.generate(prompts, {.max_new_tokens = 12, .stop = {"a"}, .ignore_end = true, .beams = 3});
  for (const auto& texts : beams) EXPECT_EQ(texts[0].text.find('a'), std::string::npos);
}

TEST(TextGenerator, ACallbackEndsTheText) {
  const TextGenerator generator = small_generator();
  int calls = 0;
  const GeneratedText text = generator.generate(
      "ab", {.max_new_tokens = 20, .ignore_end = true, .on_token = [&](std::int64_t, double) { return ++calls < 4; }});
  EXPECT_EQ(text.tokens.size(), 4U);
}

TEST(TextGenerator, AnEmptyPromptBeginsWithTheFirstToken) {
  const TextGenerator generator = small_generator();
  EXPECT_EQ(generator.encode(""), Ids{0});
  EXPECT_EQ(generator.encode("abc"), (Ids{7, 3}));
  EXPECT_EQ(message_of([&] {
              generator.generate(std::vector<std::string>{"a", "b"}, {.on_text = [](std::string_view) {}});
            }),
            "generate: on_text or on_token is given for 2 prompts, 1 beams and 1 texts, expected one of each");
}

class ModelDirectory : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        std::filesystem::temp_directory_path() / ("headway-generator-" + std::to_string(::getpid()) + "-" +
                                                  testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
    TransformerModel::from_config(kGpt).save(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  headway::internal::GenerationDefaults defaults_of(const std::string& config) const {
    headway::internal::replace_file(directory_ / "generation_config.json", config);
    const TransformerModel model = TransformerModel::load(directory_);
    return headway::internal::generation_defaults(model.options(), model.config(), model.generation_config());
  }

  std::filesystem::path directory_;
};

TEST_F(ModelDirectory, DefaultsComeFromGenerationConfig) {
  const auto defaults = defaults_of(R"({"max_new_tokens": 7, "do_sample": true, "temperature": 0.6, "top_p": 0.9,
    "top_k": 5, "eos_token_id": [2, 3], "repetition_penalty": 1.2, "num_beams": 1, "early_stopping": "never",
    "bad_words_ids": [[4], [2]], "forced_bos_token_id": null})");
  const headway::internal::GenerationOptions options = headway::internal::resolved_options("f", {}, defaults);
  EXPECT_TRUE(options.samples);
  EXPECT_EQ(options.rule.temperature, 0.6);
  EXPECT_EQ(options.rule.top_k, 5);
  EXPECT_EQ(options.end_ids, (Ids{2, 3}));
  EXPECT_EQ(options.early_stopping, headway::EarlyStopping::never);
  EXPECT_EQ(options.rules.bias.size(), 1U);  // an end token is not a bad word
  EXPECT_FALSE(headway::internal::resolved_options("f", {.temperature = 0.0}, defaults).samples);
  EXPECT_EQ(headway::internal::most_new_tokens({}, defaults, 3, 64, 256), 7);
  EXPECT_EQ(headway::internal::most_new_tokens({.max_new_tokens = 100}, defaults, 3, 64, 256), 62);
  EXPECT_EQ(message_of([&] { defaults_of(R"({"top_k": "many"})"); }),
            "generation_config.json: top_k is \"many\", expected an integer");
}

TEST_F(ModelDirectory, WithoutATokenizerIdsAreTaken) {
  const TextGenerator generator(directory_);
  EXPECT_FALSE(generator.tokenizer().has_value());
  const GeneratedText text = generator.generate(Ids{3, 4}, {.max_new_tokens = 5, .ignore_end = true});
  EXPECT_EQ(text.tokens.size(), 5U);
  EXPECT_EQ(text.text, "");
}

}  // namespace
