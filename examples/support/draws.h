// Random numbers that are a function of where they are used: the same in C++ and in the Python programs of bench/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace example {

// SplitMix64's step.
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// A stream of numbers for one place, as (seed, batch, item).
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t first, std::uint64_t second)
      : key_(mixed(mixed(mixed(seed) + first) + second)) {}

  std::uint64_t next() { return mixed(key_ + drawn_++); }
  // In [low, high).
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t key_;
  std::uint64_t drawn_ = 0;
};

// The numbers 0 to count - 1 in a random order.
inline std::vector<std::size_t> shuffled(std::size_t count, Draws draws) {
  std::vector<std::uint64_t> keys(count);
  for (std::uint64_t& key : keys) key = draws.next();
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  return order;
}

}  // namespace example
