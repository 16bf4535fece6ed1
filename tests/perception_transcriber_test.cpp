#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headway/transcriber.h"
#include "perception/sound_windows.h"
#include "perception/word_times.h"
#include "support/files.h"
#include "support/fixtures.h"
#include "support/message_of.h"
#include "support/small_whisper.h"

namespace {

using namespace headway_test;
using headway::Sound;
using headway::Tensor;
using headway::Transcriber;
using headway::Transcript;

// Tones that change, with gaps between them.
Sound tones(double seconds, std::int64_t rate = 8000, float level = 0.3F) {
  std::vector<float> samples(static_cast<std::size_t>(seconds * static_cast<double>(rate)));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double time = static_cast<double>(i) / static_cast<double>(rate);
    const double pitch = 200.0 + 150.0 * std::floor(time * 3.0);
    const bool gap = std::fmod(time, 0.5) > 0.4;
    samples[i] = gap ? 0.0F : level * static_cast<float>(std::sin(6.2831853 * pitch * time));
  }
  return {.samples = Tensor::from(samples, {static_cast<std::int64_t>(samples.size())}), .rate = rate, .notes = {}};
}

Sound silence(double seconds) {
  return {.samples = Tensor::zeros({static_cast<std::int64_t>(seconds * 8000.0)}), .rate = 8000, .notes = {}};
}

class TranscriberTest : public testing::Test {
 protected:
  void SetUp() override { write_small_whisper(directory_.path()); }
  Transcriber transcriber() const { return Transcriber(directory_.path()); }
  TemporaryDirectory directory_;
};

TEST_F(TranscriberTest, words_have_times_in_order) {
  const Transcript heard = transcriber().transcribe(tones(1.5));
  ASSERT_FALSE(heard.words.empty());
  EXPECT_EQ(heard.seconds, 1.5);
  EXPECT_EQ(heard.notes.find("window"), std::string::npos) << heard.notes;
  std::string joined;
  double before = 0.0;
  for (const headway::TranscribedWord& word : heard.words) {
    EXPECT_GE(word.start, before);
    EXPECT_GE(word.end, word.start);
    EXPECT_LE(word.end, 1.5);
    before = word.start;
    joined += (joined.empty() ? "" : " ") + word.text;
  }
  EXPECT_EQ(joined, heard.text);
  EXPECT_LT(heard.score, 0.0);
}

TEST_F(TranscriberTest, a_batch_is_what_each_is_alone) {
  const Transcriber model = transcriber();
  const std::vector<Sound> sounds = {tones(1.5), silence(1.0), tones(0.6), tones(2.0)};
  const std::vector<Transcript> all = model.transcribe(sounds);
  for (std::size_t i = 0; i < sounds.size(); ++i) {
    const Transcript one = model.transcribe(sounds[i], {.batch_size = 1});
    EXPECT_EQ(one.text, all[i].text);
    EXPECT_EQ(one.tokens, all[i].tokens);
    EXPECT_EQ(one.notes, all[i].notes);
    ASSERT_EQ(one.words.size(), all[i].words.size());
    for (std::size_t w = 0; w < one.words.size(); ++w) EXPECT_EQ(one.words[w].start, all[i].words[w].start);
  }
}

TEST_F(TranscriberTest, silence_has_no_words) {
  const Transcriber model = transcriber();
  Sound faint = tones(1.0, 8000, 2e-5F);
  for (const Sound& sound : {silence(1.0), silence(5.0), faint}) {
    const Transcript heard = model.transcribe(sound, {.attention = true});
    EXPECT_EQ(heard.text, "");
    EXPECT_TRUE(heard.words.empty() && heard.tokens.empty() && heard.attention.empty());
    EXPECT_EQ(heard.notes, "silence");
  }
  EXPECT_EQ(model.transcribe(silence(0.0)).notes, "no samples");
}

TEST_F(TranscriberTest, a_long_sound_is_read_in_windows) {
  const Transcriber model = transcriber();
  const Transcript heard = model.transcribe(tones(9.0));
  EXPECT_NE(heard.notes.find("windows, cut where it is quiet"), std::string::npos) << heard.notes;
  double last = 0.0;
  for (const headway::TranscribedWord& word : heard.words) {
    EXPECT_GE(word.start, last);
    last = word.start;
  }
  EXPECT_GT(last, 6.0);
  EXPECT_LE(heard.words.back().end, 9.0);
}

