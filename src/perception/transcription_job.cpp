#include "perception/transcription_job.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "headway/autograd.h"
#include "headway/image.h"
#include "headway/ops.h"
#include "perception/word_times.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kFunction = "transcribe";

void add_note(std::string& notes, const std::string& note) { notes += (notes.empty() ? "" : "; ") + note; }

// Languages that are written without spaces between words.
bool has_no_spaces(const std::string& language) {
  static constexpr const char* kCodes[] = {"zh", "yue", "ja", "th", "lo", "my"};
  return std::find(std::begin(kCodes), std::end(kCodes), language) != std::end(kCodes);
}

std::string without_outer_spaces(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \n\t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \n\t") - begin + 1);
}

}  // namespace

std::int64_t TranscriptionJob::positions_of(const Part& part) const {
  const std::int64_t hop = input_.format.features.hop;
  const std::int64_t frames = std::min((part.window.length() + hop - 1) / hop, part.features.size(1));
  return std::max<std::int64_t>(frames / 2, 1);
}

std::vector<Transcript> TranscriptionJob::run(const std::vector<Sound>& sounds) {
  const NoGradGuard guard;
  std::vector<Transcript> transcripts(sounds.size());
  for (std::size_t i = 0; i < sounds.size(); ++i) add_windows(i, sounds[i], transcripts[i]);
  const auto batch = static_cast<std::size_t>(input_.options.batch_size);
  for (std::size_t first = 0; first < parts_.size(); first += batch) {
    transcribe(first, std::min(first + batch, parts_.size()));
  }
  std::vector<bool> is_silent(sounds.size(), true);
  for (const Part& part : parts_) {
    join(part, transcripts[part.sound]);
    is_silent[part.sound] = false;
  }
  for (std::size_t i = 0; i < sounds.size(); ++i) {
    Transcript& transcript = transcripts[i];
    if (!is_silent[i] && transcript.text.empty()) add_note(transcript.notes, "no words were heard");
    if (!transcript.tokens.empty()) transcript.score /= static_cast<double>(transcript.tokens.size());
  }
  return transcripts;
}

void TranscriptionJob::add_windows(std::size_t number, const Sound& sound, Transcript& transcript) {
  check(sound.samples.defined() && sound.samples.rank() == 1 && sound.samples.dtype() == DType::float32, kFunction,
        ": samples are no float32 tensor [length]");
  check(sound.rate > 0, kFunction, ": the sound's rate is ", sound.rate, ", expected samples a second");
  const LogMelOptions& format = input_.format.features;
  transcript.seconds = sound.seconds();
  transcript.notes = sound.notes;
  Tensor samples = sound.samples.contiguous();
  if (sound.rate != format.rate) {
    samples = resample(samples, sound.rate, format.rate);
    add_note(transcript.notes, "resampled from " + std::to_string(sound.rate) + " Hz");
  }
  const std::vector<SoundWindow> windows = sound_windows(samples, format.rate, format.length);
  const auto silent = std::count_if(windows.begin(), windows.end(), [](const SoundWindow& w) { return w.silent; });
  if (windows.empty()) {
    add_note(transcript.notes, "no samples");
  } else if (silent == static_cast<std::ptrdiff_t>(windows.size())) {
    if (transcript.notes.find("silence") == std::string::npos) add_note(transcript.notes, "silence");
  } else if (windows.size() > 1) {
    add_note(transcript.notes, std::to_string(windows.size()) + " windows, cut where it is quiet" +
                                   (silent > 0 ? ", " + std::to_string(silent) + " of them silent" : ""));
  }
  for (const SoundWindow& window : windows) {
    if (window.silent) continue;
    parts_.push_back(
        {.sound = number, .window = window, .features = log_mel(samples.slice(0, window.begin, window.end), format)});
  }
}

void TranscriptionJob::transcribe(std::size_t first, std::size_t last) {
  std::vector<Tensor> all;
  for (std::size_t i = first; i < last; ++i) all.push_back(parts_[i].features);
  const Tensor features = stack(all).to(input_.model.parameters().front().device());  // [parts, bins, frames]
  const bool detects = needs_language(input_.format, input_.options.language);
  Tensor memory;  // [parts, positions, width]
  if (detects || input_.options.words) memory = input_.model.encode({.features = features}).hidden;
  find_languages(first, last, memory);
  generate(first, last);
  if (input_.options.words) find_times(first, last, memory);
  if (!input_.options.attention) return;
  for (std::size_t i = first; i < last; ++i) parts_[i].attention = attention_of(parts_[i]);
}

