// NumPy's file format for arrays of float32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headway::inline v0::internal {

// What comes before the numbers of an array that lies row by row: numpy.load() reads the two together.
std::string npy_header(const std::vector<std::int64_t>& shape);

}  // namespace headway::inline v0::internal
