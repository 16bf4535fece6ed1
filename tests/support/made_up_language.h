// Sentence pairs of a made-up language, and a training run small enough for a test.
#pragma once

#include <array>
#include <fstream>
#include <random>
#include <string>

#include "headway/translation_training.h"
#include "support/files.h"

namespace headway_test {

struct MadeUpPair {
  std::string source;
  std::string target;
};

// A sentence of two to six words, and the same word by word from behind.
inline MadeUpPair made_up_pair(unsigned seed) {
  constexpr std::array<const char*, 24> kWords = {"ka",  "mo",  "ti",  "lu",  "re",  "so",  "na",  "pe",
                                                  "wi",  "du",  "fa",  "go",  "hi",  "je",  "bu",  "ce",
                                                  "kam", "tol", "rif", "sun", "bel", "dor", "gip", "hut"};
  constexpr std::array<const char*, 24> kMeanings = {"Xor", "Yip", "Zan", "Qel", "Vum", "Olt", "Ird", "Enk",
                                                     "Ars", "Ubl", "Yad", "Zet", "Xim", "Qod", "Vap", "Osk",
                                                     "Ilm", "Erg", "Aft", "Unt", "Yus", "Zob", "Xek", "Qin"};
  std::mt19937 random(seed);
  const unsigned count = 2 + random() % 5;
  MadeUpPair pair;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned word = random() % kWords.size();
    const std::string space = i == 0 ? "" : " ";
    pair.source.append(space).append(kWords[word]);
    pair.target = std::string(kMeanings[word]).append(space).append(pair.target);
  }
  return pair;
}

inline void write_made_up_pairs(const std::filesystem::path& file, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) {
    const MadeUpPair pair = made_up_pair(i);
    text += pair.source + "\t" + pair.target + "\n";
  }
  write_bytes(file, text);
}

// A config for directory/pairs.tsv with directory/model as its output.
inline headway::TranslationTrainingConfig small_run(const TemporaryDirectory& directory) {
  headway::TranslationTrainingConfig config;
  config.data = directory / "pairs.tsv";
  config.output = directory / "model";
  config.vocab_size = 320;
  config.width = 32;
  config.heads = 4;
  config.encoder_layers = config.decoder_layers = 2;
  config.feed_forward = 64;
  config.dropout = 0.05;
  config.batch_tokens = 1500;
  config.epochs = 100;
  config.max_steps = 24;
  config.learning_rate = 5e-3;
  config.warmup_steps = 40;
  config.label_smoothing = 0.05;
  config.checkpoint_every = 7;
  config.keep_checkpoints = 2;
  config.validate_every = 10;
  config.validate_sentences = 20;
  return config;
}

}  // namespace headway_test