// Sets the language and the prompt of each part.
void TranscriptionJob::find_languages(std::size_t first, std::size_t last, const Tensor& memory) {
  const SpeechFormat& format = input_.format;
  const std::string& wanted = input_.options.language.empty() ? format.language : input_.options.language;
  const std::string given = wanted.empty() ? "" : language_code_of(format, wanted);
  Tensor logits;  // [parts, vocab_size]
  if (needs_language(format, input_.options.language)) {
    ModelCache cache;
    const std::vector<std::int64_t> starts(last - first, format.start);
    const auto count = static_cast<std::int64_t>(starts.size());
    logits = input_.model.decode({.tokens = Tensor::from(starts, {count, 1})}, cache, memory)
                 .logits.to(Device::cpu())
                 .to(DType::float32)
                 .reshape({count, -1})
                 .contiguous();
  }
  for (std::size_t i = first; i < last; ++i) {
    Part& part = parts_[i];
    part.language = given;
    if (logits.defined()) {
      const float* row = logits.data<float>() + static_cast<std::int64_t>(i - first) * logits.size(1);
      const auto likeliest =
          std::max_element(format.languages.begin(), format.languages.end(),
                           [row](const auto& a, const auto& b) { return row[a.second] < row[b.second]; });
      part.language = likeliest->first;
    } else if (given.empty() && !format.forced.empty()) {  // the directory's own
      for (const auto& [code, token] : format.languages) {
        if (token == format.forced.front()) part.language = code;
      }
    }
    std::optional<std::int64_t> token;
    if (!part.language.empty()) token = format.languages.at(part.language);
    part.prompt = prompt_of(format, token, input_.options.task);
  }
}

void TranscriptionJob::generate(std::size_t first, std::size_t last) {
  std::vector<FeatureRequest> requests;
  for (std::size_t i = first; i < last; ++i) {
    requests.push_back({.features = parts_[i].features, .prompt = parts_[i].prompt});
  }
  // As in Transformers, the prompt does not count in max_length.
  std::optional<std::int64_t> most = input_.options.max_new_tokens;
  if (!most && input_.format.max_length) {
    const auto prompt = static_cast<std::int64_t>(parts_[first].prompt.size());
    most = std::min(*input_.format.max_length, input_.model.options().decoder.max_positions - prompt);
    check(*most > 0, kFunction, ": the prompt has ", prompt, " tokens, and the model has no positions for more");
  }
  std::vector<std::vector<GeneratedText>> generated = input_.generator.generate(
      kFunction, requests,
      {.max_new_tokens = most, .beams = input_.options.beams, .batch_size = input_.options.batch_size});
  for (std::size_t i = first; i < last; ++i) parts_[i].generated = std::move(generated[i - first].front());
}

// The decoder reads each part's prompt and tokens once more, to see what every token looked at.
void TranscriptionJob::find_times(std::size_t first, std::size_t last, const Tensor& memory) {
  std::size_t longest = 0;
  for (std::size_t i = first; i < last; ++i) {
    longest = std::max(longest, parts_[i].prompt.size() + parts_[i].generated.tokens.size() - 1);
  }
  std::vector<std::int64_t> read;  // [parts, longest]; what a token has behind it does not change its row
  for (std::size_t i = first; i < last; ++i) {
    read.insert(read.end(), parts_[i].prompt.begin(), parts_[i].prompt.end());
    const std::vector<std::int64_t>& tokens = parts_[i].generated.tokens;
    read.insert(read.end(), tokens.begin(), tokens.end() - 1);
    read.resize((i - first + 1) * longest, parts_[i].prompt.front());
  }
  const Shape shape = {static_cast<std::int64_t>(last - first), static_cast<std::int64_t>(longest)};
  ModelCache cache;
  const ModelResult result =
      input_.model.decode({.tokens = Tensor::from(read, shape), .weights = Weights::per_head}, cache, memory);
  for (std::size_t i = first; i < last; ++i) {
    Part& part = parts_[i];
    const auto begin = static_cast<std::int64_t>(part.prompt.size()) - 1;
    const auto end = begin + static_cast<std::int64_t>(part.generated.tokens.size());
    std::vector<Tensor> heads;  // [tokens, positions]: row i chose token i
    for (const auto& [layer, head] : input_.format.alignment_heads) {
      heads.push_back(result.cross_weights[static_cast<std::size_t>(layer)]
                          .select(0, static_cast<std::int64_t>(i - first))
                          .select(0, head)
                          .slice(0, begin, end)
                          .slice(1, 0, positions_of(part)));
    }
    const Tensor weights = stack(heads).to(Device::cpu()).to(DType::float32).contiguous();
    set_words(part, token_starts(alignment_scores(weights, input_.format.median_width)));
  }
}

