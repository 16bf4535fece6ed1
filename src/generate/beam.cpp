#include "generate/beam.h"

#include <algorithm>
#include <cmath>

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

BeamSearch::BeamSearch(const BeamOptions& options) : options_(options), scores_(1, 0.0), so_far_(1) {}

double BeamSearch::normalised(double score, std::size_t length) const {
  return score / std::pow(static_cast<double>(length), options_.length_penalty);
}

void BeamSearch::finish(const Candidate& candidate) {
  Hypothesis hypothesis;
  hypothesis.tokens = so_far_[static_cast<std::size_t>(candidate.beam)];
  hypothesis.tokens.push_back(candidate.token);
  hypothesis.score = normalised(candidate.score, hypothesis.tokens.size());
  hypothesis.complete = candidate.token == options_.eos;
  const auto better = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
  finished_.insert(std::upper_bound(finished_.begin(), finished_.end(), hypothesis, better), hypothesis);
  if (finished_.size() > static_cast<std::size_t>(options_.beam)) finished_.pop_back();
}

void BeamSearch::advance(const std::vector<Candidate>& candidates) {
  const auto beam = static_cast<std::size_t>(options_.beam);
  const std::size_t length = so_far_.front().size() + 1;
  const bool at_end = static_cast<std::int64_t>(length) >= options_.max_length;
  std::vector<const Candidate*> running;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const bool stops = at_end || candidate.token == options_.eos;
    if (stops && i < beam) finish(candidate);
    if (!stops && running.size() < beam) running.push_back(&candidate);
  }
  done_ = running.empty();
  if (done_) return;
  // A vocabulary smaller than the beam: copies of the best beam, with a score that never wins, fill the rest.
  std::vector<std::vector<std::int64_t>> so_far;
  scores_.clear();
  parents_.clear();
  tokens_.clear();
  for (std::size_t i = 0; i < beam; ++i) {
    const bool is_filler = i >= running.size();
    const Candidate& candidate = *running[is_filler ? 0 : i];
    so_far.push_back(so_far_[static_cast<std::size_t>(candidate.beam)]);
    so_far.back().push_back(candidate.token);
    scores_.push_back(is_filler ? -1e9 : candidate.score);
    parents_.push_back(candidate.beam);
    tokens_.push_back(candidate.token);
  }
  so_far_ = std::move(so_far);
  done_ = finished_.size() == beam && normalised(scores_.front(), length) <= finished_.back().score;
}

std::vector<Hypothesis> BeamSearch::best(std::int64_t count) const {
  const std::size_t most = std::min(finished_.size(), static_cast<std::size_t>(count));
  return {finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(most)};
}

}  // namespace headway::inline v0::internal
