// The pictures of digits: reading, the fixed test, small changes of a picture.
#pragma once

#include <headway/headway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/draws.h"

namespace digits {

using headway::Tensor;

constexpr std::int64_t kSide = 8;
constexpr std::int64_t kPixels = kSide * kSide;
constexpr std::int64_t kClasses = 10;

struct Digit {
  std::vector<float> pixels;  // (8, 8), from 0 (paper) to 1 (ink)
  std::int64_t label = 0;
};

// digits.csv: a row is 64 numbers from 0 to 16 and the digit.
inline std::vector<Digit> read(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "digits.csv";
  std::ifstream rows(file);
  if (!rows) throw headway::Error(file.string() + ": cannot be read; digits.csv.gz unpacked is expected there");
  std::vector<Digit> all;
  std::string line;
  while (std::getline(rows, line)) {
    std::istringstream cells(line);
    std::vector<std::int64_t> values;
    std::string cell;
    while (std::getline(cells, cell, ',')) values.push_back(std::atoll(cell.c_str()));
    const bool in_range = std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v >= 0 && v <= 16; });
    if (values.size() != kPixels + 1 || !in_range || values.back() >= kClasses) {
      throw headway::Error(file.string() + ": row " + std::to_string(all.size() + 1) +
                           " is not 64 numbers from 0 to 16 and a digit");
    }
    Digit digit = {.pixels = {}, .label = values.back()};
    for (std::size_t i = 0; i < kPixels; ++i) digit.pixels.push_back(static_cast<float>(values[i]) / 16.0F);
    all.push_back(digit);
  }
  if (all.size() < 10)
    throw headway::Error(file.string() + " has " + std::to_string(all.size()) + " rows, expected 10");
  return all;
}

// Every fifth row is for the test: the rows 5, 10, 15, ...
inline bool is_test(std::size_t row) { return row % 5 == 4; }

inline std::vector<std::size_t> part(const std::vector<Digit>& all, bool test) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < all.size(); ++row) {
    if (is_test(row) == test) rows.push_back(row);
  }
  return rows;
}

// Writes the digit, moved by up to 0.7 pixels, turned by up to 8 degrees, up to a twentieth larger or smaller, with
// noise, to `target` (8, 8), from -1 to 1.
inline void draw_changed(const Digit& digit, example::Draws draws, float* target) {
  constexpr double kCentre = 0.5 * (kSide - 1), kRadians = 3.14159265358979 / 180.0;
  const double right = draws.uniform(-0.7, 0.7), down = draws.uniform(-0.7, 0.7);
  const double angle = draws.uniform(-8.0, 8.0) * kRadians, scale = draws.uniform(0.95, 1.05);
  const double cosine = std::cos(angle) / scale, sine = std::sin(angle) / scale;
  const auto ink = [&](double y, double x) {  // between four pixels
    const double top = std::floor(y), left = std::floor(x);
    double sum = 0.0;
    for (int corner = 0; corner < 4; ++corner) {
      const double row = top + corner / 2, column = left + corner % 2;
      if (row < 0 || column < 0 || row >= kSide || column >= kSide) continue;
      const double weight = (1.0 - std::abs(y - row)) * (1.0 - std::abs(x - column));
      sum += weight * digit.pixels[static_cast<std::size_t>(row) * kSide + static_cast<std::size_t>(column)];
    }
    return sum;
  };
  for (std::int64_t i = 0; i < kPixels; ++i) {
    const double y = static_cast<double>(i / kSide) - kCentre - down;
    const double x = static_cast<double>(i % kSide) - kCentre - right;
    const double value = ink(cosine * y - sine * x + kCentre, sine * y + cosine * x + kCentre);
    target[i] = static_cast<float>(2.0 * std::clamp(value + draws.uniform(-0.04, 0.04), 0.0, 1.0) - 1.0);
  }
}

// [rows, 1, 8, 8], from -1 to 1.
inline Tensor pictures(const std::vector<Digit>& all, const std::vector<std::size_t>& rows) {
  std::vector<float> values;
  for (const std::size_t row : rows) {
    for (const float ink : all[row].pixels) values.push_back(2.0F * ink - 1.0F);
  }
  return Tensor::from(values, {static_cast<std::int64_t>(rows.size()), 1, kSide, kSide});
}

inline Tensor labels(const std::vector<Digit>& all, const std::vector<std::size_t>& rows) {
  std::vector<std::int64_t> values;
  for (const std::size_t row : rows) values.push_back(all[row].label);
  return Tensor::from(values, {static_cast<std::int64_t>(rows.size())});
}

}  // namespace digits
