// Random numbers for the order of examples: the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace headway::inline v0::internal {

// A stream of random words (SplitMix64). Shuffles of the standard library differ between implementations.
class RandomWords {
 public:
  RandomWords(std::uint64_t seed, std::uint64_t stream) : state_(seed) { state_ = next() ^ (stream * kOdd); }

  std::uint64_t next() {
    std::uint64_t word = state_ += kOdd;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
  }
  // 0 .. count - 1, for counts of less than 2^32.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(((next() >> 32) * count) >> 32); }
  // In [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  template <typename Value>
  void shuffle(std::span<Value> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  static constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  std::uint64_t state_;
};

}  // namespace headway::inline v0::internal
