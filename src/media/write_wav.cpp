// WAV files of 16 bits and one channel: a header of 44 bytes, then the samples.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/files.h"
#include "headway/audio.h"
#include "media/values.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr std::int64_t kWavHeaderBytes = 44;
constexpr std::int64_t kBytesOfSample = 2;

// Appends the lowest bytes of a number, the lowest first.
void append_number(std::string& bytes, std::int64_t number, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>((number >> (8 * i)) & 0xff));
}

std::string wav_header(std::int64_t samples, std::int64_t rate) {
  const std::int64_t size = samples * kBytesOfSample;
  std::string bytes = "RIFF";
  append_number(bytes, kWavHeaderBytes - 8 + size, 4);
  bytes += "WAVEfmt ";
  append_number(bytes, 16, 4);                     // bytes of the format
  append_number(bytes, 1, 2);                      // integers
  append_number(bytes, 1, 2);                      // channels
  append_number(bytes, rate, 4);                   // samples a second
  append_number(bytes, rate * kBytesOfSample, 4);  // bytes a second
  append_number(bytes, kBytesOfSample, 2);         // bytes of a sample
  append_number(bytes, 8 * kBytesOfSample, 2);     // bits of a sample
  bytes += "data";
  append_number(bytes, size, 4);
  return bytes;
}

}  // namespace
}  // namespace internal

void write_wav(const std::filesystem::path& file, const Sound& sound) {
  const std::string who = "write_wav: " + file.string();
  internal::check(sound.samples.defined() && sound.samples.rank() == 1, who, ": samples must be [length], not ",
                  internal::described(sound.samples));
  const std::int64_t length = sound.samples.size(0);
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  internal::check(sound.rate > 0 && sound.rate <= kMost / internal::kBytesOfSample, who, ": rate is ", sound.rate);
  internal::check(length <= (kMost - internal::kWavHeaderBytes) / internal::kBytesOfSample, who, ": ", length,
                  " samples are more than a WAV file holds");
  const Tensor samples = internal::plain_values(sound.samples);
  std::string bytes = internal::wav_header(length, sound.rate);
  bytes.reserve(bytes.size() + static_cast<std::size_t>(length * internal::kBytesOfSample));
  for (std::int64_t i = 0; i < length; ++i) {
    const float sample = samples.data<const float>()[i];
    internal::check(!std::isnan(sample), who, ": sample ", i, " is not a number");
    internal::append_number(bytes, std::lrint(std::clamp(sample * 32768.0f, -32768.0f, 32767.0f)),
                            internal::kBytesOfSample);
  }
  internal::replace_file(file, bytes, "write_wav");
}

}  // namespace headway::inline v0
