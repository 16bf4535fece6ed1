// Sounds: files of every depth and broken ones, other rates, Whisper's spectrogram.
#include <gtest/gtest.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "headway/audio.h"
#include "headway/error.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/thread_count.h"

// libsndfile 1.2 forgets what it allocated where the start of an Ogg file is refused.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libvorbis\nleak:libsndfile\n"; }

namespace {

using headway::LogMelOptions;
using headway::Sound;
using headway::Tensor;
using headway_test::contains;
using headway_test::message_of;

// A tone of 0.8 at most.
std::vector<float> tone(std::int64_t length, double cycles_of_sample = 0.01) {
  std::vector<float> samples(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<float>(0.8 * std::sin(2.0 * std::numbers::pi * cycles_of_sample * static_cast<double>(i)));
  }
  return samples;
}

// A file by libsndfile; values [frames, channels].
void write_sound(const std::filesystem::path& file, int format, int rate, int channels,
                 const std::vector<float>& values) {
  SF_INFO info = {};
  info.samplerate = rate;
  info.channels = channels;
  info.format = format;
  SNDFILE* const out = sf_open(file.c_str(), SFM_WRITE, &info);
  ASSERT_NE(out, nullptr) << sf_strerror(nullptr);
  const auto frames = static_cast<sf_count_t>(values.size()) / channels;
  EXPECT_EQ(sf_writef_float(out, values.data(), frames), frames);
  sf_close(out);
}

void append(std::string& bytes, std::int64_t number, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
}

// A WAV file byte by byte; `size` is what its header says about the data, -1 for the truth.
std::string wav(int kind, int bits, int channels, const std::string& data, std::int64_t size = -1) {
  std::string bytes = "RIFF";
  append(bytes, 36 + static_cast<std::int64_t>(data.size()), 4);
  bytes += "WAVEfmt ";
  append(bytes, 16, 4);
  append(bytes, kind, 2);
  append(bytes, channels, 2);
  append(bytes, 8000, 4);
  append(bytes, 8000 * channels * bits / 8, 4);
  append(bytes, channels * bits / 8, 2);
  append(bytes, bits, 2);
  bytes += "data";
  append(bytes, size < 0 ? static_cast<std::int64_t>(data.size()) : size, 4);
  return bytes + data;
}

std::string float_bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), 4 * values.size()};
}

double largest_difference(const Tensor& ours, const std::vector<float>& expected) {
  EXPECT_EQ(ours.element_count(), static_cast<std::int64_t>(expected.size()));
  double largest = 0.0;
  const std::vector<double> values = ours.to_vector();
  for (std::size_t i = 0; i < std::min(values.size(), expected.size()); ++i) {
    largest = std::max(largest, std::abs(values[i] - static_cast<double>(expected[i])));
  }
  return largest;
}

TEST(Sound, EveryDepthIsRead) {
  const headway_test::TemporaryDirectory directory;
  const std::vector<float> samples = tone(3000);
  const std::vector<std::pair<int, double>> formats = {
      {SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 2.0 / 128},   {SF_FORMAT_WAV | SF_FORMAT_PCM_16, 2.0 / 32768},
      {SF_FORMAT_WAV | SF_FORMAT_PCM_24, 1e-6},        {SF_FORMAT_WAV | SF_FORMAT_PCM_32, 1e-7},
      {SF_FORMAT_WAV | SF_FORMAT_FLOAT, 0.0},          {SF_FORMAT_WAV | SF_FORMAT_DOUBLE, 0.0},
      {SF_FORMAT_WAV | SF_FORMAT_ULAW, 0.04},          {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 2.0 / 32768},
      {SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 1e-6},       {SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 2.0 / 32768},
      {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 0.1},         {SF_FORMAT_AU | SF_FORMAT_PCM_16, 2.0 / 32768},
      {SF_FORMAT_CAF | SF_FORMAT_PCM_16, 2.0 / 32768}, {SF_FORMAT_RF64 | SF_FORMAT_PCM_16, 2.0 / 32768},
      {SF_FORMAT_WAVEX | SF_FORMAT_PCM_24, 1e-6},
  };
  for (const auto& [format, most] : formats) {
    write_sound(directory / "sound", format, 22050, 1, samples);
    const Sound sound = headway::read_sound(directory / "sound");
    EXPECT_EQ(sound.rate, 22050) << format;
    EXPECT_EQ(sound.notes, "") << format;
    EXPECT_LE(largest_difference(sound.samples, samples), most) << format;
    EXPECT_NEAR(sound.seconds(), 3000.0 / 22050.0, 1e-12);
  }
}

