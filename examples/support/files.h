// Text files that the example programs read and write.
#pragma once

#include <headway/headway.h>

#include <cmath>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace example {

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) throw headway::Error(file.string() + ": cannot be written");
}

// The numbers of a line of a .csv file, at most `largest` in size. `about` (a file and a line) begins an error.
inline std::vector<double> numbers_of(const std::string& line, const std::string& about,
                                      double largest = std::numeric_limits<double>::max()) {
  std::istringstream stream(line);
  std::vector<double> numbers;
  for (std::string field; std::getline(stream, field, ',');) {
    std::size_t end = 0;
    try {
      numbers.push_back(std::stod(field, &end));
    } catch (const std::exception&) {
      end = 0;
    }
    if (end == 0 || field.find_first_not_of(" \r", end) != std::string::npos || !std::isfinite(numbers.back())) {
      throw headway::Error(about + ": \"" + field + "\" is not a number");
    }
    if (std::abs(numbers.back()) > largest) {
      throw headway::Error(about + ": " + field + " is too large");
    }
  }
  return numbers;
}

}  // namespace example
