#include "headway/shape.h"

#include <algorithm>

#include "base/check.h"

namespace headway::inline v0 {

Shape::Shape(std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) {
    push_back(size);
  }
}

Shape::Shape(const std::vector<std::int64_t>& sizes) {
  for (const std::int64_t size : sizes) {
    push_back(size);
  }
}

Shape Shape::filled(int rank, std::int64_t value) {
  internal::check(rank >= 0, "shape: rank ", rank, " is negative");
  Shape shape;
  for (int dim = 0; dim < rank; ++dim) {
    shape.push_back(value);
  }
  return shape;
}

void Shape::push_back(std::int64_t size) {
  internal::check(rank_ < kMaxRank, "shape: more than ", int{kMaxRank}, " dimensions");
  sizes_[rank_++] = size;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int dim = 0; dim < rank_; ++dim) {
    text += (dim > 0 ? ", " : "") + std::to_string(sizes_[dim]);
  }
  return text + "]";
}

bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

}  // namespace headway::inline v0
