// Sizes or strides of a tensor's dimensions: a small array without heap allocation.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  HEADWAY_API Shape(std::initializer_list<std::int64_t> sizes);
  HEADWAY_API Shape(const std::vector<std::int64_t>& sizes);
  HEADWAY_API static Shape filled(int rank, std::int64_t value);

  int rank() const { return rank_; }
  // Negative indices count from the end; the index is not checked.
  std::int64_t operator[](int index) const { return sizes_[index < 0 ? index + rank_ : index]; }
  std::int64_t& operator[](int index) { return sizes_[index < 0 ? index + rank_ : index]; }
  const std::int64_t* begin() const { return sizes_; }
  const std::int64_t* end() const { return sizes_ + rank_; }
  HEADWAY_API void push_back(std::int64_t size);

  // "[2, 8, 128, 64]"
  HEADWAY_API std::string to_string() const;
  HEADWAY_API friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::int64_t sizes_[kMaxRank] = {};
  int rank_ = 0;
};

}  // namespace v0
}  // namespace headway
