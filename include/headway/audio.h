// Sounds: reading and writing them, other sampling rates, and the log-mel spectrogram that speech models read. Part of
// libheadway_media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "headway/export.h"
#include "headway/tensor.h"

namespace headway {
inline namespace v0 {

struct Sound {
  Tensor samples = {};    // [length] float32, one channel, -1 to 1
  std::int64_t rate = 0;  // samples a second
  // What was changed or is odd, "mixed from 2 channels; resampled from 44100 Hz"; empty: nothing.
  std::string notes = {};

  // How long it lasts.
  double seconds() const { return rate > 0 ? static_cast<double>(samples.size(0)) / static_cast<double>(rate) : 0.0; }
};

// Reads a WAV, FLAC, Ogg, AIFF, AU or CAF file of any depth. Channels are mixed to one by their mean, and the
// result is resampled to `rate` unless that is 0. What is no sound, ends too early to hold one or holds values that are
// not finite is an Error that begins with the file's name.
HEADWAY_API Sound read_sound(const std::filesystem::path& file, std::int64_t rate = 0);
// The same of a file's bytes; Errors begin with `about`.
HEADWAY_API Sound parse_sound(std::string_view bytes, const std::string& about, std::int64_t rate = 0);

// Writes a WAV file of 16 bits and one channel, in one piece; samples outside of -1 to 1 are clipped.
HEADWAY_API void write_wav(const std::filesystem::path& file, const Sound& sound);

// samples [length] at another rate: [ceil(length * to / from)]. A windowed sinc keeps frequencies up to 0.88 of half
// the lower rate, and attenuates those above half of it by 88 dB.
HEADWAY_API Tensor resample(const Tensor& samples, std::int64_t from, std::int64_t to);

// The spectrogram of Whisper's models; the defaults are those of its published ones.
struct HEADWAY_API LogMelOptions {
  std::int64_t rate = 16000;   // of the samples
  std::int64_t window = 400;   // samples that a frame is computed from
  std::int64_t hop = 160;      // samples between frames
  std::int64_t bins = 80;      // mel filters
  std::int64_t length = 0;     // samples: padded with zeros or cut; 0: as it is. Whisper's models take 30 s, 480000
  double max_frequency = 0.0;  // of the filters, in Hz; 0: rate / 2, at most 8000
  bool normalize = false;      // first to a mean of 0 and a variance of 1, as do_normalize of Transformers; then padded

  // What preprocessor_config.json of a directory says; the highest frequency is 8000 Hz, as in Whisper's own, unless
  // the file has the field "max_frequency".
  static LogMelOptions load(const std::filesystem::path& directory);
  // Writes preprocessor_config.json into a directory that exists.
  void save(const std::filesystem::path& directory) const;

  bool operator==(const LogMelOptions&) const = default;
};

// samples [length], float32 -> [bins, length / hop]: windows of a periodic Hann window every `hop` samples, centred
// with reflected ends; power through triangular mel filters; log10, at least 8 below the largest; (x + 4) / 4.
HEADWAY_API Tensor log_mel(const Tensor& samples, const LogMelOptions& options = {});

}  // namespace v0
}  // namespace headway
