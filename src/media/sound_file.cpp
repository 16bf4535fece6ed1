#include "media/sound_file.h"

#include <sndfile.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/terminal.h"
#include "media/file_start.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kMostSamples = std::int64_t{1} << 29;  // 2 GiB of float32; three hours at 48000 Hz
constexpr std::int64_t kMostChannels = 256;
constexpr std::int64_t kFramesOfBlock = 4096;

// The formats that are read. libsndfile knows more, guesses at bytes without a signature, and what it decodes MP3 with
// writes to standard error.
bool has_sound_signature(std::string_view bytes) {
  for (const std::string_view start : {"RIFF", "RIFX", "RF64", "riff", "fLaC", "OggS", "FORM", "caff", ".snd"}) {
    if (bytes.starts_with(start)) return true;
  }
  return false;
}

// Bytes in memory, as libsndfile asks for them.
struct MemoryFile {
  std::string_view bytes;
  sf_count_t place = 0;
};

sf_count_t size_of(void* data) { return static_cast<sf_count_t>(static_cast<MemoryFile*>(data)->bytes.size()); }
sf_count_t place_of(void* data) { return static_cast<MemoryFile*>(data)->place; }
sf_count_t no_write(const void*, sf_count_t, void*) { return 0; }

sf_count_t seek_in(sf_count_t offset, int whence, void* data) {
  MemoryFile& file = *static_cast<MemoryFile*>(data);
  const sf_count_t size = size_of(data);
  const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_END ? size : file.place;
  // `offset` may be anything that a header says.
  if (offset < -from || offset > size - from) return -1;
  file.place = from + offset;
  return file.place;
}

sf_count_t read_from(void* there, sf_count_t count, void* data) {
  MemoryFile& file = *static_cast<MemoryFile*>(data);
  const sf_count_t taken = std::clamp<sf_count_t>(count, 0, size_of(data) - file.place);
  if (taken > 0) std::memcpy(there, file.bytes.data() + file.place, static_cast<std::size_t>(taken));
  file.place += taken;
  return taken;
}

// An open sound, closed at the end of the scope.
class OpenSound {
 public:
  OpenSound(std::string_view bytes, const std::string& about) : memory_{bytes} {
    SF_VIRTUAL_IO calls = {size_of, seek_in, read_from, no_write, place_of};
    file_ = sf_open_virtual(&calls, SFM_READ, &info_, &memory_);
    check(file_ != nullptr, about, ": not a sound that can be read: ", visible_token(sf_strerror(nullptr)));
  }
  ~OpenSound() { sf_close(file_); }
  OpenSound(const OpenSound&) = delete;
  OpenSound& operator=(const OpenSound&) = delete;

  const SF_INFO& info() const { return info_; }
  // Up to `count` frames [frames, channels]; 0 at the end.
  std::int64_t read(float* there, std::int64_t count) { return sf_readf_float(file_, there, count); }
  // What went wrong in the middle of the file; empty: nothing.
  std::string problem() const { return sf_error(file_) == SF_ERR_NO_ERROR ? "" : visible_token(sf_strerror(file_)); }

 private:
  MemoryFile memory_;
  SF_INFO info_ = {};
  SNDFILE* file_ = nullptr;
};

// Frames by the size of a WAV file's data as its header names it: libsndfile tells what is there. 0: another format.
std::int64_t announced_wav_frames(std::string_view bytes, std::int64_t channels) {
  if (!bytes.starts_with("RIFF")) return 0;
  const auto number = [&](std::size_t at, int count) {
    std::int64_t value = 0;
    for (int i = count - 1; i >= 0; --i) {
      value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
    }
    return value;
  };
  std::int64_t bits = 0;
  for (std::size_t at = 12; at + 8 <= bytes.size();) {
    const std::int64_t size = number(at + 4, 4);
    const std::string_view name = bytes.substr(at, 4);
    if (name == "fmt " && size >= 16 && at + 24 <= bytes.size()) {
      if (const std::int64_t format = number(at + 8, 2); format != 1 && format != 3 && format != 0xfffe) return 0;
      bits = number(at + 22, 2);
    }
    // What is written into a pipe has no size: a header may say 0 or the largest number then.
    if (name == "data") return bits < 8 || size > 0xffffff00 ? 0 : size / (bits / 8 * channels);
    at += 8 + static_cast<std::size_t>(size + size % 2);
  }
  return 0;
}

// Adds the means of frames [count, channels] to the samples.
void mix(const float* frames, std::int64_t count, std::int64_t channels, std::vector<float>& samples,
         const std::string& about) {
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0.0;
    for (std::int64_t channel = 0; channel < channels; ++channel) sum += frames[i * channels + channel];
    const auto sample = static_cast<float>(sum / static_cast<double>(channels));
    check(std::isfinite(sample), about, ": sample ", samples.size(), " is not a finite number");
    samples.push_back(sample);
  }
}

}  // namespace

SoundFile decode_sound(std::string_view bytes, const std::string& about) {
  check(!bytes.empty(), about, ": an empty file, not a sound");
  check(has_sound_signature(bytes), about, ": not a sound: ", described_start(bytes),
        "; WAV, FLAC, Ogg, AIFF, AU and CAF can be read");
  OpenSound file(bytes, about);
  SoundFile sound;
  sound.rate = file.info().samplerate;
  sound.channels = file.info().channels;
  check(sound.rate > 0 && sound.channels > 0 && sound.channels <= kMostChannels, about, ": a sound of ", sound.rate,
        " Hz and ", sound.channels, " channels, expected some Hz and up to ", kMostChannels, " channels");
  std::vector<float> block(static_cast<std::size_t>(kFramesOfBlock * sound.channels));
  for (;;) {
    const std::int64_t count = file.read(block.data(), kFramesOfBlock);
    if (count <= 0) break;
    check(static_cast<std::int64_t>(sound.samples.size()) + count <= kMostSamples, about, ": more than ", kMostSamples,
          " samples");
    mix(block.data(), count, sound.channels, sound.samples, about);
  }
  check(file.problem().empty(), about, ": broken after ", sound.samples.size(), " samples: ", file.problem());
  check(!sound.samples.empty(), about, ": a sound without samples");
  // Where a format does not count its frames, libsndfile gives a very large number.
  sound.announced = std::max<std::int64_t>(file.info().frames, announced_wav_frames(bytes, sound.channels));
  return sound;
}

}  // namespace headway::inline v0::internal
