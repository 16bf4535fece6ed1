#include "recommend/training.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <sstream>

namespace example {
namespace {

using headway::Tensor;
using Items = std::vector<std::int64_t>;

std::mt19937_64 generator(std::uint64_t seed, std::int64_t number, std::uint64_t purpose) {
  std::seed_seq sequence = {seed, static_cast<std::uint64_t>(number), purpose};
  return std::mt19937_64(sequence);
}

// 0 .. count - 1; std::uniform_int_distribution differs from library to library.
std::int64_t below(std::mt19937_64& random, std::int64_t count) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
}

// Histories end to end, without padding: total places, each with the item that follows.
struct Batch {
  Tensor tokens;                      // (1, total)
  std::vector<std::int64_t> ends;     // (histories + 1)
  Items candidates;                   // items that are scored at every place
  std::vector<float> chances;         // (candidates) the logarithm of how likely the batch has the item
  std::vector<std::int64_t> targets;  // (total) which of the candidates follows
};

// The batches of a run: every epoch takes each history once, in an order of its own.
class Batches {
 public:
  Batches(const Split& split, std::int64_t positions, const RecommenderTraining& training)
      : split_(split), positions_(positions), training_(training) {
    for (std::size_t user = 0; user < split.training.size(); ++user) {
      if (split.training[user].size() >= 2) users_.push_back(user);
    }
    for (const std::int64_t count : split.counts) actions_ += static_cast<double>(count);
    if (users_.empty()) throw headway::Error("no user has two items for training");
  }

  std::int64_t per_epoch() const { return (std::ssize(users_) + training_.users - 1) / training_.users; }

  Batch at(std::int64_t index) {
    const std::int64_t epoch = index / per_epoch(), first = index % per_epoch() * training_.users;
    if (epoch != epoch_) shuffle(epoch);
    Batch batch = {.tokens = {}, .ends = {0}, .candidates = {}, .chances = {}, .targets = {}};
    Items tokens, next;
    for (std::int64_t i = first; i < std::min(first + training_.users, std::ssize(order_)); ++i) {
      const Items& items = split_.training[order_[static_cast<std::size_t>(i)]];
      const std::int64_t length = std::min(std::ssize(items) - 1, positions_);
      tokens.insert(tokens.end(), items.end() - 1 - length, items.end() - 1);
      next.insert(next.end(), items.end() - length, items.end());
      batch.ends.push_back(std::ssize(tokens));
    }
    batch.tokens = Tensor::from(tokens, {1, std::ssize(tokens)});
    add_candidates(next, index, batch);
    return batch;
  }

 private:
  // The batch's own items, which are mostly popular, and others drawn at random.
  void add_candidates(const Items& next, std::int64_t index, Batch& batch) const {
    std::mt19937_64 random = generator(training_.run.seed, index, 1);
    batch.candidates = next;
    for (std::int64_t i = 0; i < training_.negatives; ++i) batch.candidates.push_back(1 + below(random, split_.items));
    std::sort(batch.candidates.begin(), batch.candidates.end());
    batch.candidates.erase(std::unique(batch.candidates.begin(), batch.candidates.end()), batch.candidates.end());
    const double drawn =
        static_cast<double>(training_.negatives) * std::log1p(-1.0 / static_cast<double>(split_.items));
    for (const std::int64_t item : batch.candidates) {
      const double share = static_cast<double>(split_.counts[static_cast<std::size_t>(item)]) / actions_;
      const double missing = drawn + static_cast<double>(std::ssize(next)) * std::log1p(-share);
      batch.chances.push_back(static_cast<float>(std::log(-std::expm1(missing))));
    }
    for (const std::int64_t item : next) {
      const auto place = std::lower_bound(batch.candidates.begin(), batch.candidates.end(), item);
      batch.targets.push_back(place - batch.candidates.begin());
    }
  }

  void shuffle(std::int64_t epoch) {
    order_ = users_;
    std::mt19937_64 random = generator(training_.run.seed, epoch, 0);
    for (std::int64_t i = std::ssize(order_) - 1; i > 0; --i) {
      std::swap(order_[static_cast<std::size_t>(i)], order_[static_cast<std::size_t>(below(random, i + 1))]);
    }
    epoch_ = epoch;
  }

  const Split& split_;
  const std::int64_t positions_;
  const RecommenderTraining& training_;
  std::vector<std::size_t> users_, order_;
  std::int64_t epoch_ = -1;
  double actions_ = 0.0;  // of all users in training
};

// Softmax over the candidates. What is often among them counts as much less there, so that the scores of the model
// become those of a softmax over all items.
Tensor loss_of(const Tensor& hidden, const Tensor& items, const Batch& batch) {
  const auto total = std::ssize(batch.targets), count = std::ssize(batch.candidates);
  const Tensor rows = headway::embedding(items, Tensor::from(batch.candidates, {count}));  // (candidates, width)
  const Tensor chances = Tensor::from(batch.chances, {count});
  const Tensor scores = headway::linear(hidden, rows, headway::neg(chances));  // (total, candidates)
  return headway::cross_entropy(scores, Tensor::from(batch.targets, {total}));
}

}  // namespace

std::string recommender_config(const RecommenderShape& shape, std::int64_t items, const std::string& architecture) {
  std::ostringstream config;
  config << R"({"model_type": "gpt2", "architectures": [")" << architecture << R"("], "vocab_size": )" << items + 1
         << R"(, "n_positions": )" << shape.positions << R"(, "n_embd": )" << shape.width << R"(, "n_layer": )"
         << shape.layers << R"(, "n_head": )" << shape.heads << R"(, "n_inner": )" << shape.hidden
         << R"(, "activation_function": "gelu_new", "resid_pdrop": )" << shape.dropout << R"(, "embd_pdrop": )"
         << shape.dropout << R"(, "attn_pdrop": )" << shape.dropout
         << R"(, "pad_token_id": 0, "bos_token_id": null, "eos_token_id": null})";
  return config.str();
}

headway::TransformerModel train_recommender(const Split& split, const RecommenderShape& shape,
                                            const RecommenderTraining& training) {
  headway::set_random_seed(training.run.seed);
  // Without the head, which would score every item at every place.
  const auto trunk = headway::TransformerModel::from_config(recommender_config(shape, split.items, "GPT2Model"));
  Batches batches(split, shape.positions, training);
  std::cerr << batches.per_epoch() << " batches an epoch, " << trunk.parameter_count() << " parameters\n";
  const Tensor items = trunk.named_parameters().front().tensor;  // embedding.weight (items + 1, width)
  train(trunk, training.run, [&](const headway::BatchPosition& position) {
    const Batch batch = batches.at(position.index);
    const Tensor hidden = trunk.forward({.tokens = batch.tokens, .packed = batch.ends}).hidden[0];  // (total, width)
    return headway::BatchLoss{.loss = loss_of(hidden, items, batch), .tokens = std::ssize(batch.targets)};
  });
  const auto model = headway::TransformerModel::from_config(recommender_config(shape, split.items, "GPT2LMHeadModel"));
  model.load_state_dict(trunk.state_dict());
  model.eval();
  return model;
}

}  // namespace example
