#include "generate/search_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/divide.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kBlock = 128;  // values that are looked at one by one only where their maximum is good enough

// The maximum of whole lanes, written so that the compiler uses vectors.
float maximum(const float* values, std::int64_t count) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  float most = lanes[0];
  for (const float lane : lanes) most = lane > most ? lane : most;
  for (; i < count; ++i) most = values[i] > most ? values[i] : most;
  return most;
}

}  // namespace

BlockMaxima::BlockMaxima(const float* values, std::int64_t count) : values_(values), count_(count) {
  maxima_.reserve(static_cast<std::size_t>(divide_up(count, kBlock)));
  for (std::int64_t i = 0; i < count; i += kBlock) {
    maxima_.push_back(maximum(values + i, std::min(kBlock, count - i)));
  }
}

std::int64_t BlockMaxima::best_index() const {
  const auto best = std::max_element(maxima_.begin(), maxima_.end());
  std::int64_t index = (best - maxima_.begin()) * kBlock;
  while (index + 1 < count_ && values_[index] != *best) ++index;
  return index;
}

void BestCandidates::add_row(std::int64_t row, const BlockMaxima& logits, double offset) {
  std::int64_t token = 0;
  for (const float most : logits.maxima_) {
    const std::int64_t end = std::min(token + kBlock, logits.count_);
    if (best_.size() == most_ && !(most + offset > best_.back().score)) {
      token = end;
      continue;
    }
    for (; token < end; ++token) {
      add_token(row, token, logits.values_[token] + offset);
    }
  }
}

void BestCandidates::add_token(std::int64_t row, std::int64_t token, double score) {
  const bool is_better = best_.size() < most_ ? std::isfinite(score) : score > best_.back().score;
  if (is_better) add({score, row, token});
}

void BestCandidates::add(const Candidate& candidate) {
  const auto worse = [](const Candidate& a, const Candidate& b) { return a.score > b.score; };
  if (best_.size() == most_) best_.pop_back();
  best_.insert(std::upper_bound(best_.begin(), best_.end(), candidate, worse), candidate);
}

}  // namespace headway::inline v0::internal
