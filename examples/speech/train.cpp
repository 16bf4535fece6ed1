// Spoken digits: trains a model of Whisper's layout on strings of them, and counts its errors.
//
//   example_speech train DATA --output DIR [--also VOICES] [--from MODEL] [--steps N] [--resume]
//   example_speech batches DATA [--steps N] [--seed N] > FILE
//   example_speech evaluate DATA [MODEL] [--part test|validation] [--strings N] [--beams N]
//   example_speech make-samples DATA DIR
//
// DATA is the unpacked spoken-digits.
#include <headway/audio.h>
#include <headway/headway.h>
#include <headway/text.h>
#include <headway/transcriber.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <iostream>

#include "recognizer.h"
#include "score.h"
#include "strings.h"
#include "support/program.h"

namespace speech {
namespace {

// The tokens that the decoder reads and those that it is to write, padded to one length.
struct Target {
  headway::Tensor inputs;   // int64 [batch, length]
  headway::Tensor outputs;  // the same; -100 is ignored
};

Target target_of(const std::vector<DigitString>& strings) {
  constexpr std::int64_t kLength = kMostDigits + 1;
  std::vector<std::int64_t> inputs, outputs;
  for (const DigitString& string : strings) {
    inputs.push_back(kStart);
    for (std::int64_t i = 0; i < kLength; ++i) {
      const auto count = static_cast<std::int64_t>(string.digits.size());
      const std::int64_t token = i < count ? string.digits[static_cast<std::size_t>(i)] : kEnd;
      outputs.push_back(i <= count ? token : -100);
      if (i + 1 < kLength) inputs.push_back(token);
    }
  }
  const auto batch = static_cast<std::int64_t>(strings.size());
  return {headway::Tensor::from(inputs, {batch, kLength}), headway::Tensor::from(outputs, {batch, kLength})};
}

// A decoder that is to find words in a long sound learns nothing for a long time. So it begins with one or two digits
// in a short sound, of which there are more in a batch: every step costs about the same.
struct Stage {
  double seconds;
  std::int64_t most_digits;
  std::int64_t batch;
};

constexpr Stage kLastStage = {.seconds = kSeconds, .most_digits = 6, .batch = 16};

Stage stage_of(std::int64_t index, std::int64_t steps) {
  const double done = static_cast<double>(index) / static_cast<double>(steps);
  if (done < 0.12) return {.seconds = 1.75, .most_digits = 2, .batch = 64};
  if (done < 0.4) return {.seconds = 3.5, .most_digits = 4, .batch = 32};
  return kLastStage;
}

// Voices as synthetic_voices.sh writes them, without the silence around each word.
std::vector<Speaker> synthetic_speakers(const std::filesystem::path& folder) {
  std::vector<Speaker> speakers = read_speakers(folder, "train");
  for (Speaker& speaker : speakers) {
    for (std::vector<Samples>& takes : speaker.digits) {
      for (Samples& take : takes) take = trimmed(take);
    }
  }
  return speakers;
}

struct Batch {
  headway::Tensor features;  // [batch, bins, frames]
  std::vector<DigitString> strings;
};

// The batch of a step, which follows from the seed and the step alone.
Batch make_batch(const std::vector<Speaker>& speakers, const std::vector<Speaker>& others, StringOptions options,
                 const Stage& stage, std::int64_t step) {
  options.seconds = stage.seconds;
  options.fewest = 1;
  options.most = stage.most_digits;
  options.for_training = true;
  std::vector<headway::Tensor> features;
  Batch batch;
  for (std::int64_t i = 0; i < stage.batch; ++i) {
    const auto index = static_cast<std::uint64_t>(step * 64 + i);
    Random random(options.seed + 1, index);
    const bool synthetic = !others.empty() && random.chance(0.35);
    batch.strings.push_back(make_string(synthetic ? others : speakers, index, options));
    features.push_back(masked_features(batch.strings.back().samples, stage.seconds, random));
  }
  batch.features = headway::stack(features);
  return batch;
}

headway::TransformerModel loaded_model(const std::filesystem::path& directory) {
  return headway::TransformerModel::load(directory, {.dtype = headway::DType::float32, .mapped = false});
}

int train(example::Arguments& arguments) {
  example::TrainingRun run = {.output = "spoken-digits", .steps = 5000, .learning_rate = 1.5e-3, .weight_decay = 0.05};
  run.read(arguments);
  const std::string also = arguments.text("also", ""), from = arguments.text("from", "");
  arguments.check_all_used();

  const std::vector<Speaker> speakers = read_speakers(arguments.files().at(0), "train");
  const std::vector<Speaker> others = also.empty() ? std::vector<Speaker>() : synthetic_speakers(also);
  headway::set_random_seed(run.seed);
  const headway::TransformerModel model = from.empty() ? new_model() : loaded_model(from);
  std::cerr << speakers.size() << " speakers, " << others.size() << " synthetic voices; " << model.parameter_count()
            << " parameters\n";
  const auto loss_of = [&](const headway::BatchPosition& position) {
    const Stage stage = from.empty() ? stage_of(position.index, run.steps) : kLastStage;
    const Batch batch = make_batch(speakers, others, {.seed = run.seed, .wide = !from.empty()}, stage, position.index);
    const Target target = target_of(batch.strings);
    const headway::Tensor logits =
        model.forward({.features = batch.features, .target = target.inputs}).logits;  // [batch, length, 12]
    return headway::BatchLoss{headway::cross_entropy(logits, target.outputs, {.label_smoothing = 0.05}), stage.batch};
  };
  if (run.steps > 0) example::train(model, run, loss_of);  // else the initial weights alone are written
  model.eval();
  save_directory(model, run.output);
  return 0;
}

// Writes the batches of a run to the standard output, for the same training elsewhere (bench/speech_torch.py). Of each
// batch: its size and its frames as int32, the decoder's inputs and outputs as int64, the features as float32.
int batches(example::Arguments& arguments) {
  const std::int64_t steps = arguments.integer("steps", 5000), seed = arguments.integer("seed", 1);
  arguments.check_all_used();
  const std::vector<Speaker> speakers = read_speakers(arguments.files().at(0), "train");
  const auto write = [](const void* data, std::int64_t bytes) {
    std::cout.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  };
  for (std::int64_t step = 0; step < steps && std::cout; ++step) {
    const Batch batch =
        make_batch(speakers, {}, {.seed = static_cast<std::uint64_t>(seed)}, stage_of(step, steps), step);
    const Target target = target_of(batch.strings);
    const std::array<std::int32_t, 2> sizes = {static_cast<std::int32_t>(batch.features.size(0)),
                                               static_cast<std::int32_t>(batch.features.size(2))};
    write(sizes.data(), sizeof sizes);
    write(target.inputs.data<std::int64_t>(), target.inputs.element_count() * 8);
    write(target.outputs.data<std::int64_t>(), target.outputs.element_count() * 8);
    write(batch.features.data<float>(), batch.features.element_count() * 4);
  }
  if (!std::cout.flush()) throw headway::Error("the standard output cannot be written");
  return 0;
}

headway::Sound sound_of(const Samples& samples) {
  return {.samples = headway::Tensor::from(samples, {static_cast<std::int64_t>(samples.size())}),
          .rate = static_cast<std::int64_t>(kRate),
          .notes = {}};
}

// Transcripts of sounds, a hundred at a time.
std::vector<std::string> heard_in(const headway::Transcriber& transcriber, const std::vector<Samples>& sounds,
                                  std::int64_t beams) {
  std::vector<std::string> texts;
  for (std::size_t first = 0; first < sounds.size(); first += 100) {
    std::vector<headway::Sound> some;
    for (std::size_t i = first; i < std::min(first + 100, sounds.size()); ++i) some.push_back(sound_of(sounds[i]));
    for (const headway::Transcript& transcript : transcriber.transcribe(some, {.beams = beams, .words = false})) {
      texts.push_back(transcript.text);
    }
  }
  return texts;
}

void evaluate_strings(const headway::Transcriber& transcriber, const std::vector<Speaker>& speakers, std::int64_t count,
                      std::int64_t beams) {
  std::vector<Samples> sounds;
  std::vector<DigitString> strings;
  for (std::int64_t i = 0; i < count; ++i) {
    strings.push_back(make_string(speakers, static_cast<std::uint64_t>(i), {.seed = 2026}));
    sounds.push_back(strings.back().samples);
  }
  const std::vector<std::string> heard = heard_in(transcriber, sounds, beams);
  WordErrors errors;
  std::int64_t right = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    std::vector<std::string> reference;
    for (const std::int64_t digit : strings[i].digits)
      reference.emplace_back(kDigits.at(static_cast<std::size_t>(digit)));
    const WordErrors of_one = word_errors(reference, words_of(heard[i]));
    right += of_one.substitutions + of_one.insertions + of_one.deletions == 0 ? 1 : 0;
    errors += of_one;
  }
  std::cout << count << " strings, " << errors.words << " words: word error rate " << std::setprecision(2)
            << 100.0 * errors.rate() << "% (" << errors.substitutions << " substitutions, " << errors.insertions
            << " insertions, " << errors.deletions << " deletions); all right: " << right << '\n';
}

void evaluate_digits(const headway::Transcriber& transcriber, const std::vector<Speaker>& speakers,
                     std::int64_t beams) {
  std::int64_t right_of_all = 0, count_of_all = 0;
  for (const Speaker& speaker : speakers) {
    std::vector<Samples> sounds;
    std::vector<std::string> said;
    for (std::size_t digit = 0; digit < kDigits.size(); ++digit) {
      for (const Samples& samples : speaker.digits[digit]) {
        sounds.push_back(samples);
        said.emplace_back(kDigits[digit]);
      }
    }
    const std::vector<std::string> heard = heard_in(transcriber, sounds, beams);
    std::int64_t right = 0;
    for (std::size_t i = 0; i < said.size(); ++i) right += said[i] == heard[i] ? 1 : 0;
    std::cout << "speaker " << speaker.name << ": " << right << " of " << said.size() << " digits\n";
    right_of_all += right;
    count_of_all += static_cast<std::int64_t>(said.size());
  }
  std::cout << "single digits: " << right_of_all << " of " << count_of_all << ", "
            << 100.0 * static_cast<double>(right_of_all) / static_cast<double>(count_of_all) << "%\n";
}

int evaluate(example::Arguments& arguments) {
  const std::string part = arguments.text("part", "test");
  const std::int64_t count = arguments.integer("strings", 1000), beams = arguments.integer("beams", 1);
  arguments.check_all_used();
  const std::vector<Speaker> speakers = read_speakers(arguments.files().at(0), part);
  const headway::Transcriber transcriber(arguments.files().size() > 1 ? arguments.files()[1] : "models/spoken-digits");
  std::cout << std::fixed << std::setprecision(2);
  evaluate_strings(transcriber, speakers, count, beams);
  evaluate_digits(transcriber, speakers, beams);
  return 0;
}

// "7-0-4" of one test speaker, as a file of 8 kHz.
int make_samples(example::Arguments& arguments) {
  arguments.check_all_used();
  const std::vector<Speaker> speakers = read_speakers(arguments.files().at(0), "test");
  const std::filesystem::path output = arguments.files().at(1);
  const auto joined = [&](const Speaker& speaker, const std::vector<std::size_t>& digits) {
    Samples samples(2000, 0.0F);
    for (const std::size_t digit : digits) {
      const Samples& recording = speaker.digits.at(digit).front();
      samples.insert(samples.end(), recording.begin(), recording.end());
      samples.resize(samples.size() + 1600, 0.0F);
    }
    float most = 1e-9F;
    for (const float sample : samples) most = std::max(most, std::abs(sample));
    for (float& sample : samples) sample *= 0.5F / most;
    return samples;
  };
  headway::write_wav(output / "three-digits.wav", sound_of(joined(speakers.at(2), {7, 0, 4})));
  headway::write_wav(output / "six-digits.wav", sound_of(joined(speakers.at(7), {3, 1, 4, 1, 5, 9})));
  return 0;
}

int run(int count, char** words) {
  example::Arguments arguments(count, words);
  const std::map<std::string, std::pair<std::size_t, int (*)(example::Arguments&)>> commands = {
      {"train", {1, train}},
      {"batches", {1, batches}},
      {"evaluate", {1, evaluate}},
      {"make-samples", {2, make_samples}}};
  const auto found = commands.find(arguments.command());
  if (found == commands.end() || arguments.files().size() < found->second.first) {
    throw headway::Error(
        "expected: example_speech train DATA --output DIR | batches DATA | evaluate DATA [MODEL] | make-samples DATA "
        "DIR, where DATA "
        "is the unpacked spoken-digits");
  }
  return found->second.second(arguments);
}

}  // namespace
}  // namespace speech

int main(int count, char** words) {
  return example::run([&] { return speech::run(count, words); });
}
