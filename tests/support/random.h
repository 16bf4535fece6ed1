// A small random generator for drawing test cases.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>

namespace headway_test {

// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // A number in [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }
  std::int64_t pick(std::initializer_list<std::int64_t> values) {
    return *std::next(values.begin(), between(0, static_cast<std::int64_t>(values.size()) - 1));
  }

 private:
  std::uint64_t state_;
};

}  // namespace headway_test
