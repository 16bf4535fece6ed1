// The beams of one sequence.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "generate/generated.h"

namespace headway::inline v0::internal {

// One more token for one of the beams.
struct Candidate {
  double score = 0.0;
  std::int64_t beam = 0;
  std::int64_t token = 0;
  double log_probability = 0.0;  // of the token, by the model
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
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  std::int64_t max_length = 0;  // new tokens
  std::vector<std::int64_t> end_ids = {};
  // Whether a text ends for another reason, from its new tokens; may be empty.
  std::function<bool(const std::vector<std::int64_t>& tokens)> stops = {};
};

// How many of the best continuations of all beams advance() takes.
std::int64_t candidates_of(const BeamOptions& options);

// Beam search as Hugging Face's generate() does it: of the best continuations the unfinished ones go on, those among
// the first `beam` that end become hypotheses, and the search ends when it has `beam` hypotheses and, depending on
// EarlyStopping, no unfinished beam can beat the worst of them. This is the search of one sequence.
class BeamSearch {
 public:
  explicit BeamSearch(BeamOptions options);

  // Scores of the beams: one at first, then as many as the options say.
  const std::vector<double>& scores() const { return scores_; }
  // The new tokens of each beam.
  const std::vector<std::vector<std::int64_t>>& so_far() const { return so_far_; }

  // Takes the best candidates_of() continuations, the best first.
  void advance(const std::vector<Candidate>& candidates);

  bool done() const { return done_; }
  // After advance(): which beam each new one continues, and with which token.
  const std::vector<std::int64_t>& parents() const { return parents_; }
  const std::vector<std::int64_t>& tokens() const { return tokens_; }

  // The best hypotheses, the best first.
  std::vector<Generated> best(std::int64_t count) const;

 private:
  void finish(const Candidate& candidate, EndReason reason);
  bool may_improve(std::size_t length) const;
  double normalised(double score, std::size_t length) const;

  BeamOptions options_;
  bool done_ = false;
  std::vector<double> scores_;                          // (beams)
  std::vector<std::vector<std::int64_t>> so_far_;       // (beams) tokens of each
  std::vector<std::vector<double>> log_probabilities_;  // (beams) likewise
  std::vector<std::int64_t> parents_;                   // (beams)
  std::vector<std::int64_t> tokens_;                    // (beams)
  std::vector<Generated> finished_;                     // sorted, at most `beam`
};

}  // namespace headway::inline v0::internal
