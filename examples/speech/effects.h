// What happens to a sound between a speaker and a file: speed, room, microphone, telephone, noise.
#pragma once

#include <cstdint>
#include <vector>

#include "random.h"

namespace speech {

using Samples = std::vector<float>;  // at kRate
constexpr double kRate = 8000.0;

// Root mean square; 0 of no samples.
float level_of(const Samples& sound);

// Faster and higher, or slower and deeper.
Samples at_speed(const Samples& sound, double speed);
// Faster or slower at the same pitch: pieces of 25 ms that overlap by half, each moved to where it fits best.
Samples at_tempo(const Samples& sound, double tempo);
// Without what is quieter than the loudest 20 ms by 35 dB at both ends.
Samples trimmed(const Samples& sound);

struct Biquad {
  double b0 = 1.0, b1 = 0.0, b2 = 0.0, a1 = 0.0, a2 = 0.0;
};
Biquad low_pass(double frequency);
Biquad high_pass(double frequency);
Biquad peak(double frequency, double decibels);
void filter(Samples& sound, const Biquad& biquad);

// A microphone, a room, a line: some of tilt, telephone band, a resonance, echoes, 8-bit companding, clipping.
void colour(Samples& sound, Random& random);
// Adds white, pink or brown noise or hum, `decibels` below the loud parts of the sound.
void add_noise(Samples& sound, double decibels, Random& random);

}  // namespace speech
