// The emoji pictures with their names: reading, the split, batches of related pictures, small changes of a picture.
#pragma once

#include <headway/media.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/draws.h"

namespace emoji {

using headway::Tensor;

constexpr std::int64_t kSide = 72;

struct Emoji {
  std::string file;
  std::string caption;
  std::vector<std::uint8_t> pixels;  // (72, 72, 4): red, green, blue, opacity
};

struct Split {
  std::vector<std::size_t> training, validation, test;
};

inline std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> found(1);
  for (const char c : line) {
    if (c == '\t') {
      found.emplace_back();
    } else {
      found.back() += c;
    }
  }
  return found;
}

// The rows of captions.tsv with their pictures. `limit` above 0 reads that many, spread over the file.
inline std::vector<Emoji> read(const std::filesystem::path& folder, std::size_t limit = 0) {
  std::ifstream table(folder / "captions.tsv");
  if (!table) throw headway::Error((folder / "captions.tsv").string() + ": cannot be read");
  std::vector<Emoji> all;
  std::string line;
  std::getline(table, line);  // the header
  while (std::getline(table, line)) {
    const std::vector<std::string> row = cells(line);
    if (row.size() != 5) throw headway::Error("captions.tsv: \"" + line + "\" has not 5 columns");
    all.push_back({row[0], row[1], {}});
  }
  if (limit > 0 && limit < all.size()) {
    std::vector<Emoji> some;
    for (std::size_t i = 0; i < limit; ++i) some.push_back(all[i * all.size() / limit]);
    all = some;
  }
  for (Emoji& one : all) {
    const Tensor pixels = headway::read_picture(folder / "72x72" / one.file, 4).pixels;
    if (!(pixels.shape() == headway::Shape{kSide, kSide, 4})) {
      throw headway::Error(one.file + " is " + pixels.describe() + ", expected 72 by 72 pixels");
    }
    const float* const values = pixels.data<float>();
    one.pixels.resize(static_cast<std::size_t>(pixels.element_count()));
    for (std::size_t i = 0; i < one.pixels.size(); ++i) {
      one.pixels[i] = static_cast<std::uint8_t>(values[i] * 255.0F + 0.5F);
    }
  }
  return all;
}

// FNV-1a.
inline std::uint64_t name_hash(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
  return hash;
}

inline bool has_skin_tone(const Emoji& one) { return one.caption.find("skin tone") != std::string::npos; }

// Pictures in the order of the hash of their file names: of those with a skin tone the first 180 are for the test and
// the next 60 for validation, so their combinations of person, activity and skin tone are never trained on; of the
// others 20 and 20. Fewer pictures in all give smaller parts.
inline Split split(const std::vector<Emoji>& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return name_hash(all[a].file) < name_hash(all[b].file); });
  const std::size_t share = all.size() < 3000 ? 20 : 1;
  Split parts;
  std::size_t toned = 0, others = 0;
  for (const std::size_t i : order) {
    const std::size_t place = has_skin_tone(all[i]) ? toned++ : others++;
    const std::size_t tested = (has_skin_tone(all[i]) ? 180 : 20) / share;
    const std::size_t validated = tested + (has_skin_tone(all[i]) ? 60 : 20) / share;
    (place < tested ? parts.test : place < validated ? parts.validation : parts.training).push_back(i);
  }
  return parts;
}

// ---- batches ----

// What pictures have in common that differ in skin tone or gender alone: "woman cook: dark skin tone" -> "cook".
inline std::string family_of(const std::string& caption) {
  std::string name = caption;
  const std::size_t colon = name.find(": ");
  if (colon != std::string::npos && name.find("skin tone", colon) != std::string::npos) name.resize(colon);
  for (const std::string_view word : {"man ", "woman ", "person ", "men ", "women ", "people "}) {
    if (name.starts_with(word)) return name.substr(word.size());
  }
  return name;
}

// Batches in which pictures stand by fours beside others of their family, since those are the hardest to tell apart.
class Batches {
 public:
  Batches(const std::vector<Emoji>& all, const std::vector<std::size_t>& part, std::int64_t size, std::uint64_t seed)
      : size_(std::min(size, static_cast<std::int64_t>(part.size()))), seed_(seed) {
    std::map<std::string, std::vector<std::size_t>> families;
    for (const std::size_t i : part) families[family_of(all[i].caption)].push_back(i);
    for (auto& [name, members] : families) families_.push_back(members);
    per_epoch_ = static_cast<std::int64_t>(part.size()) / size_;
  }