void TranscriptionJob::set_words(Part& part, const std::vector<std::int64_t>& starts) const {
  const double step = input_.format.seconds_per_position();
  const auto rate = static_cast<double>(input_.format.features.rate);
  const double offset = static_cast<double>(part.window.begin) / rate;
  const double end = static_cast<double>(part.window.end) / rate;
  const std::vector<std::int64_t>& tokens = part.generated.tokens;
  StreamingDecoder decoder(input_.tokenizer);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const double start = std::min(offset + step * static_cast<double>(starts[i]), end);
    if (!part.words.empty()) part.words.back().end = start;  // until another token of the word moves it on
    const bool is_end = i + 1 == tokens.size() && part.generated.reason == EndReason::end_token;
    if (is_end || input_.tokenizer.is_special(tokens[i])) continue;
    const std::string piece = decoder.add(tokens[i]);
    const bool begins =
        part.words.empty() || piece.starts_with(" ") || (has_no_spaces(part.language) && !piece.empty());
    if (begins) part.words.push_back({.text = "", .start = start, .end = end});
    part.words.back().text += piece;
    part.words.back().end = end;
  }
  if (const std::string rest = decoder.finish(); !rest.empty() && !part.words.empty()) part.words.back().text += rest;
  for (TranscribedWord& word : part.words) word.text = without_outer_spaces(word.text);
  std::erase_if(part.words, [](const TranscribedWord& word) { return word.text.empty(); });
}

AttentionRecord TranscriptionJob::attention_of(const Part& part) const {
  std::vector<std::int64_t> read = part.prompt;
  const std::vector<std::int64_t>& tokens = part.generated.tokens;
  read.insert(read.end(), tokens.begin(), tokens.end() - 1);
  std::vector<std::int64_t> written(part.prompt.begin() + 1, part.prompt.end());
  written.insert(written.end(), tokens.begin(), tokens.end());
  const ModelResult result =
      input_.model.forward({.features = stack({part.features}).to(input_.model.parameters().front().device()),
                            .target = Tensor::from(read, {1, static_cast<std::int64_t>(read.size())}),
                            .weights = Weights::per_head});
  const std::int64_t positions = positions_of(part);
  const Tensor seen = part.features.slice(1, 0, std::min(2 * positions, part.features.size(1))).contiguous();
  MediaTokens media = {.medium = {.kind = MediumKind::sound,
                                  .png = encode_png(spectrogram_picture(seen)),
                                  .rows = 1,
                                  .columns = positions,
                                  .seconds = input_.format.seconds_per_position()},
                       .padding = result.memory.size(1) - positions};
  const auto label = [this](std::int64_t token) {
    const std::string text = without_outer_spaces(input_.tokenizer.decode({token}, /*skip_special_tokens=*/false));
    return text.empty() ? input_.tokenizer.token(token) : text;
  };
  for (const std::int64_t token : read) media.read.push_back(label(token));
  for (const std::int64_t token : written) media.written.push_back(label(token));
  AttentionRecord record = attention_record(result, media);
  record.target = without_outer_spaces(input_.tokenizer.decode(tokens));
  record.language = part.language;
  return record;
}

void TranscriptionJob::join(const Part& part, Transcript& transcript) const {
  const std::string text = without_outer_spaces(input_.tokenizer.decode(part.generated.tokens));
  if (!text.empty()) transcript.text += (transcript.text.empty() ? "" : " ") + text;
  transcript.tokens.insert(transcript.tokens.end(), part.generated.tokens.begin(), part.generated.tokens.end());
  transcript.words.insert(transcript.words.end(), part.words.begin(), part.words.end());
  for (const double value : part.generated.log_probabilities) transcript.score += value;
  if (transcript.language.empty()) transcript.language = part.language;
  if (part.attention) transcript.attention.push_back(*part.attention);
  if (part.generated.reason == EndReason::length) {
    add_note(transcript.notes, "the text from " + std::to_string(part.window.begin / input_.format.features.rate) +
                                   " s on was cut at " + std::to_string(part.generated.tokens.size()) + " tokens");
  }
}

}  // namespace headway::inline v0::internal