TEST_F(TranscriberTest, rates_beams_and_lengths) {
  const Transcriber model = transcriber();
  EXPECT_EQ(model.rate(), 8000);
  EXPECT_EQ(model.window_seconds(), 2.0);
  EXPECT_EQ(model.transcribe(tones(1.0, 44100)).notes.find("resampled from 44100 Hz"), 0u);
  const Transcript beams = model.transcribe(tones(1.5), {.beams = 3});
  EXPECT_FALSE(beams.tokens.empty());
  const Transcript cut = model.transcribe(tones(1.5), {.max_new_tokens = 1});
  EXPECT_EQ(cut.tokens.size(), 1u);
}

TEST_F(TranscriberTest, attention_over_the_sound) {
  const Transcript heard = transcriber().transcribe(tones(1.2), {.attention = true});
  ASSERT_EQ(heard.attention.size(), 1u);
  const headway::AttentionPart& cross = heard.attention[0].parts.back();
  EXPECT_EQ(cross.name, "cross");
  EXPECT_EQ(cross.key_medium.kind, headway::MediumKind::sound);
  EXPECT_EQ(cross.keys.size(), 30u);  // 1.2 s of 0.04 s
  EXPECT_EQ(cross.queries.size(), heard.tokens.size());
  EXPECT_FALSE(cross.key_medium.png.empty());
}

TEST_F(TranscriberTest, bad_arguments) {
  const Transcriber model = transcriber();
  EXPECT_EQ(message_of([&] { model.transcribe(tones(1.0), {.batch_size = 0}); }),
            "transcribe: batch_size is 0, expected 1 or more");
  EXPECT_EQ(message_of([&] { model.transcribe(tones(1.0), {.language = "en"}); }),
            "transcribe: language is \"en\", and the model knows one alone");
  EXPECT_EQ(message_of([&] { model.transcribe(tones(1.0), {.task = "translate"}); }),
            "transcribe: task is \"translate\", and the model has one alone");
  EXPECT_EQ(message_of([&] { model.transcribe(Sound{}); }), "transcribe: samples are no float32 tensor [length]");
}

TEST(TranscriberFiles, prompts_of_multilingual_directories) {
  const TemporaryDirectory directory;
  write_small_whisper(directory.path(), {.generation = R"({"decoder_start_token_id": 10, "eos_token_id": 11,
      "max_length": 12, "lang_to_id": {"<|en|>": 2, "<|de|>": 3}, "task_to_id": {"transcribe": 4, "translate": 5},
      "no_timestamps_token_id": 6, "alignment_heads": [[1, 0]], "suppress_tokens": [0, 2, 3, 4, 5, 6],
      "begin_suppress_tokens": [11]})"});
  const Transcriber model(directory.path());
  EXPECT_EQ(model.languages(), (std::vector<std::string>{"de", "en"}));
  const Transcript german = model.transcribe(tones(1.5), {.language = "German"});
  EXPECT_EQ(german.language, "de");
  for (const std::int64_t token : german.tokens) EXPECT_TRUE(token == 1 || token > 6) << token;
  EXPECT_NE(german.tokens.front(), 11);
  const Transcript found = model.transcribe(tones(1.5));
  EXPECT_TRUE(found.language == "de" || found.language == "en");
  EXPECT_EQ(message_of([&] { model.transcribe(tones(1.0), {.language = "French"}); }),
            "transcribe: language is \"French\", expected one of de, en");
}

TEST(TranscriberFiles, bad_directories) {
  const auto message = [](const SmallWhisper& files) {
    const TemporaryDirectory directory;
    write_small_whisper(directory.path(), files);
    std::string text = message_of([&] { Transcriber unused(directory.path()); });
    const std::string path = directory.path().string();
    for (std::size_t at = text.find(path); at != std::string::npos; at = text.find(path)) text.erase(at, path.size());
    return text;
  };
  EXPECT_NE(message({.tokenizer = ""}), "");
  EXPECT_NE(message({.preprocessor = ""}).find("preprocessor_config.json"), std::string::npos);
  EXPECT_EQ(message({.preprocessor = R"({"feature_size": 40, "sampling_rate": 8000, "n_fft": 240, "hop_length": 160,
                                         "chunk_length": 2})"}),
            ": preprocessor_config.json has 40 bins, and the model reads 20");
  EXPECT_EQ(message({.preprocessor = R"({"feature_size": 20, "sampling_rate": 8000, "n_fft": 240, "hop_length": 160,
                                         "chunk_length": 3})"}),
            ": preprocessor_config.json has 150 frames, and the model has 50 positions, which are of two frames each");
  EXPECT_EQ(message({.generation = R"({"decoder_start_token_id": 12, "eos_token_id": 11})"}),
            "/generation_config.json: decoder_start_token_id has 12, expected a token from 0 to 11");
  EXPECT_EQ(message({.generation = R"({"decoder_start_token_id": 10, "alignment_heads": [[2, 0]]})"}),
            "/generation_config.json: alignment_heads has [2,0], expected a layer of 2 and a head of it");
}