  std::int64_t size() const { return size_; }
  std::vector<std::size_t> batch(std::int64_t index) {
    if (const std::int64_t epoch = index / per_epoch_; epoch != epoch_) {
      order_ = order(static_cast<std::uint64_t>(epoch));
      epoch_ = epoch;
    }
    const auto first = order_.begin() + index % per_epoch_ * size_;
    return {first, first + size_};
  }

 private:
  std::vector<std::size_t> order(std::uint64_t epoch) const {
    std::vector<std::vector<std::size_t>> fours;
    for (std::size_t f = 0; f < families_.size(); ++f) {
      std::size_t placed = 0;
      for (const std::size_t i : example::shuffled(families_[f].size(), {seed_, epoch, f + 1})) {
        if (placed++ % 4 == 0) fours.emplace_back();
        fours.back().push_back(families_[f][i]);
      }
    }
    std::vector<std::size_t> all;
    for (const std::size_t i : example::shuffled(fours.size(), {seed_, epoch, 0})) {
      all.insert(all.end(), fours[i].begin(), fours[i].end());
    }
    return all;
  }

  std::vector<std::vector<std::size_t>> families_;
  std::int64_t size_;
  std::uint64_t seed_;
  std::int64_t per_epoch_ = 1;
  std::int64_t epoch_ = -1;
  std::vector<std::size_t> order_;
};

// ---- pictures as tensors: [3, 72, 72], colours from -1 to 1 ----

struct Change {
  double scale = 1.0;
  double right = 0.0, down = 0.0;  // pixels
  double brightness = 1.0;
  double background[3] = {1.0, 1.0, 1.0};
};

inline Change random_change(example::Draws draws) {
  Change change;
  change.scale = draws.uniform(0.85, 1.1);
  change.right = draws.uniform(-4.0, 4.0);
  change.down = draws.uniform(-4.0, 4.0);
  change.brightness = draws.uniform(0.85, 1.15);
  const bool white = draws.uniform(0.0, 1.0) < 0.5;
  for (double& colour : change.background) colour = white ? 1.0 : draws.uniform(0.4, 1.0);
  return change;
}

// Writes the changed picture to `target` (3, 72, 72).
inline void draw(const Emoji& one, const Change& change, float* target) {
  constexpr double kCentre = 0.5 * (kSide - 1);
  const auto pixel = [&](std::int64_t y, std::int64_t x, double weight, double* sum) {  // opacity times colour, opacity
    if (weight == 0.0 || y < 0 || x < 0 || y >= kSide || x >= kSide) return;
    const std::uint8_t* const values = &one.pixels[static_cast<std::size_t>((y * kSide + x) * 4)];
    const double opacity = weight * values[3] / 255.0;
    for (int c = 0; c < 3; ++c) sum[c] += opacity * values[c] / 255.0;
    sum[3] += opacity;
  };
  for (std::int64_t row = 0; row < kSide; ++row) {
    const double y = (static_cast<double>(row) - kCentre - change.down) / change.scale + kCentre;
    const double top = std::floor(y);
    const auto y0 = static_cast<std::int64_t>(top);
    for (std::int64_t column = 0; column < kSide; ++column) {
      const double x = (static_cast<double>(column) - kCentre - change.right) / change.scale + kCentre;
      const double left = std::floor(x);
      const auto x0 = static_cast<std::int64_t>(left);
      double sum[4] = {};
      pixel(y0, x0, (top + 1 - y) * (left + 1 - x), sum);
      pixel(y0, x0 + 1, (top + 1 - y) * (x - left), sum);
      pixel(y0 + 1, x0, (y - top) * (left + 1 - x), sum);
      pixel(y0 + 1, x0 + 1, (y - top) * (x - left), sum);
      for (int c = 0; c < 3; ++c) {
        const double colour = change.brightness * (sum[c] + (1.0 - sum[3]) * change.background[c]);
        target[(c * kSide + row) * kSide + column] = static_cast<float>(2.0 * std::clamp(colour, 0.0, 1.0) - 1.0);
      }
    }
  }
}

// [pictures, 3, 72, 72]; each changed at random where `seed` is given.
inline Tensor pictures(const std::vector<Emoji>& all, const std::vector<std::size_t>& part,
                       std::optional<std::uint64_t> seed = {}, std::int64_t batch = 0) {
  const Tensor result = Tensor::empty({static_cast<std::int64_t>(part.size()), 3, kSide, kSide});
  for (std::size_t i = 0; i < part.size(); ++i) {
    const Change change = seed ? random_change({*seed + 1, static_cast<std::uint64_t>(batch), i}) : Change{};
    draw(all[part[i]], change, result.data<float>() + static_cast<std::int64_t>(i) * 3 * kSide * kSide);
  }
  return result;
}

}  // namespace emoji
