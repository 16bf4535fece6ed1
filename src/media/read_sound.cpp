// Sounds as a model wants them: one channel, one rate, and what was done for that said in words.
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/files.h"
#include "headway/audio.h"
#include "media/notes.h"
#include "media/sound_file.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr std::size_t kMostSoundBytes = std::size_t{1} << 32;

// Notes on what the samples are like: silence, clipping by whoever plays them.
void note_levels(const SoundFile& file, std::string& notes) {
  float loudest = 0.0f;
  for (const float sample : file.samples) loudest = std::max(loudest, std::abs(sample));
  if (loudest == 0.0f) add_note(notes, "silence");
  if (loudest > 1.0f) add_note(notes, "samples of up to ", loudest, ", more than 1");
}

}  // namespace
}  // namespace internal

Sound parse_sound(std::string_view bytes, const std::string& about, std::int64_t rate) {
  using namespace internal;
  check(rate >= 0, about, ": rate is ", rate, ", expected 0 or more");
  const SoundFile file = decode_sound(bytes, about);
  const auto length = static_cast<std::int64_t>(file.samples.size());
  Sound sound = {.samples = Tensor::from(file.samples, {length}), .rate = file.rate, .notes = {}};
  if (file.announced > length) {
    add_note(sound.notes, "ends after ", length, " of ", file.announced, " samples");
  }
  if (file.channels > 1) add_note(sound.notes, "mixed from ", file.channels, " channels");
  note_levels(file, sound.notes);
  if (rate != 0 && rate != file.rate) {
    try {
      sound.samples = resample(sound.samples, file.rate, rate);
    } catch (const MemoryError&) {
      throw;
    } catch (const Error& error) {
      fail(about, ": ", error.what());
    }
    sound.rate = rate;
    add_note(sound.notes, "resampled from ", file.rate, " Hz");
  }
  return sound;
}

Sound read_sound(const std::filesystem::path& file, std::int64_t rate) {
  return parse_sound(internal::read_whole_file(file, {}, {.limit = internal::kMostSoundBytes}), file.string(), rate);
}

}  // namespace headway::inline v0
