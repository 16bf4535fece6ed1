// One translator and one generator on several threads, while the number of threads changes.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "headway/mask_filler.h"
#include "headway/threads.h"
#include "headway/tokenizer.h"
#include "headway/translator.h"
#include "support/cases.h"
#include "support/files.h"
#include "support/tiny_text_model.h"
#include "support/translator_model.h"

namespace {

using namespace headway_test;

constexpr int kThreads = 4;

// Calls `work`, which returns text, on several threads: all give what one gives.
template <typename Work>
void expect_same_text(const Work& work) {
  const int before = headway::num_threads();
  const std::string expected = work();
  const int calls = reduced() ? 3 : 20;
  std::atomic<int> running{kThreads}, wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < calls; ++call) wrong += work() != expected;
      --running;
    });
  }
  for (int count = 0; running.load() > 0; ++count) {
    headway::set_num_threads(1 + count % 4);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (std::thread& thread : threads) thread.join();
  headway::set_num_threads(before);
  EXPECT_EQ(wrong.load(), 0);
}

TEST(SharedTask, Translator) {
  const TemporaryDirectory directory;
  std::vector<std::string> lines;
  for (int i = 0; i < 60; ++i) lines.push_back("word" + std::to_string(i % 17) + " and another one here.");
  const headway::TranslationTokenizer tokenizer(
      headway::SentencePieces::train(lines, directory / "source.spm", {.vocab_size = 27, .byte_fallback = false}), {});
  const headway::TranslationModel model = random_model(tokenizer, 5);
  model.eval();
  const headway::Translator translator(model, tokenizer);
  for (const std::int64_t beam : {1, 3}) {
    headway::TranslateOptions options;
    options.search = {.beam = beam, .max_length = 8};
    expect_same_text([&] {
      std::string text;
      for (const auto& translation : translator.translate({"word1 and", "another one here.", "word7"}, options)) {
        text += translation.text + std::to_string(translation.scores.at(0));
      }
      return text;
    });
  }
}

TEST(SharedTask, MaskFiller) {
  const TemporaryDirectory directory;
  save_tiny(tiny_model({.architecture = "BertForMaskedLM"}), directory.path());
  const headway::MaskFiller filler(directory.path());
  expect_same_text([&] {
    std::string text;
    for (const headway::FilledText& filled : filler.fill({"the [MASK] sat", "ada [MASK] was in paris"})) {
      text += filled.masks.at(0).at(0).word + std::to_string(filled.masks.at(0).at(0).score);
    }
    return text;
  });
}

}  // namespace
