// The model of the example: its config, its tokens, what it reads.
#pragma once

#include <headway/audio.h>
#include <headway/headway.h>
#include <headway/text.h>

#include <filesystem>
#include <string>
#include <vector>

#include "strings.h"

namespace speech {

constexpr std::int64_t kStart = 10;  // the decoder's first input
constexpr std::int64_t kEnd = 11;    // the last token of every text
constexpr std::int64_t kSeconds = 7;

// 448 frames of 48 bins, one in 15.6 ms; filters up to 8000 Hz, as all of Whisper's models have them.
headway::LogMelOptions features_of_sounds();

// A new model in Whisper's layout with 4 encoder and 2 decoder layers of width 128, and what else its directory holds.
headway::TransformerModel new_model();
void save_directory(const headway::TransformerModel& model, const std::filesystem::path& directory);

// Features of one string at a mean of 0 and a variance of 1, padded to some seconds: [bins, frames].
headway::Tensor features_of(const Samples& samples, double seconds = kSeconds);
// The same with some frames and some bins hidden, so that a digit is known by more than one trait.
headway::Tensor masked_features(const Samples& samples, double seconds, Random& random);

}  // namespace speech