TEST(Sound, ChannelsAreMixedAndRatesChanged) {
  const headway_test::TemporaryDirectory directory;
  std::vector<float> frames;
  std::vector<float> means;
  for (int i = 0; i < 4410; ++i) {
    const float left = 0.5f * std::sin(0.01f * static_cast<float>(i));
    frames.insert(frames.end(), {left, 0.25f, -0.5f});
    means.push_back((left + 0.25f - 0.5f) / 3.0f);
  }
  write_sound(directory / "three.wav", SF_FORMAT_WAV | SF_FORMAT_FLOAT, 44100, 3, frames);
  const Sound sound = headway::read_sound(directory / "three.wav");
  EXPECT_EQ(sound.notes, "mixed from 3 channels");
  EXPECT_LE(largest_difference(sound.samples, means), 1e-7);
  const Sound slower = headway::read_sound(directory / "three.wav", 16000);
  EXPECT_EQ(slower.rate, 16000);
  EXPECT_EQ(slower.samples.shape(), headway::Shape({1600}));
  EXPECT_EQ(slower.notes, "mixed from 3 channels; resampled from 44100 Hz");
}

TEST(Sound, OddOnesAreNoted) {
  const Sound silence = headway::parse_sound(wav(1, 16, 1, std::string(200, '\0')), "silence");
  EXPECT_EQ(silence.notes, "silence");
  EXPECT_EQ(silence.samples.shape(), headway::Shape({100}));
  const Sound loud = headway::parse_sound(wav(3, 32, 1, float_bytes({0.5f, -2.5f})), "loud");
  EXPECT_EQ(loud.notes, "samples of up to 2.5, more than 1");
  EXPECT_EQ(loud.samples.at({1}), -2.5);
  const Sound cut = headway::parse_sound(wav(1, 16, 1, std::string(101, '\1'), 400), "cut");
  EXPECT_EQ(cut.notes, "ends after 50 of 200 samples");
  // A program that wrote into a pipe did not know the size.
  EXPECT_EQ(headway::parse_sound(wav(1, 16, 1, std::string(100, '\1'), 0xffffffff), "pipe").samples.size(0), 50);
}

TEST(Sound, WhatIsNoneIsRefused) {
  const headway_test::TemporaryDirectory directory;
  const auto message = [&](const std::string& name, const std::string& bytes) {
    headway_test::write_bytes(directory / name, bytes);
    const std::string text = message_of([&] { headway::read_sound(directory / name); });
    EXPECT_TRUE(text.starts_with((directory / name).string() + ": ")) << text;
    return text.substr((directory / name).string().size() + 2);
  };
  EXPECT_EQ(message("text.wav", "Dear reader,\n this is a letter."),
            "not a sound: it is text, \"Dear reader,\\x0a this is a ...\"; WAV, FLAC, Ogg, AIFF, AU and CAF can be "
            "read");
  EXPECT_EQ(message("empty.wav", ""), "an empty file, not a sound");
  EXPECT_PRED2(contains, message("zip.wav", std::string("PK\3\4\0\0\0\0", 8)), "begins with the bytes 50 4b 03 04");
  EXPECT_EQ(message("none.wav", wav(1, 16, 1, "")), "a sound without samples");
  EXPECT_PRED2(contains, message("start.wav", wav(1, 16, 1, "").substr(0, 30)), "not a sound that can be read");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(message("nan.wav", wav(3, 32, 1, float_bytes({0.0f, 0.5f, nan}))), "sample 2 is not a finite number");
  EXPECT_PRED2(contains, message("flac.wav", "fLaC" + std::string(50, '\7')), "not a sound");
  EXPECT_EQ(message_of([&] { headway::read_sound(directory / "missing.wav"); }),
            (directory / "missing.wav").string() + ": no such file");
  EXPECT_THROW(headway::read_sound(directory / "missing.wav"), headway::FileError);
  EXPECT_PRED2(contains, message_of([&] { headway::read_sound(directory.path()); }), "is a directory");
  EXPECT_EQ(message_of([&] { headway::parse_sound(wav(1, 16, 1, "ab"), "x", -1); }),
            "x: rate is -1, expected 0 or more");
}

