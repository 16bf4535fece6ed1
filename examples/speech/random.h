// Numbers that follow from a seed alone, the same with every compiler.
#pragma once

#include <cmath>
#include <cstdint>

namespace speech {

class Random {
 public:
  // A stream for one example: those of neighbouring indices have nothing in common.
  Random(std::uint64_t seed, std::uint64_t index) : state_(mixed(seed + 0x9E3779B97F4A7C15u) ^ mixed(index)) {}

  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15u;
    return mixed(state_);
  }
  double uniform(double low = 0.0, double high = 1.0) {
    return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
  }
  // low .. high, both included.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return uniform() < probability; }
  // Nearly normal: a sum of four 16-bit numbers, with mean 0 and variance 1.
  float noise() {
    const std::uint64_t word = bits();
    const auto sum =
        static_cast<std::int64_t>((word & 0xFFFF) + (word >> 16 & 0xFFFF) + (word >> 32 & 0xFFFF) + (word >> 48));
    return static_cast<float>(sum - 131070) * (1.0F / 37837.2F);
  }

 private:
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
  std::uint64_t state_;
};

}  // namespace speech
