// The next items of a history: causal self-attention over what somebody took so far (SASRec).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/tensor.h"
#include "headway/text_task.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

// Remarks on one history.
struct HistoryNotes {
  bool empty = false;                      // it has no items
  std::vector<std::int64_t> unknown = {};  // items that training never met, each once; they were ignored
  std::int64_t items_left_out = 0;         // the oldest ones, for which the model has no positions
  bool popular = false;                    // nothing was left to read: the items are the most popular ones

  bool operator==(const HistoryNotes&) const = default;
  // True where there is nothing to note.
  bool none() const { return *this == HistoryNotes{}; }
  // The notes in English, separated by semicolons; "" where there are none.
  HEADWAY_API std::string describe() const;
};

struct RecommendOptions {
  std::int64_t count = 10;
  bool exclude_seen = true;                   // items of the history are not recommended
  std::vector<std::int64_t> candidates = {};  // only these; empty: all that training met
  bool sources = true;                        // compute the attention, and from which items a recommendation came
  std::int64_t batch_items = 0;               // items of histories computed together; 0: as many as suit the device
};

struct RecommendedItem {
  std::int64_t item = 0;
  double score = 0.0;  // the logit; of popular items the number of times that training met them
  double probability =
      0.0;  // among all items, by the softmax of their logits; of popular items their share of training
  // For each item of Recommendations::read how much of the recommendation came from it; they sum to 1. The weight with
  // which the last position looks at the item, mean of all layers and heads, times how similar the two items are (the
  // cosine of their embeddings, at least 0); where no item is similar, the weight alone.
  std::vector<double> shares = {};
};

struct Recommendations {
  std::vector<RecommendedItem> items;  // the best first
  std::vector<std::int64_t> read;      // the items of the history that the model read, oldest first
  std::vector<Tensor> attention;       // of the last position: a layer's [heads, read] float32, for each layer
  HistoryNotes notes;
};

// A decoder whose tokens are items: a language model's directory whose vocabulary is padding (token 0) and the items
// 1, 2, 3, ..., each its own token. Beside it may lie items.json, {"counts": [0, 12, 3, ...]}: how often training met
// each token. With it, items of which nothing was learned are known, and so are the most popular ones. Members may be
// called from several threads at once.
class HEADWAY_API SequenceRecommender {
 public:
  // Parameters are converted to float32 unless the options say otherwise: logits of 16 bits have ties.
  explicit SequenceRecommender(const std::filesystem::path& directory, const TaskOptions& options = {});
  // The model must be in evaluation mode. `counts` has a number for each token, or is empty: not known.
  explicit SequenceRecommender(TransformerModel model, std::vector<std::int64_t> counts = {});

  // What comes after a history, whose items are in the order of time, the newest last; repeated ones count as often as
  // they occur. Of a history that is empty, or of which no item is known, the most popular items are given, or it is an
  // Error where there are no counts.
  Recommendations recommend(const std::vector<std::int64_t>& history, const RecommendOptions& options = {}) const;
  // The same of many histories, which are computed together.
  std::vector<Recommendations> recommend_all(const std::vector<std::vector<std::int64_t>>& histories,
                                             const RecommendOptions& options = {}) const;

  // The logits of all tokens after each history: float32 [histories, items() + 1] on the CPU. Column 0 is padding.
  // Every history must have an item that is known.
  Tensor scores(const std::vector<std::vector<std::int64_t>>& histories, std::int64_t batch_items = 0) const;

  // Items are 1 .. items().
  std::int64_t items() const;
  // The most items of a history that are read: the newest.
  std::int64_t max_length() const;
  // How often training met each token; empty where that is not known.
  const std::vector<std::int64_t>& counts() const;
  const TransformerModel& model() const;
  // Writes the model's directory, with items.json where there are counts.
  void save(const std::filesystem::path& directory, std::optional<DType> dtype = {}) const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace v0
}  // namespace headway