TEST(Sound, EveryBeginningOfAFileIsReadOrRefused) {
  const headway_test::TemporaryDirectory directory;
  for (const int format :
       {SF_FORMAT_WAV | SF_FORMAT_PCM_24, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, SF_FORMAT_OGG | SF_FORMAT_VORBIS}) {
    write_sound(directory / "sound", format, 8000, 2, tone(800));
    const std::string bytes = headway_test::read_bytes(directory / "sound");
    for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 60) {
      try {
        const Sound sound = headway::parse_sound(std::string_view(bytes).substr(0, size), "part");
        EXPECT_LE(sound.samples.size(0), 400);
      } catch (const headway::Error& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with("part: ")) << error.what();
      }
    }
  }
}

TEST(Sound, WrittenSoundsAreReadBack) {
  const headway_test::TemporaryDirectory directory;
  const std::vector<float> samples = {0.0f, 0.5f, -1.0f, 2.0f, -3.0f, 1.0f / 32768.0f};
  headway::write_wav(directory / "out.wav", {.samples = Tensor::from(samples, {6}), .rate = 8000});
  const Sound sound = headway::read_sound(directory / "out.wav");
  EXPECT_EQ(sound.samples.to_vector(), (std::vector<double>{0.0, 0.5, -1.0, 32767.0 / 32768.0, -1.0, 1.0 / 32768.0}));
  EXPECT_EQ(sound.rate, 8000);
  EXPECT_EQ(directory.listing(), std::vector<std::string>{"out.wav"});
  const Tensor nan = Tensor::full({3}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_PRED2(contains, message_of([&] { headway::write_wav(directory / "out.wav", {.samples = nan, .rate = 8000}); }),
               "sample 0 is not a number");
  EXPECT_PRED2(contains, message_of([&] { headway::write_wav("x.wav", {.samples = nan, .rate = 0}); }), "rate is 0");
  EXPECT_PRED2(contains, message_of([&] { headway::write_wav("x.wav", {}); }), "must be [length], not undefined");
  EXPECT_EQ(headway::read_sound(directory / "out.wav").samples.size(0), 6);  // the old one is whole
}

TEST(Resampling, TonesStayAndWhatCannotBeKeptGoes) {
  for (const auto& [from, to] : std::vector<std::pair<int, int>>{{44100, 16000}, {8000, 16000}, {16001, 15999}}) {
    const std::int64_t length = from / 2;
    const Tensor samples = Tensor::from(tone(length, 700.0 / from), {length});
    const Tensor ours = headway::resample(samples, from, to);
    ASSERT_EQ(ours.size(0), (length * to + from - 1) / from);
    const std::vector<float> expected = tone(ours.size(0), 700.0 / to);
    for (std::int64_t i = ours.size(0) / 8; i < ours.size(0) * 7 / 8; ++i) {
      ASSERT_NEAR(ours.at({i}), expected[static_cast<std::size_t>(i)], 1e-4) << from << " to " << to;
    }
  }
  const Tensor high = Tensor::from(tone(22050, 9000.0 / 44100), {22050});
  const Tensor gone = headway::resample(high, 44100, 16000);
  for (std::int64_t i = 1000; i < 7000; ++i) ASSERT_NEAR(gone.at({i}), 0.0, 1e-4);
  const Tensor constant = headway::resample(Tensor::full({4000}, 0.25), 48000, 44100);
  EXPECT_NEAR(constant.at({1800}), 0.25, 1e-6);
  EXPECT_EQ(headway::resample(high, 8000, 8000).size(0), 22050);
  EXPECT_EQ(headway::resample(Tensor::empty({0}), 8000, 16000).size(0), 0);
}

TEST(Resampling, ThreadsDoNotChangeIt) {
  const headway_test::ThreadCount threads(1);
  const Tensor samples = Tensor::randn({30000}, 7);
  const std::vector<double> alone = headway::resample(samples, 44100, 16000).to_vector();
  const std::vector<double> mel = headway::log_mel(samples).to_vector();
  headway::set_num_threads(3);
  EXPECT_EQ(headway::resample(samples, 44100, 16000).to_vector(), alone);
  EXPECT_EQ(headway::log_mel(samples).to_vector(), mel);
}

TEST(Resampling, WrongArgumentsAreNamed) {
  const Tensor samples = Tensor::zeros({10});
  EXPECT_EQ(message_of([&] {
              headway::resample(Tensor::zeros({2, 5}), 1, 2);
            }),
            "resample: samples must be [length], not float32[2, 5]");
  EXPECT_PRED2(contains, message_of([&] { headway::resample(samples, 0, 2); }), "from is 0, expected 1 to");
  EXPECT_PRED2(contains, message_of([&] { headway::resample(samples, 8000, 1 << 21); }), "to is 2097152");
  EXPECT_PRED2(contains, message_of([&] { headway::resample(samples, 1, 16000); }), "more than 1024 times as many");
}

// Whisper's features by their definition: sums over all samples and frequencies.
std::vector<double> plain_log_mel(const std::vector<float>& samples, const LogMelOptions& options, double highest) {
  const auto mel = [](double hz) { return hz < 1000 ? hz * 3 / 200 : 15 + 27 * std::log(hz / 1000) / std::log(6.4); };
  const auto hertz = [](double m) { return m < 15 ? m * 200 / 3 : 1000 * std::exp((m - 15) * std::log(6.4) / 27); };
  const std::int64_t length = static_cast<std::int64_t>(samples.size());
  const std::int64_t frames = (length - options.window % 2) / options.hop;
  std::vector<double> result(static_cast<std::size_t>(options.bins * frames));
  double largest = -1e9;
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    std::vector<double> power;
    for (std::int64_t k = 0; k <= options.window / 2; ++k) {
      double real = 0.0, imaginary = 0.0;
      for (std::int64_t i = 0; i < options.window; ++i) {
        std::int64_t place = std::abs(frame * options.hop - options.window / 2 + i);
        if (place >= length) place = 2 * (length - 1) - place;
        const double turn = 2.0 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(options.window);
        const double value = (0.5 - 0.5 * std::cos(turn)) * samples[static_cast<std::size_t>(place)];
        real += value * std::cos(turn * static_cast<double>(k));
        imaginary -= value * std::sin(turn * static_cast<double>(k));
      }
      power.push_back(real * real + imaginary * imaginary);
    }
    for (std::int64_t bin = 0; bin < options.bins; ++bin) {
      const double step = mel(highest) / static_cast<double>(options.bins + 1);
      const double low = hertz(step * static_cast<double>(bin)), middle = hertz(step * static_cast<double>(bin + 1));
      const double high = hertz(step * static_cast<double>(bin + 2));
      double sum = 0.0;
      for (std::size_t k = 0; k < power.size(); ++k) {
        const double hz = static_cast<double>(k) * static_cast<double>(options.rate / 2) / (options.window / 2);
        const double height = std::max(0.0, std::min((hz - low) / (middle - low), (high - hz) / (high - middle)));
        sum += height * 2.0 / (high - low) * power[k];
      }
      result[static_cast<std::size_t>(bin * frames + frame)] = std::log10(std::max(sum, 1e-10));
      largest = std::max(largest, result[static_cast<std::size_t>(bin * frames + frame)]);
    }
  }
  for (double& value : result) value = (std::max(value, largest - 8.0) + 4.0) / 4.0;
  return result;
}