// The model that comes with Headway, where the sources are at hand.
TEST(SpokenDigits, three_digits) {
  const std::filesystem::path root = std::filesystem::path(headway_test::fixture_directory()) / "../..";
  const std::filesystem::path model = root / "models/spoken-digits";
  if (!std::filesystem::exists(model / "model.safetensors")) GTEST_SKIP() << model << " is not there";
  const Transcriber transcriber(model);
  const Transcript heard = transcriber.transcribe(root / "examples/speech/samples/three-digits.wav");
  EXPECT_EQ(heard.text, "seven zero four");
  ASSERT_EQ(heard.words.size(), 3u);
  EXPECT_EQ(heard.words[1].text, "zero");
  EXPECT_GT(heard.words[1].start, 0.4);
  EXPECT_LT(heard.words[1].start, heard.words[2].start);
  EXPECT_LT(heard.words[2].start, heard.seconds - 0.3);

  const Sound sound = headway::read_sound(root / "examples/speech/samples/three-digits.wav");
  const Sound moment = {.samples = sound.samples.slice(0, 4000, 4080), .rate = sound.rate, .notes = {}};  // 10 ms
  EXPECT_EQ(transcriber.transcribe(moment).text, "");
  EXPECT_EQ(transcriber.transcribe(moment).notes, "no words were heard");
}

TEST(SoundWindows, are_cut_where_it_is_quiet) {
  std::vector<float> samples(50000, 0.5F);
  for (std::size_t i = 13800; i < 14800; ++i) samples[i] = 0.0F;  // in the last quarter of 16000
  const Tensor sound = Tensor::from(samples, {50000});
  const auto windows = headway::internal::sound_windows(sound, 8000, 16000);
  ASSERT_GE(windows.size(), 4u);
  EXPECT_GE(windows[0].end, 13800 + 400);
  EXPECT_LE(windows[0].end, 14800 - 400);
  std::int64_t end = 0;
  for (const headway::internal::SoundWindow& window : windows) {
    EXPECT_EQ(window.begin, end);
    EXPECT_LE(window.length(), 16000);
    EXPECT_FALSE(window.silent);
    end = window.end;
  }
  EXPECT_EQ(end, 50000);
}

TEST(SoundWindows, leave_silence_out) {
  std::vector<float> samples(80000, 0.0F);
  for (std::size_t i = 40000; i < 48000; ++i) samples[i] = 0.5F;
  const auto windows = headway::internal::sound_windows(Tensor::from(samples, {80000}), 8000, 16000);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].begin, 38000);
  EXPECT_EQ(windows[0].end, 50000);
  const auto silent = headway::internal::sound_windows(Tensor::zeros({80000}), 8000, 16000);
  ASSERT_EQ(silent.size(), 1u);
  EXPECT_TRUE(silent[0].silent);
}

TEST(WordTimes, tokens_begin_where_they_look) {
  // [heads, tokens, positions]: token i looks at positions 4 i .. 4 i + 3.
  Tensor weights = Tensor::full({2, 3, 12}, 0.01);
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t position = 0; position < 12; ++position) {
      weights.data<float>()[head * 36 + position / 4 * 12 + position] = 0.25F;
    }
  }
  const Tensor scores = headway::internal::alignment_scores(weights, 3);
  EXPECT_EQ(headway::internal::token_starts(scores), (std::vector<std::int64_t>{0, 4, 8}));
  // More tokens than positions: several begin at one.
  const Tensor narrow = headway::internal::alignment_scores(Tensor::full({1, 3, 1}, 1.0), 7);
  EXPECT_EQ(headway::internal::token_starts(narrow), (std::vector<std::int64_t>{0, 0, 0}));
}

}  // namespace
