#include "effects.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace speech {
namespace {

constexpr double kPi = 3.14159265358979323846;

float gain_of(double decibels) { return static_cast<float>(std::pow(10.0, decibels / 20.0)); }

// The level of the loudest fifth of the stretches of 20 ms.
float loud_level_of(const Samples& sound) {
  constexpr std::size_t kStretch = 160;
  std::vector<float> powers;
  for (std::size_t begin = 0; begin + kStretch <= sound.size(); begin += kStretch) {
    float power = 0.0F;
    for (std::size_t i = begin; i < begin + kStretch; ++i) power += sound[i] * sound[i];
    powers.push_back(power / static_cast<float>(kStretch));
  }
  if (powers.empty()) return level_of(sound);
  const auto place = powers.begin() + static_cast<std::ptrdiff_t>(powers.size() * 4 / 5);
  std::nth_element(powers.begin(), place, powers.end());
  return std::sqrt(*place);
}

// Sparse reflections that decay, as a room's.
void add_echoes(Samples& sound, Random& random) {
  const double decay = random.uniform(0.02, 0.15);  // seconds to 1 / e
  const double strength = random.uniform(0.1, 0.5);
  const Samples dry = sound;
  for (int echo = 0; echo < 24; ++echo) {
    const double delay = random.uniform(0.003, 2.5 * decay);
    const auto shift = static_cast<std::size_t>(delay * kRate);
    const auto gain = static_cast<float>(strength * std::exp(-delay / decay) * random.uniform(-1.0, 1.0));
    for (std::size_t i = shift; i < sound.size(); ++i) sound[i] += gain * dry[i - shift];
  }
}

// As a line of a digital telephone: 8 bits by the mu law.
void compand(Samples& sound) {
  float most = 1e-9F;
  for (const float sample : sound) most = std::max(most, std::abs(sample));
  const float scale = std::log1p(255.0F);
  for (float& sample : sound) {
    const float code = std::round(127.0F * std::log1p(255.0F * std::abs(sample) / most) / scale) / 127.0F;
    sample = std::copysign(most * std::expm1(code * scale) / 255.0F, sample);
  }
}

void tilt(Samples& sound, float amount) {
  float before = 0.0F;
  for (float& sample : sound) {
    const float now = sample;
    sample = now + amount * before;
    before = now;
  }
}

}  // namespace

float level_of(const Samples& sound) {
  double power = 0.0;
  for (const float sample : sound) power += static_cast<double>(sample) * static_cast<double>(sample);
  return sound.empty() ? 0.0F : static_cast<float>(std::sqrt(power / static_cast<double>(sound.size())));
}

Samples at_speed(const Samples& sound, double speed) {
  if (sound.size() < 4) return sound;
  Samples result(static_cast<std::size_t>(static_cast<double>(sound.size()) / speed));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double place = static_cast<double>(i) * speed;
    const std::size_t at = std::clamp<std::size_t>(static_cast<std::size_t>(place), 1, sound.size() - 3);
    const auto t = static_cast<float>(place - static_cast<double>(at));
    const float a = sound[at - 1], b = sound[at], c = sound[at + 1], d = sound[at + 2];
    // Catmull and Rom's cubic
    result[i] = b + 0.5F * t * (c - a + t * (2.0F * a - 5.0F * b + 4.0F * c - d + t * (3.0F * (b - c) + d - a)));
  }
  return result;
}

Samples at_tempo(const Samples& sound, double tempo) {
  constexpr std::size_t kPiece = 200, kHop = kPiece / 2, kSearch = 60;
  if (sound.size() < 2 * kPiece + 2 * kSearch) return sound;
  const std::size_t last = sound.size() - kPiece - kSearch;
  Samples result(static_cast<std::size_t>(static_cast<double>(sound.size()) / tempo) + kPiece, 0.0F);
  std::size_t end = 0, follows = 0;  // where the piece before would have gone on
  for (std::size_t out = 0; out + kPiece <= result.size(); out += kHop) {
    const std::size_t wanted = std::min(static_cast<std::size_t>(static_cast<double>(out) * tempo), last);
    std::size_t best = wanted;
    if (out > 0 && follows + kHop <= sound.size()) {
      float most = -1e30F;
      for (std::size_t at = wanted > kSearch ? wanted - kSearch : 0; at <= wanted + kSearch; at += 2) {
        float product = 0.0F;
        for (std::size_t i = 0; i < kHop; ++i) product += sound[at + i] * sound[follows + i];
        if (product > most) {
          most = product;
          best = at;
        }
      }
    }
    for (std::size_t i = 0; i < kPiece; ++i) {
      const float window = 1.0F - std::abs(static_cast<float>(i) / static_cast<float>(kHop) - 1.0F);
      result[out + i] += window * sound[best + i];
    }
    follows = best + kHop;
    end = out + kPiece;
    if (wanted == last) break;
  }
  result.resize(std::min(end, result.size()));
  return result;
}