TEST(LogMel, IsWhispers) {
  for (const std::int64_t window : {48, 50, 51, 32}) {
    const LogMelOptions options = {.rate = 8000, .window = window, .hop = 20, .bins = 10};
    std::vector<float> samples = tone(433, 0.07);
    for (std::size_t i = 0; i < samples.size(); i += 3) samples[i] *= 0.5f;
    const Tensor ours = headway::log_mel(Tensor::from(samples, {433}), options);
    const std::vector<double> expected = plain_log_mel(samples, options, 4000.0);
    ASSERT_EQ(ours.shape(), headway::Shape({10, 21}));
    const std::vector<double> values = ours.to_vector();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << window;
  }
  const LogMelOptions padded = {.length = 480000};
  EXPECT_EQ(headway::log_mel(Tensor::zeros({1000}), padded).shape(), headway::Shape({80, 3000}));
  EXPECT_EQ(headway::log_mel(Tensor::zeros({500000}), padded).shape(), headway::Shape({80, 3000}));
  EXPECT_EQ(headway::log_mel(Tensor::zeros({1600})).at({3, 4}), -1.5);  // silence
}

TEST(LogMel, WrongArgumentsAreNamed) {
  const Tensor samples = Tensor::zeros({1000});
  const auto message = [&](const LogMelOptions& options) {
    return message_of([&] { headway::log_mel(samples, options); });
  };
  EXPECT_PRED2(contains, message({.rate = 1}), "rate is 1");
  EXPECT_PRED2(contains, message({.window = 1}), "window is 1");
  EXPECT_PRED2(contains, message({.hop = 0}), "hop is 0");
  EXPECT_PRED2(contains, message({.bins = 0}), "bins is 0");
  EXPECT_PRED2(contains, message({.length = -1}), "length is -1");
  EXPECT_PRED2(contains, message({.max_frequency = -1.0}), "max_frequency is -1");
  EXPECT_PRED2(contains, message({.hop = 1001}), "1000 samples are fewer than the 1001 of one frame");
  EXPECT_PRED2(contains, message_of([] { headway::log_mel(Tensor()); }), "not undefined");
  const Tensor bad = Tensor::full({1000}, std::numeric_limits<double>::infinity());
  EXPECT_PRED2(contains, message_of([&] { headway::log_mel(bad); }), "a value that is not finite");
}

