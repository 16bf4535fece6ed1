// Text files that the example programs write.
#pragma once

#include <headway/headway.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace example {

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) throw headway::Error(file.string() + ": cannot be written");
}

}  // namespace example
