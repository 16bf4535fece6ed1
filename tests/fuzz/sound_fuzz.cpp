// Feeds bytes to the reader of sounds and, as preprocessor_config.json, to that of the spectrogram's options. What is
// read has finite samples and can be resampled and made a spectrogram; what is refused must be an Error.
#include <cmath>

#include "headway/audio.h"
#include "headway/error.h"
#include "input_file.h"

// libsndfile 1.2 forgets what it allocated where the start of an Ogg file is refused.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libvorbis\nleak:libsndfile\n"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using headway_fuzz::require;
  static const headway_fuzz::InputDirectory directory;
  try {
    const headway::Sound sound =
        headway::parse_sound(std::string_view(reinterpret_cast<const char*>(input), size), "sound");
    require(sound.rate > 0 && sound.samples.rank() == 1 && sound.samples.size(0) > 0);
    const float* samples = sound.samples.data<const float>();
    for (std::int64_t i = 0; i < sound.samples.size(0); ++i) require(std::isfinite(samples[i]));
    const headway::Tensor start = sound.samples.slice(0, 0, 400);
    headway::log_mel(headway::resample(start, 8000, 16000), {.bins = 8, .length = 400});
  } catch (const headway::Error&) {
  }
  try {
    directory.write("preprocessor_config.json", input, size);
    headway::LogMelOptions options = headway::LogMelOptions::load(directory.path());
    require(options.rate > 0 && options.hop > 0 && options.length >= 0);
    if (options.length > 0 && options.length < 1 << 20) options.save(directory.path());
  } catch (const headway::Error&) {
  }
  return 0;
}
