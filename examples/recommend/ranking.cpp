#include "recommend/ranking.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace example {
namespace {

constexpr std::int64_t kFirst = 10, kNegatives = 100;
constexpr std::size_t kQuestionsAtOnce = 512;

void count(std::int64_t rank, Ranking& ranking) {
  if (rank > kFirst) return;
  ranking.hit_rate += 1.0;
  ranking.ndcg += 1.0 / std::log2(static_cast<double>(rank) + 1.0);
}

void divide(std::size_t questions, Ranking& ranking) {
  ranking.hit_rate /= static_cast<double>(questions);
  ranking.ndcg /= static_cast<double>(questions);
}

// The rank among the answer and 100 others that the user never took.
std::int64_t rank_among_sampled(const float* scores, const Split::Question& question, const std::set<std::int64_t>& met,
                                std::int64_t items, std::mt19937_64& random) {
  std::int64_t rank = 1;
  for (std::int64_t drawn = 0; drawn < kNegatives;) {
    const auto item = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(items)) + 1;
    if (met.contains(item)) continue;
    rank += scores[item] >= scores[question.answer] ? 1 : 0;
    ++drawn;
  }
  return rank;
}

}  // namespace

Evaluation evaluate(const std::vector<Split::Question>& questions, std::int64_t items, std::int64_t draws,
                    const Scores& scores) {
  Evaluation evaluation;
  evaluation.sampled.resize(static_cast<std::size_t>(draws));
  std::vector<std::mt19937_64> random;
  for (std::int64_t draw = 1; draw <= draws; ++draw) random.emplace_back(static_cast<std::uint64_t>(draw));
  for (std::size_t first = 0; first < questions.size(); first += kQuestionsAtOnce) {
    const std::size_t end = std::min(questions.size(), first + kQuestionsAtOnce);
    std::vector<std::vector<std::int64_t>> histories;
    for (std::size_t i = first; i < end; ++i) histories.push_back(questions[i].history);
    const headway::Tensor batch = scores(histories);
    for (std::size_t i = first; i < end; ++i) {
      const Split::Question& question = questions[i];
      const float* const row = batch.data<float>() + static_cast<std::int64_t>(i - first) * (items + 1);
      std::set<std::int64_t> met(question.history.begin(), question.history.end());
      const auto not_below = [&](std::int64_t item) { return row[item] >= row[question.answer]; };
      met.erase(question.answer);
      const auto seen = std::count_if(met.begin(), met.end(), not_below);
      std::int64_t rank = 0;  // the answer itself is counted
      for (std::int64_t item = 1; item <= items; ++item) rank += not_below(item) ? 1 : 0;
      count(rank, evaluation.all);
      count(rank - seen, evaluation.without_seen);
      met.insert(question.answer);
      for (std::size_t draw = 0; draw < random.size(); ++draw) {
        count(rank_among_sampled(row, question, met, items, random[draw]), evaluation.sampled[draw]);
      }
    }
  }
  for (Ranking& ranking : evaluation.sampled) divide(questions.size(), ranking);
  divide(questions.size(), evaluation.all);
  divide(questions.size(), evaluation.without_seen);
  return evaluation;
}

}  // namespace example