Samples trimmed(const Samples& sound) {
  constexpr std::size_t kStretch = 160;
  std::vector<float> powers;
  for (std::size_t begin = 0; begin + kStretch <= sound.size(); begin += kStretch) {
    float power = 0.0F;
    for (std::size_t i = begin; i < begin + kStretch; ++i) power += sound[i] * sound[i];
    powers.push_back(power);
  }
  if (powers.empty()) return sound;
  const float least = *std::max_element(powers.begin(), powers.end()) * 3.2e-4F;
  std::size_t first = 0, last = powers.size();
  while (first + 1 < last && powers[first] < least) ++first;
  while (last > first + 1 && powers[last - 1] < least) --last;
  return {sound.begin() + static_cast<std::ptrdiff_t>(first * kStretch),
          sound.begin() + static_cast<std::ptrdiff_t>(last * kStretch)};
}

// The usual filters of second order (bilinear transform), of quality 0.7 and, for a peak, 1.5.
Biquad low_pass(double frequency) {
  const double w = 2.0 * kPi * frequency / kRate, alpha = std::sin(w) / 1.4, a0 = 1.0 + alpha;
  const double b = (1.0 - std::cos(w)) / 2.0;
  return {b / a0, 2.0 * b / a0, b / a0, -2.0 * std::cos(w) / a0, (1.0 - alpha) / a0};
}

Biquad high_pass(double frequency) {
  const double w = 2.0 * kPi * frequency / kRate, alpha = std::sin(w) / 1.4, a0 = 1.0 + alpha;
  const double b = (1.0 + std::cos(w)) / 2.0;
  return {b / a0, -2.0 * b / a0, b / a0, -2.0 * std::cos(w) / a0, (1.0 - alpha) / a0};
}

Biquad peak(double frequency, double decibels) {
  const double w = 2.0 * kPi * frequency / kRate, alpha = std::sin(w) / 3.0, gain = std::pow(10.0, decibels / 40.0);
  const double a0 = 1.0 + alpha / gain;
  return {(1.0 + alpha * gain) / a0, -2.0 * std::cos(w) / a0, (1.0 - alpha * gain) / a0, -2.0 * std::cos(w) / a0,
          (1.0 - alpha / gain) / a0};
}

void filter(Samples& sound, const Biquad& biquad) {
  double x1 = 0.0, x2 = 0.0, y1 = 0.0, y2 = 0.0;
  for (float& sample : sound) {
    const double x = sample;
    const double y = biquad.b0 * x + biquad.b1 * x1 + biquad.b2 * x2 - biquad.a1 * y1 - biquad.a2 * y2;
    x2 = x1;
    x1 = x;
    y2 = y1;
    y1 = y;
    sample = static_cast<float>(y);
  }
}

void colour(Samples& sound, Random& random) {
  if (random.chance(0.4)) add_echoes(sound, random);
  if (random.chance(0.5)) tilt(sound, static_cast<float>(random.uniform(-0.7, 0.7)));
  if (random.chance(0.4)) filter(sound, peak(random.uniform(200.0, 3200.0), random.uniform(-10.0, 10.0)));
  if (random.chance(0.3)) filter(sound, high_pass(random.uniform(60.0, 400.0)));
  if (random.chance(0.25)) filter(sound, low_pass(random.uniform(2000.0, 3700.0)));
  if (random.chance(0.1)) compand(sound);
  if (random.chance(0.08)) {
    const float most = loud_level_of(sound) * static_cast<float>(random.uniform(1.0, 3.0));
    for (float& sample : sound) sample = std::clamp(sample, -most, most);
  }
}

void add_noise(Samples& sound, double decibels, Random& random) {
  Samples noise(sound.size());
  const std::int64_t kind = random.integer(0, 3);
  if (kind == 3) {  // hum of the mains and its harmonics
    const double base = random.chance(0.5) ? 50.0 : 60.0;
    const double second = random.uniform(), third = random.uniform(), phase = random.uniform(0.0, 2.0 * kPi);
    for (std::size_t i = 0; i < noise.size(); ++i) {
      const double angle = 2.0 * kPi * base * static_cast<double>(i) / kRate + phase;
      noise[i] = static_cast<float>(std::sin(angle) + second * std::sin(2.0 * angle) + third * std::sin(3.0 * angle)) +
                 0.1F * random.noise();
    }
  } else {
    const float keep = kind == 0 ? 0.0F : kind == 1 ? 0.85F : 0.98F;  // white, pinkish, brown
    float before = 0.0F;
    for (float& sample : noise) {
      before = keep * before + random.noise();
      sample = before;
    }
  }
  const float gain = loud_level_of(sound) * gain_of(-decibels) / std::max(level_of(noise), 1e-9F);
  for (std::size_t i = 0; i < sound.size(); ++i) sound[i] += gain * noise[i];
}

}  // namespace speech
