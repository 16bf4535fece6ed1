// preprocessor_config.json: what a model wants of sounds or pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/json.h"

namespace headway::inline v0::internal {

// Fields of the file of a directory; a field that is missing or null leaves a value as it is. Errors begin with the
// file's name.
class PreprocessorConfig {
 public:
  explicit PreprocessorConfig(const std::filesystem::path& directory);

  // Null where the field is missing or null.
  const Json* find(const char* name) const;
  // Sizes and counts, from `least` to 2^31.
  void integer(const char* name, std::int64_t& target, std::int64_t least = 1) const;
  void number(const char* name, double& target) const;
  bool boolean(const char* name, bool otherwise) const;
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  Json json_;
};

// Writes the file of a directory.
void save_preprocessor_config(const std::filesystem::path& directory, const Json& json);

}  // namespace headway::inline v0::internal
