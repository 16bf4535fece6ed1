// Transcriber: a sound's windows to features, features to tokens, tokens to text and times.
#include "headway/transcriber.h"

#include <utility>

#include "base/check.h"
#include "perception/speech_format.h"
#include "perception/transcription_job.h"
#include "tasks/feature_generator.h"

namespace headway::inline v0 {

using internal::check;

namespace {

// Files have 16-bit numbers to be small; the CPU computes in float32.
ModelLoading loading_of(const TaskOptions& options) {
  ModelLoading loading = {.dtype = options.dtype, .device = options.device};
  if (!loading.dtype && options.device.is_cpu()) loading.dtype = DType::float32;
  return loading;
}

void check_model(const TransformerModel& model, const internal::SpeechFormat& format,
                 const std::filesystem::path& directory) {
  const StackOptions& encoder = model.options().encoder;
  const LogMelOptions& features = format.features;
  check(features.bins == encoder.front.bins, directory.string(), ": preprocessor_config.json has ", features.bins,
        " bins, and the model reads ", encoder.front.bins);
  const std::int64_t frames = features.length / features.hop;
  check(features.length > 0 && (frames + 1) / 2 == encoder.max_positions, directory.string(),
        ": preprocessor_config.json has ", frames, " frames, and the model has ", encoder.max_positions,
        " positions, which are of two frames each");
}

}  // namespace

Transcriber::Transcriber(const std::filesystem::path& directory, const TaskOptions& options)
    : model_(TransformerModel::load(directory, loading_of(options))), tokenizer_(TextTokenizer::load(directory)) {
  check(model_.options().kind == ModelKind::encoder_decoder && model_.options().encoder.front.kind == FrontKind::sound,
        directory.string(), ": the model of family ", model_.family(), " reads no sound, expected one as whisper");
  auto format = std::make_shared<internal::SpeechFormat>(internal::read_speech_format(directory, model_));
  check_model(model_, *format, directory);
  check(tokenizer_.size() <= model_.options().vocab_size, directory.string(), ": the tokenizer has ", tokenizer_.size(),
        " tokens, and the model's vocabulary ", model_.options().vocab_size);
  format_ = std::move(format);
  generator_ = std::make_shared<const internal::FeatureGenerator>(model_);
}

Transcript Transcriber::transcribe(const Sound& sound, const TranscribeOptions& options) const {
  return transcribe(std::vector<Sound>{sound}, options).front();
}

Transcript Transcriber::transcribe(const std::filesystem::path& file, const TranscribeOptions& options) const {
  return transcribe(read_sound(file, rate()), options);
}

std::vector<Transcript> Transcriber::transcribe(const std::vector<Sound>& sounds,
                                                const TranscribeOptions& options) const {
  check(options.batch_size >= 1, "transcribe: batch_size is ", options.batch_size, ", expected 1 or more");
  internal::TranscriptionJob job(
      {.model = model_, .tokenizer = tokenizer_, .format = *format_, .generator = *generator_, .options = options});
  return job.run(sounds);
}

std::vector<std::string> Transcriber::languages() const {
  std::vector<std::string> codes;
  for (const auto& [code, token] : format_->languages) codes.push_back(code);
  return codes;
}

std::int64_t Transcriber::rate() const { return format_->features.rate; }

double Transcriber::window_seconds() const {
  return static_cast<double>(format_->features.length) / static_cast<double>(format_->features.rate);
}

}  // namespace headway::inline v0
