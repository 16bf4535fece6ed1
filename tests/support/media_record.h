// Records over a picture, a sound, a video and a list, with weights and pictures made up by rule. In a header, because
// they need libheadway_text, which not all tests have.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "explain/packing.h"
#include "headway/attention_view.h"

namespace headway_test {
namespace media {

using headway::AttentionMedium;
using headway::AttentionPart;
using headway::AttentionRecord;
using headway::MediumKind;
using headway::Tensor;

inline constexpr std::int64_t kLayers = 2, kHeads = 3;

// A PNG whose pixel at (x, y), both from 0 to 1, has the shade that `shade` gives, from blue over yellow to white.
inline std::string painted(std::int64_t width, std::int64_t height,
                           const std::function<double(double, double)>& shade) {
  headway::internal::IndexedImage image{.width = width, .height = height, .pixels = {}, .palette = {}};
  for (int level = 0; level < 256; ++level) {
    const double red = std::min(255.0, level * 1.6), blue = 110 + 145 * std::abs(level / 255.0 - 0.4);
    for (const double channel : {red, level * 0.9, blue})
      image.palette.push_back(static_cast<char>(std::lround(channel)));
  }
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const double value = shade((static_cast<double>(x) + 0.5) / static_cast<double>(width),
                                 (static_cast<double>(y) + 0.5) / static_cast<double>(height));
      image.pixels.push_back(static_cast<char>(std::lround(std::clamp(value, 0.0, 1.0) * 255.0)));
    }
  }
  return headway::internal::png(image);
}

inline double bump(double x, double y, double width) { return std::exp(-(x * x + y * y) / (2 * width * width)); }

using Score = std::function<double(std::int64_t head, std::int64_t query, std::int64_t key)>;

// Layers whose rows are the scores, each row divided by its sum.
inline AttentionPart part_of(const std::string& name, const std::vector<std::string>& queries,
                             const std::vector<std::string>& keys, const Score& score) {
  AttentionPart part = {name, queries, keys, {}};
  const auto rows = static_cast<std::int64_t>(queries.size()), columns = static_cast<std::int64_t>(keys.size());
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    Tensor weights = Tensor::empty({kHeads, rows, columns});
    float* weight = weights.data<float>();
    for (std::int64_t row = 0; row < kHeads * rows; ++row, weight += columns) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < columns; ++k) sum += score(row / rows, row % rows, k);
      for (std::int64_t k = 0; k < columns; ++k) {
        weight[k] = static_cast<float>(score(row / rows, row % rows, k) / sum);
      }
    }
    part.layers.push_back(weights);
  }
  return part;
}

inline double causal(std::int64_t, std::int64_t query, std::int64_t key) {
  return key > query ? 0.0 : 1.0 / static_cast<double>(1 + query - key);
}

// A record of an encoder of the medium and a decoder of words.
inline AttentionRecord written_record(const AttentionMedium& medium, const std::vector<std::string>& words,
                                      const Score& encoder, const Score& cross) {
  const std::vector<std::string> cells = medium_labels(medium);
  std::vector<std::string> read = {"<s>"};
  read.insert(read.end(), words.begin(), words.end() - 1);
  AttentionRecord record;
  record.parts = {part_of("encoder", cells, cells, encoder), part_of("decoder", words, read, causal),
                  part_of("cross", words, cells, cross)};
  record.parts[0].query_medium = record.parts[0].key_medium = record.parts[2].key_medium = medium;
  return record;
}

}  // namespace media

// "sun above sea" over 6 x 6 patches: encoder, decoder and cross; "sun" looks at row 2 column 5.
inline headway::AttentionRecord picture_record() {
  using namespace media;
  constexpr std::int64_t kSide = 6;
  const auto scene = [](double x, double y) {
    const double sun = bump(x - 0.75, y - 0.25, 0.09) > 0.5 ? 1.0 : 0.0;
    return y > 0.6 ? 0.12 + 0.06 * std::sin(x * 40) * std::sin(y * 60) : std::max(0.35 + 0.3 * y, sun);
  };
  const AttentionMedium medium = {
      .kind = MediumKind::picture, .png = painted(72, 72, scene), .rows = kSide, .columns = kSide};
  const auto near = [](std::int64_t a, double row, double column, double width) {
    return bump(static_cast<double>(a / kSide) - row, static_cast<double>(a % kSide) - column, width);
  };
  const std::vector<std::string> words = {"▁sun", "▁above", "▁sea", "</s>"};
  AttentionRecord record = written_record(
      medium, words,
      [&](std::int64_t head, std::int64_t q, std::int64_t k) {
        return near(k, static_cast<double>(q / kSide), static_cast<double>(q % kSide),
                    0.7 + 0.6 * static_cast<double>(head)) +
               0.01;
      },
      [&](std::int64_t head, std::int64_t q, std::int64_t k) {
        const double row = q == 0 ? 1 : q == 1 ? 2.5 : 4.5, column = q == 0 ? 4 : 1 + static_cast<double>(head);
        return near(k, row, column, 0.6 + 0.5 * static_cast<double>(q)) + 0.02;
      });
  record.source = "sea.png";
  record.target = "sun above sea";
  return record;
}

