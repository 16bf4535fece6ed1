// How high the item that came next stands among others.
#pragma once

#include <headway/tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "recommend/actions.h"

namespace example {

// Means over questions. An answer of rank r counts 1 for the hit rate and 1 / log2(r + 1) for NDCG where r is at most
// 10. Of equal scores the answer's is the last.
struct Ranking {
  double hit_rate = 0.0;
  double ndcg = 0.0;
};

struct Evaluation {
  std::vector<Ranking> sampled;  // among 101: the answer and 100 items that the user never took; one for each draw
  Ranking all;                   // among all items
  Ranking without_seen;          // among all items that are not in the history
};

// Scores of all items after some histories: float32 (histories, items + 1).
using Scores = std::function<headway::Tensor(const std::vector<std::vector<std::int64_t>>& histories)>;

// `draws` times 100 negatives for each question, from seeds 1, 2, ...
Evaluation evaluate(const std::vector<Split::Question>& questions, std::int64_t items, std::int64_t draws,
                    const Scores& scores);

}  // namespace example
