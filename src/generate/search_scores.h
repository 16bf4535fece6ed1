// The best tokens of a row of logits.
#pragma once

#include <cstdint>
#include <vector>

namespace headway::inline v0::internal {

struct Candidate {
  double score = 0.0;
  std::int64_t row = 0;    // the beam that it continues
  std::int64_t token = 0;  // the token that comes next
};

// The largest value of every block of a row of logits, by which most of the row needs no second look.
class BlockMaxima {
 public:
  // Looks at `count` values, which must stay as they are while this is used.
  BlockMaxima(const float* values, std::int64_t count);

  // The index of the largest value, the first of equals.
  std::int64_t best_index() const;

 private:
  friend class BestCandidates;

  const float* values_;
  std::int64_t count_;
  std::vector<float> maxima_;
};

// Collects the best so many candidates over several rows. Of equal scores the one that came first is better.
class BestCandidates {
 public:
  explicit BestCandidates(std::int64_t most) : most_(static_cast<std::size_t>(most)) {}

  // Tokens of one row, whose scores are logits[token] + offset.
  void add_row(std::int64_t row, const BlockMaxima& logits, double offset);

  // One continuation of a row. Of a row's, those with the same score come in the order of their tokens.
  void add_token(std::int64_t row, std::int64_t token, double score);

  // The best first.
  const std::vector<Candidate>& sorted() const { return best_; }
  void clear() { best_.clear(); }

 private:
  void add(const Candidate& candidate);

  std::size_t most_;
  std::vector<Candidate> best_;  // sorted
};

}  // namespace headway::inline v0::internal
