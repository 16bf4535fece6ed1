#include "generate/beam.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace headway::inline v0::internal {

void BestCandidates::add(const Candidate& candidate) {
  if (!std::isfinite(candidate.score)) return;
  if (best_.size() == most_) {
    if (!(candidate.score > best_.back().score)) return;
    best_.pop_back();
  }
  const auto worse = [](const Candidate& a, const Candidate& b) { return a.score > b.score; };
  best_.insert(std::upper_bound(best_.begin(), best_.end(), candidate, worse), candidate);
}

std::int64_t candidates_of(const BeamOptions& options) {
  return std::max<std::int64_t>(2, 1 + static_cast<std::int64_t>(options.end_ids.size())) * options.beam;
}

BeamSearch::BeamSearch(BeamOptions options)
    : options_(std::move(options)), scores_(1, 0.0), so_far_(1), log_probabilities_(1) {}

double BeamSearch::normalised(double score, std::size_t length) const {
  return score / std::pow(static_cast<double>(length), options_.length_penalty);
}

void BeamSearch::finish(const Candidate& candidate, EndReason reason) {
  const auto beam = static_cast<std::size_t>(candidate.beam);
  Generated hypothesis = {.tokens = so_far_[beam], .log_probabilities = log_probabilities_[beam], .reason = reason};
  hypothesis.tokens.push_back(candidate.token);
  hypothesis.log_probabilities.push_back(candidate.log_probability);
  hypothesis.score = normalised(candidate.score, hypothesis.tokens.size());
  const auto better = [](const Generated& a, const Generated& b) { return a.score > b.score; };
  finished_.insert(std::upper_bound(finished_.begin(), finished_.end(), hypothesis, better), hypothesis);
  if (finished_.size() > static_cast<std::size_t>(options_.beam)) finished_.pop_back();
}

// Whether the best unfinished beam could still beat the worst hypothesis.
bool BeamSearch::may_improve(std::size_t length) const {
  if (finished_.size() < static_cast<std::size_t>(options_.beam)) return true;
  if (options_.early_stopping == EarlyStopping::first) return false;
  const bool by_longest = options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0;
  const std::size_t at = by_longest ? static_cast<std::size_t>(options_.max_length) : length;
  return normalised(scores_.front(), at) > finished_.back().score;
}

void BeamSearch::advance(const std::vector<Candidate>& candidates) {
  const auto beam = static_cast<std::size_t>(options_.beam);
  const std::size_t length = so_far_.front().size() + 1;
  const bool at_end = static_cast<std::int64_t>(length) >= options_.max_length;
  std::vector<const Candidate*> running;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const auto& ends = options_.end_ids;
    bool stops = false;
    EndReason reason = EndReason::length;
    if (std::find(ends.begin(), ends.end(), candidate.token) != ends.end()) {
      stops = true;
      reason = EndReason::end_token;
    } else if (options_.stops) {
      std::vector<std::int64_t> tokens = so_far_[static_cast<std::size_t>(candidate.beam)];
      tokens.push_back(candidate.token);
      stops = options_.stops(tokens);
      if (stops) reason = EndReason::stop_text;
    }
    stops = stops || at_end;
    if (stops && i < beam) finish(candidate, reason);
    if (!stops && running.size() < beam) running.push_back(&candidate);
  }
  done_ = running.empty();
  if (done_) return;
  // A vocabulary smaller than the beam: copies of the best beam, with a score that never wins, fill the rest.
  std::vector<std::vector<std::int64_t>> so_far;
  std::vector<std::vector<double>> log_probabilities;
  scores_.clear();
  parents_.clear();
  tokens_.clear();
  for (std::size_t i = 0; i < beam; ++i) {
    const bool is_filler = i >= running.size();
    const Candidate& candidate = *running[is_filler ? 0 : i];
    const auto parent = static_cast<std::size_t>(candidate.beam);
    so_far.push_back(so_far_[parent]);
    so_far.back().push_back(candidate.token);
    log_probabilities.push_back(log_probabilities_[parent]);
    log_probabilities.back().push_back(candidate.log_probability);
    scores_.push_back(is_filler ? -1e9 : candidate.score);
    parents_.push_back(candidate.beam);
    tokens_.push_back(candidate.token);
  }
  so_far_ = std::move(so_far);
  log_probabilities_ = std::move(log_probabilities);
  done_ = !may_improve(length);
}

std::vector<Generated> BeamSearch::best(std::int64_t count) const {
  const std::size_t most = std::min(finished_.size(), static_cast<std::size_t>(count));
  return {finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(most)};
}

}  // namespace headway::inline v0::internal
