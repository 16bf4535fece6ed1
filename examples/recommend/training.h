// Training SASRec: which of some thousand items did the user take next, at every place of every history.
#pragma once

#include <headway/transformer_model.h>

#include <cstdint>
#include <string>

#include "recommend/actions.h"
#include "support/program.h"

namespace example {

struct RecommenderShape {
  std::int64_t width = 56;
  std::int64_t layers = 2;
  std::int64_t heads = 2;
  std::int64_t hidden = 112;    // of the feed-forward networks
  std::int64_t positions = 50;  // items of a history that are read
  double dropout = 0.4;
};

struct RecommenderTraining {
  TrainingRun run = {};
  std::int64_t users = 128;      // in a batch
  std::int64_t negatives = 512;  // items drawn at random that are scored at every place, beside the batch's own
};

// A decoder of GPT-2's family whose vocabulary is padding (0) and the items 1 .. items.
std::string recommender_config(const RecommenderShape& shape, std::int64_t items, const std::string& architecture);

// Trains such a model on split.training.
headway::TransformerModel train_recommender(const Split& split, const RecommenderShape& shape,
                                            const RecommenderTraining& training);

}  // namespace example