// "one two" over 60 positions of 0.05 s: encoder, decoder and cross; "one" looks at 0.70 s.
inline headway::AttentionRecord sound_record() {
  using namespace media;
  constexpr std::int64_t kColumns = 60;
  const auto spectrogram = [](double x, double y) {
    const double voice = bump(x - 0.25, 0, 0.06) + bump(x - 0.65, 0, 0.08);
    return voice * (0.5 + 0.5 * std::cos(y * 50)) * (0.3 + 0.7 * y);
  };
  const AttentionMedium medium = {
      .kind = MediumKind::sound, .png = painted(120, 40, spectrogram), .rows = 1, .columns = kColumns, .seconds = 0.05};
  AttentionRecord record = written_record(
      medium, {"▁one", "▁two", "</s>"},
      [](std::int64_t head, std::int64_t q, std::int64_t k) {
        return bump(static_cast<double>(q - k), 0, 2.0 + 3.0 * static_cast<double>(head)) + 0.002;
      },
      [](std::int64_t, std::int64_t q, std::int64_t k) {
        const double middle[] = {14, 38, 58};
        return bump(static_cast<double>(k) - middle[q], 0, 3) + 0.002;
      });
  record.source = "one-two.wav";
  record.target = "one two";
  return record;
}

// A class token over 6 frames of 3 x 3 patches: the encoder alone; it looks most at frame 3.
inline headway::AttentionRecord video_record() {
  using namespace media;
  constexpr std::int64_t kFrames = 6, kSide = 3;
  const auto ball = [](double x, double y) {
    const double frame = std::floor(x * kFrames), in_frame = x * kFrames - frame;
    return bump(in_frame - 0.2 - 0.12 * frame, y - 0.5, 0.12) + 0.05;
  };
  const AttentionMedium medium = {.kind = MediumKind::video,
                                  .png = painted(24 * kFrames, 24, ball),
                                  .first = 1,
                                  .frames = kFrames,
                                  .rows = kSide,
                                  .columns = kSide,
                                  .seconds = 0.1};
  const std::vector<std::string> cells = medium_labels(medium);
  AttentionRecord record = {"ball.png", "a ball goes right", "", {}};
  record.parts.push_back(part_of("encoder", cells, cells, [](std::int64_t head, std::int64_t, std::int64_t k) {
    if (k == 0) return 0.1;
    const auto frame = static_cast<double>((k - 1) / (kSide * kSide));
    const auto row = static_cast<double>((k - 1) / kSide % kSide), column = static_cast<double>((k - 1) % kSide);
    return bump(frame - 2, 0, 1.5) * bump(row - 1, column - static_cast<double>(head), 0.8) + 0.01;
  }));
  record.parts[0].query_medium = record.parts[0].key_medium = medium;
  return record;
}

// Eight items, each looking at itself and those before it.
inline headway::AttentionRecord list_record() {
  using namespace media;
  std::vector<std::string> items;
  for (const int item : {17, 4, 902, 311, 77, 5020, 12, 444}) items.push_back("item " + std::to_string(item));
  AttentionRecord record = {"17, 4, 902, 311, 77, 5020, 12, 444", "item 33", "", {}};
  record.parts.push_back(part_of("decoder", items, items, [](std::int64_t head, std::int64_t query, std::int64_t key) {
    return key > query ? 0.0 : 0.1 + std::abs(std::sin(static_cast<double>(key * (head + 2))));
  }));
  record.parts[0].query_medium = record.parts[0].key_medium = {.kind = MediumKind::list};
  return record;
}

}  // namespace headway_test
