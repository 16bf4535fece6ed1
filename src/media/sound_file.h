// Sound files as samples, by libsndfile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

struct SoundFile {
  std::vector<float> samples;  // [length], the mean of the channels
  std::int64_t rate = 0;
  std::int64_t channels = 0;
  std::int64_t announced = 0;  // the length that the file's header names, which may be more than there is
};

// The samples of a file's bytes; Errors begin with `about`.
SoundFile decode_sound(std::string_view bytes, const std::string& about);

}  // namespace headway::inline v0::internal
