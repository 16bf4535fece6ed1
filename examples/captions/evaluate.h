// How good the captions of a model are.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "captions/emoji.h"

namespace captions {

struct EvaluationOptions {
  std::int64_t side = kNaturalSide;  // pictures are resized to this many pixels first
  double background = 1.0;           // behind what is transparent: 0 is black, 1 white
  bool show_wrong = false;

  static constexpr std::int64_t kNaturalSide = 72;
};

// 2 * shared / (words of both), where a mark of punctuation counts as a word.
double word_f1(const std::string& expected, const std::string& found);

// Prints exact captions and word F1 of both held-out parts, by greedy search and with 4 beams.
void evaluate(const std::filesystem::path& model, const std::vector<Emoji>& emoji, const EvaluationOptions& options);

}  // namespace captions
