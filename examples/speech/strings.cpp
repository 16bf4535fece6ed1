#include "strings.h"

#include <headway/audio.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace speech {
namespace {

Samples recording(const std::filesystem::path& file) {
  const headway::Sound sound = headway::read_sound(file, static_cast<std::int64_t>(kRate));
  const float* values = sound.samples.data<float>();
  return {values, values + sound.samples.element_count()};
}

// One digit of a string, at a level of 1: as the speaker of this string says it.
Samples spoken(const Speaker& speaker, std::int64_t digit, double speed, double tempo, Random& random) {
  const std::vector<Samples>& takes = speaker.digits.at(static_cast<std::size_t>(digit));
  Samples samples = takes.at(static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(takes.size()) - 1)));
  if (random.chance(0.5)) samples = trimmed(samples);
  samples = at_speed(samples, speed * random.uniform(0.97, 1.03));
  if (tempo != 1.0) samples = at_tempo(samples, tempo);
  const double decibels = random.uniform(-3.0, 3.0);
  const float gain = static_cast<float>(std::pow(10.0, decibels / 20.0)) / std::max(level_of(samples), 1e-9F);
  for (float& sample : samples) sample *= gain;
  return samples;
}

double pause_of(Random& random) {
  const double kind = random.uniform();
  if (kind < 0.3) return random.uniform(0.0, 0.06);
  return kind < 0.9 ? random.uniform(0.06, 0.4) : random.uniform(0.4, 0.8);
}

void append_silence(Samples& samples, double seconds) {
  samples.resize(samples.size() + static_cast<std::size_t>(seconds * kRate), 0.0F);
}

// What is left of a second of nothing but the room.
DigitString without_digits(Random& random, double seconds) {
  DigitString result;
  result.samples.resize(static_cast<std::size_t>(random.uniform(0.2, seconds) * kRate));
  for (float& sample : result.samples) sample = 0.01F * random.noise();
  add_noise(result.samples, random.uniform(-30.0, 0.0), random);
  if (random.chance(0.5)) colour(result.samples, random);
  return result;
}

}  // namespace

std::vector<Speaker> read_speakers(const std::filesystem::path& data, const std::string& part) {
  std::ifstream split(data / "split.tsv");
  if (!split)
    throw headway::Error((data / "split.tsv").string() + " cannot be read: expected the unpacked spoken-digits");
  std::vector<Speaker> speakers;
  std::string name, kind;
  while (split >> name >> kind) {
    if (kind != part) continue;
    Speaker speaker = {.name = name, .digits = {}};
    for (std::size_t digit = 0; digit < kDigits.size(); ++digit) {
      for (int take = 0;; ++take) {
        const std::filesystem::path file =
            data / name / (std::to_string(digit) + "_" + name + "_" + std::to_string(take) + ".wav");
        if (!std::filesystem::exists(file)) break;
        speaker.digits[digit].push_back(recording(file));
      }
      if (speaker.digits[digit].empty()) {
        throw headway::Error((data / name).string() + " has no recording of " + kDigits[digit]);
      }
    }
    speakers.push_back(std::move(speaker));
  }
  if (speakers.empty())
    throw headway::Error((data / "split.tsv").string() + " has no speaker of the part \"" + part + "\"");
  return speakers;
}

DigitString make_string(const std::vector<Speaker>& speakers, std::uint64_t index, const StringOptions& options) {
  Random random(options.seed, index);
  if (options.for_training && random.chance(0.02)) return without_digits(random, options.seconds);
  const Speaker& speaker =
      speakers.at(static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(speakers.size()) - 1)));
  const std::int64_t count =
      random.integer(options.fewest, options.wide && random.chance(0.3) ? kMostDigits : options.most);
  const double range = options.for_training ? 0.2 : 0.15;
  const double speed = std::exp(random.uniform(-range, range));
  const double tempo = options.for_training && random.chance(0.4) ? std::exp(random.uniform(-0.35, 0.3)) : 1.0;

  DigitString result;
  append_silence(result.samples,
                 options.wide && random.chance(0.3) ? random.uniform(0.5, 4.0) : random.uniform(0.02, 0.5));
  const auto most = static_cast<std::size_t>(options.seconds * kRate);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t digit = random.integer(0, 9);
    const Samples samples = spoken(speaker, digit, speed, tempo, random);
    if (i > 0) append_silence(result.samples, pause_of(random));
    if (result.samples.size() + samples.size() > most) break;  // the string ends here
    result.samples.insert(result.samples.end(), samples.begin(), samples.end());
    result.digits.push_back(digit);
  }
  append_silence(result.samples, random.uniform(0.02, 0.6));
  result.samples.resize(std::min(result.samples.size(), most));

  if (options.for_training) colour(result.samples, random);
  if (random.chance(0.8)) add_noise(result.samples, random.uniform(options.for_training ? 5.0 : 15.0, 45.0), random);
  const float gain = static_cast<float>(std::pow(10.0, random.uniform(-60.0, -10.0) / 20.0));
  for (float& sample : result.samples) sample *= gain;
  return result;
}

}  // namespace speech
