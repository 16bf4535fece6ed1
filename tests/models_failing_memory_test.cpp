// Memory that fails at every allocation in turn: model directories are loaded, masks filled, sentences translated.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "failing_memory/failing_memory.h"
#include "headway/mask_filler.h"
#include "headway/tokenizer.h"
#include "headway/translator.h"
#include "support/files.h"
#include "support/thread_count.h"
#include "support/tiny_text_model.h"
#include "support/translator_model.h"

namespace {

using namespace headway_test;

#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kThinned = 31;
#else
constexpr std::int64_t kThinned = 1;
#endif

std::string described(const std::vector<headway::FilledText>& filled) {
  std::string text;
  for (const headway::MaskWord& word : filled.at(0).masks.at(0)) text += word.word + std::to_string(word.score) + " ";
  return text;
}

TEST(FailingMemory, AModelDirectoryIsLoaded) {
  const TemporaryDirectory directory;
  save_tiny(tiny_model({.architecture = "BertForMaskedLM", .width = 8, .layers = 1}), directory.path());
  expect_survives_failing_memory(
      [&] { return described(headway::MaskFiller(directory.path()).fill({"the [MASK] sat"}, {.most = 2})); },
      3 * kThinned);
}

TEST(FailingMemory, AModelIsQuantizedWhileItIsLoaded) {
  const TemporaryDirectory directory;
  save_tiny(tiny_model({.architecture = "BertForMaskedLM", .width = 8, .layers = 1}), directory.path());
  expect_survives_failing_memory(
      [&] {
        const headway::MaskFiller filler(directory.path(), {.dtype = headway::DType::int8});
        return described(filler.fill({"the [MASK] sat"}, {.most = 2}));
      },
      3 * kThinned);
}

TEST(FailingMemory, AMaskIsFilled) {
  const TemporaryDirectory directory;
  save_tiny(tiny_model({.architecture = "BertForMaskedLM", .width = 8, .layers = 1}), directory.path());
  const headway::MaskFiller filler(directory.path());
  expect_survives_failing_memory(
      [&] {
        return described(filler.fill({"the [MASK] sat", "a [MASK]", "ada lovelace was in [MASK]."}));
      },
      kThinned);
}

class FailingTranslator : public testing::Test {
 protected:
  FailingTranslator() {
    std::vector<std::string> lines;
    for (int i = 0; i < 60; ++i) lines.push_back("word" + std::to_string(i % 17) + " and another one here.");
    const headway::TranslationTokenizer tokenizer(
        headway::SentencePieces::train(lines, directory_ / "source.spm", {.vocab_size = 27, .byte_fallback = false}),
        {});
    const headway::TranslationModel model = random_model(tokenizer, 5, {.d_model = 8, .feed_forward = 8});
    model.save(directory_.path());
    tokenizer.save(directory_.path());
  }

  static std::string translate(const headway::Translator& translator, std::int64_t beam) {
    headway::TranslateOptions options;
    options.search = {.beam = beam, .max_length = 4};
    std::string text;
    for (const headway::Translation& translation : translator.translate({"word1 and", "another one."}, options)) {
      text += translation.text + std::to_string(translation.scores.at(0)) + "\n";
    }
    return text;
  }

  TemporaryDirectory directory_;
};

TEST_F(FailingTranslator, IsLoaded) {
  expect_survives_failing_memory([&] { return translate(headway::Translator(directory_.path()), 1); }, 7 * kThinned);
}

TEST_F(FailingTranslator, Translates) {
  const headway::Translator translator(directory_.path());
  for (const int threads : {1, 4}) {
    const ThreadCount limit(threads);
    for (const std::int64_t beam : {1, 3}) {
      SCOPED_TRACE(beam);
      expect_survives_failing_memory([&] { return translate(translator, beam); }, threads * kThinned);
    }
  }
}

}  // namespace