TEST(LogMel, OptionsAreReadAndWritten) {
  const headway_test::TemporaryDirectory directory;
  const LogMelOptions options = {.rate = 8000, .window = 200, .hop = 80, .bins = 40, .length = 32000};
  options.save(directory.path());
  EXPECT_EQ(LogMelOptions::load(directory.path()), options);
  EXPECT_PRED2(contains, message_of([&] { LogMelOptions().save(directory.path()); }), "length is 0");
  const auto load = [&](const std::string& text) {
    headway_test::write_bytes(directory / "preprocessor_config.json", text);
    return LogMelOptions::load(directory.path());
  };
  const LogMelOptions whisper =
      load(R"({"feature_extractor_type": "WhisperFeatureExtractor", "mel_filters": [[0.0]]})");
  EXPECT_EQ(whisper, (LogMelOptions{.length = 480000, .max_frequency = 8000.0}));
  const std::string file = (directory / "preprocessor_config.json").string();
  EXPECT_EQ(message_of([&] { load(R"({"hop_length": 0})"); }),
            file + ": hop_length is 0, expected an integer from 1 on");
  EXPECT_PRED2(contains, message_of([&] { load(R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor"})"); }),
               "expected \"WhisperFeatureExtractor\"");
  EXPECT_PRED2(contains, message_of([&] { load(R"({"chunk_length": 1e9})"); }), "chunk_length is 1e+09");
  EXPECT_PRED2(contains, message_of([&] { load(R"({"do_normalize": 3})"); }), "do_normalize");
  EXPECT_PRED2(contains, message_of([&] { load("[]"); }), "expected an object");
  EXPECT_THROW(LogMelOptions::load(directory / "none"), headway::FileError);
}

}  // namespace
