// Strings of spoken digits, made from recordings of single ones.
#pragma once

#include <headway/headway.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "effects.h"

namespace speech {

constexpr std::array<const char*, 10> kDigits = {"zero", "one", "two",   "three", "four",
                                                 "five", "six", "seven", "eight", "nine"};
constexpr std::int64_t kMostDigits = 10;  // of any string

struct Speaker {
  std::string name;
  std::array<std::vector<Samples>, 10> digits;  // recordings of each
};

// The speakers of a part of the data: "train", "validation" or "test" of split.tsv.
std::vector<Speaker> read_speakers(const std::filesystem::path& data, const std::string& part);

struct DigitString {
  std::vector<std::int64_t> digits;
  Samples samples;  // at kRate
};

// How strings are made. The example at an index follows from the seed and the index alone.
struct StringOptions {
  std::uint64_t seed = 1;
  double seconds = 7.0;  // at most
  std::int64_t fewest = 2, most = 6;
  bool for_training = false;  // more kinds of rooms, microphones and noise, and sounds without any digit
  bool wide = false;          // some of them with up to kMostDigits digits, or after seconds of silence
};
DigitString make_string(const std::vector<Speaker>& speakers, std::uint64_t index, const StringOptions& options);

}  // namespace speech
