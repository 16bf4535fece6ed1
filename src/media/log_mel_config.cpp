// What Whisper's preprocessor_config.json says about the spectrogram.
#include "base/check.h"
#include "headway/audio.h"
#include "media/preprocessor_config.h"

namespace headway::inline v0 {

LogMelOptions LogMelOptions::load(const std::filesystem::path& directory) {
  const internal::PreprocessorConfig config(directory);
  const internal::Json* kind = config.find("feature_extractor_type");
  internal::check(kind == nullptr || kind->text() == "\"WhisperFeatureExtractor\"", config.file(),
                  ": feature_extractor_type is ", kind ? kind->text() : "", ", expected \"WhisperFeatureExtractor\"");
  LogMelOptions options;
  options.max_frequency = 8000.0;
  config.integer("sampling_rate", options.rate);
  config.integer("n_fft", options.window, 2);
  config.integer("hop_length", options.hop);
  config.integer("feature_size", options.bins);
  // Transformers computes n_samples from chunk_length, whatever the file says.
  double seconds = 30.0;
  config.number("chunk_length", seconds);
  internal::check(seconds > 0.0 && seconds <= 3600.0, config.file(), ": chunk_length is ", seconds,
                  ", expected up to 3600 seconds");
  options.length = static_cast<std::int64_t>(seconds * static_cast<double>(options.rate));
  config.number("max_frequency", options.max_frequency);
  internal::check(options.max_frequency >= 0.0, config.file(), ": max_frequency is ", options.max_frequency,
                  ", expected 0 or a frequency in Hz");
  double dither = 0.0;
  config.number("dither", dither);
  internal::check(dither == 0.0, config.file(), ": dither is ", dither, ", expected 0");
  // Transformers has it as an argument of the call.
  options.normalize = config.boolean("do_normalize", false);
  return options;
}

void LogMelOptions::save(const std::filesystem::path& directory) const {
  const double seconds = static_cast<double>(length) / static_cast<double>(rate);
  const auto whole = static_cast<std::int64_t>(seconds);
  internal::check(length > 0 && rate > 0 && whole * rate == length, "LogMelOptions::save: length is ", length,
                  ", expected whole seconds of ", rate, " Hz");
  internal::Json json = internal::Json::object();
  json.set("feature_extractor_type", "WhisperFeatureExtractor");
  json.set("feature_size", bins);
  json.set("sampling_rate", rate);
  json.set("n_fft", window);
  json.set("hop_length", hop);
  json.set("chunk_length", whole);
  json.set("n_samples", length);
  json.set("nb_max_frames", length / hop);
  json.set("padding_side", "right");
  json.set("padding_value", 0.0);
  json.set("return_attention_mask", false);
  if (normalize) json.set("do_normalize", true);
  if (max_frequency != 8000.0) json.set("max_frequency", max_frequency);
  internal::save_preprocessor_config(directory, json);
}

}  // namespace headway::inline v0
