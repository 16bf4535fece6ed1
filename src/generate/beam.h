// The beams of one source.
#pragma once

#include <cstdint>
#include <vector>

#include "headway/translator.h"

namespace headway::inline v0::internal {

// One more token for one of the beams.
struct Candidate {
  double score = 0.0;
  std::int64_t beam = 0;
  std::int64_t token = 0;
};

// Collects a given number of the best candidates of all beams. Of equal scores the first one added is better.
class BestCandidates {
 public:
  explicit BestCandidates(std::int64_t most) : most_(static_cast<std::size_t>(most)) {}

  // Scores that are not finite are left out.
  void add(const Candidate& candidate);

  // The best first.
  const std::vector<Candidate>& sorted() const { return best_; }
  void clear() { best_.clear(); }

 private:
  std::size_t most_;
  std::vector<Candidate> best_;  // sorted
};

struct BeamOptions {
  std::int64_t beam = 1;
  double length_penalty = 1.0;
  std::int64_t max_length = 0;
  std::int64_t eos = 0;
};

// Beam search as Hugging Face's generate() does it with early_stopping = False: of the best 2 * beam continuations the
// unfinished ones go on, those among the first `beam` that end a sentence become hypotheses, and the search ends when
// it has `beam` hypotheses and the best unfinished beam, at its present length, does not beat the worst of them.
// This is the search of one source.
class BeamSearch {
 public:
  explicit BeamSearch(const BeamOptions& options);

  // Scores of the beams: one at first, then as many as the options say.
  const std::vector<double>& scores() const { return scores_; }

  // Takes the best 2 * beam continuations, the best first.
  void advance(const std::vector<Candidate>& candidates);

  bool done() const { return done_; }
  // After advance(): which beam each new one continues, and with which token.
  const std::vector<std::int64_t>& parents() const { return parents_; }
  const std::vector<std::int64_t>& tokens() const { return tokens_; }

  // The best hypotheses, the best first.
  std::vector<Hypothesis> best(std::int64_t count) const;

 private:
  void finish(const Candidate& candidate);
  double normalised(double score, std::size_t length) const;

  BeamOptions options_;
  bool done_ = false;
  std::vector<double> scores_;                     // (beams)
  std::vector<std::vector<std::int64_t>> so_far_;  // (beams) tokens of each
  std::vector<std::int64_t> parents_;              // (beams)
  std::vector<std::int64_t> tokens_;               // (beams)
  std::vector<Hypothesis> finished_;               // sorted, at most `beam`
};

}  // namespace headway::inline v0::internal
