// SequenceRecommender: histories of items, scores of the next ones, where they came from.
#include "headway/sequence_recommender.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/function_ref.h"
#include "core/thread_pool.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "nn/evaluation_guard.h"
#include "tasks/item_counts.h"
#include "tasks/packed_batches.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Items = std::vector<std::int64_t>;

constexpr const char* kWho = "SequenceRecommender";
// Enough rows for products to run at full speed, and logits of at most 64 MiB.
constexpr std::int64_t kItemsOnCpu = 2048, kItemsOnDevice = 32768, kLogitsAtOnce = std::int64_t{1} << 24;

// A history as the model reads it.
struct ReadHistory {
  Items read = {};
  HistoryNotes notes = {};
};

// Histories of similar length that are computed together, and what the model said.
struct RecommenderBatch {
  std::vector<std::size_t> histories;  // their numbers in the whole list
  std::vector<std::int64_t> lengths;
  Tensor logits;                  // (histories, tokens) float32 on the CPU
  std::vector<Tensor> attention;  // of a layer (histories, heads, longest, longest), on request
};

std::vector<bool> wanted_items(const Items& candidates, const Items& counts, std::int64_t items) {
  std::vector<bool> wanted(static_cast<std::size_t>(items) + 1, candidates.empty());
  for (const std::int64_t item : candidates) {
    check(item >= 1 && item <= items, kWho, ": candidates has ", item, ", expected items from 1 to ", items);
    wanted[static_cast<std::size_t>(item)] = true;
  }
  for (std::size_t item = 0; item < counts.size(); ++item) wanted[item] = wanted[item] && counts[item] > 0;
  wanted[0] = false;
  return wanted;
}

// The best of the items that are wanted, by their scores; the smaller one of equals.
Items best_items(std::vector<bool> wanted, const Items& seen, std::int64_t count,
                 FunctionRef<double(std::size_t item)> score) {
  for (const std::int64_t item : seen) {
    if (item < std::ssize(wanted)) wanted[static_cast<std::size_t>(item)] = false;
  }
  Items items;
  for (std::size_t item = 1; item < wanted.size(); ++item) {
    if (wanted[item]) items.push_back(static_cast<std::int64_t>(item));
  }
  const auto most = std::min<std::ptrdiff_t>(count, std::ssize(items));
  std::partial_sort(items.begin(), items.begin() + most, items.end(), [&](std::int64_t a, std::int64_t b) {
    const double first = score(static_cast<std::size_t>(a)), second = score(static_cast<std::size_t>(b));
    return first != second ? first > second : a < b;
  });
  items.resize(static_cast<std::size_t>(most));
  return items;
}

// A layer's weights of the last position of one history: [heads, length].
Tensor last_weights(const Tensor& layer, std::int64_t row, std::int64_t length) {
  return on_cpu(layer.select(0, row).select(1, length - 1).slice(1, 0, length));
}

// The mean of all layers and heads: (length).
std::vector<double> mean_weights(const std::vector<Tensor>& layers) {
  std::vector<double> mean(static_cast<std::size_t>(layers.front().size(1)), 0.0);
  for (const Tensor& layer : layers) {
    const std::vector<double> weights = layer.to_vector();
    for (std::size_t i = 0; i < weights.size(); ++i) mean[i % mean.size()] += weights[i];
  }
  const double rows = static_cast<double>(std::ssize(layers) * layers.front().size(0));
  for (double& weight : mean) weight /= rows;
  return mean;
}

double cosine(const float* a, const float* b, std::int64_t width) {
  double product = 0.0, a_square = 0.0, b_square = 0.0;
  for (std::int64_t i = 0; i < width; ++i) {
    product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    a_square += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    b_square += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return a_square > 0.0 && b_square > 0.0 ? product / std::sqrt(a_square * b_square) : 0.0;
}

// Weights times similarities, scaled to a sum of 1.
std::vector<double> shares_of(const std::vector<double>& weights, const std::vector<double>& similarities) {
  std::vector<double> shares = weights;
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i] *= std::max(similarities[i], 0.0);
  double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (!(sum > 0.0)) {
    shares = weights;
    sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  }
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace
}  // namespace internal

struct SequenceRecommender::Parts {
  Parts(TransformerModel with_model, std::vector<std::int64_t> with_counts);

  internal::ReadHistory prepare(const std::vector<std::int64_t>& history, std::size_t number) const;
  // Calls use(batch) for all histories that have items to read, the longest first.
  void for_each_batch(const std::vector<internal::ReadHistory>& histories, std::int64_t batch_items, bool attention,
                      internal::FunctionRef<void(const internal::RecommenderBatch& batch)> use) const;
  void compute(const std::vector<internal::ReadHistory>& histories, bool attention,
               internal::RecommenderBatch& batch) const;
  // Fills in the items by a row of logits (tokens).
  void choose(const float* logits, const std::vector<std::int64_t>& items, Recommendations& result) const;
  void recommend_popular(const std::vector<bool>& wanted, const std::vector<std::int64_t>& seen,
                         const RecommendOptions& options, Recommendations& result) const;
  void add_sources(const internal::RecommenderBatch& batch, std::size_t row, Recommendations& result) const;

  TransformerModel model;
  std::vector<std::int64_t> counts;
  Tensor embedding;  // (tokens, width)
  std::int64_t items = 0;
  double all_actions = 0.0;  // the sum of the counts
};

SequenceRecommender::Parts::Parts(TransformerModel with_model, std::vector<std::int64_t> with_counts)
    : model(std::move(with_model)), counts(std::move(with_counts)) {
  const TransformerModelOptions& options = model.options();
  internal::check(options.kind == ModelKind::decoder && options.head.kind == HeadKind::language_model, "the ",
                  model.family(),
                  " model is no decoder with a language model's head, expected one whose tokens are items");
  internal::check(options.vocab_size >= 2, "the model's vocabulary has ", options.vocab_size,
                  " token, expected padding and items");
  internal::check(counts.empty() || std::ssize(counts) == options.vocab_size, "counts has ", counts.size(),
                  " numbers, expected one for each of the model's ", options.vocab_size, " tokens");
  items = options.vocab_size - 1;
  embedding = model.state_dict().at("embedding.weight");
  internal::check(is_floating(embedding.dtype()), "SequenceRecommender: the model's weights are ", embedding.dtype(),
                  ", expected a floating dtype");
  for (const std::int64_t count : counts) all_actions += static_cast<double>(count);
}

internal::ReadHistory SequenceRecommender::Parts::prepare(const std::vector<std::int64_t>& history,
                                                          std::size_t number) const {
  internal::ReadHistory result;
  result.notes.empty = history.empty();
  std::vector<std::int64_t>& unknown = result.notes.unknown;
  for (const std::int64_t item : history) {
    internal::check(item >= 1, "history ", number + 1, " has the item ", item, ", expected 1 or more");
    if (item <= items && (counts.empty() || counts[static_cast<std::size_t>(item)] > 0)) {
      result.read.push_back(item);
    } else if (std::find(unknown.begin(), unknown.end(), item) == unknown.end()) {
      unknown.push_back(item);
    }
  }
  const std::int64_t most = model.options().decoder.max_positions, length = std::ssize(result.read);
  if (most > 0 && length > most) {
    result.read.erase(result.read.begin(), result.read.end() - most);
    result.notes.items_left_out = length - most;
  }
  return result;
}

void SequenceRecommender::Parts::for_each_batch(
    const std::vector<internal::ReadHistory>& histories, std::int64_t batch_items, bool attention,
    internal::FunctionRef<void(const internal::RecommenderBatch& batch)> use) const {
  internal::check(batch_items >= 0, internal::kWho, ": batch_items is ", batch_items,
                  ", expected at least 1, or 0 for the default");
  const NoGradGuard no_grad;
  const internal::EvaluationGuard evaluation(model);
  const std::int64_t usual = embedding.device().is_cpu() ? internal::kItemsOnCpu : internal::kItemsOnDevice;
  const std::int64_t most = batch_items > 0 ? batch_items : usual;
  const std::int64_t most_rows = std::max<std::int64_t>(internal::kLogitsAtOnce / (items + 1), 1);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < histories.size(); ++i) {
    if (!histories[i].read.empty()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return histories[a].read.size() > histories[b].read.size(); });
  for (std::size_t first = 0; first < order.size();) {
    const std::int64_t longest = std::ssize(histories[order[first]].read);
    const auto rows = static_cast<std::size_t>(std::min(std::max<std::int64_t>(most / longest, 1), most_rows));
    const std::size_t end = std::min(order.size(), first + rows);
    internal::RecommenderBatch batch = {.histories = {order.begin() + static_cast<std::ptrdiff_t>(first),
                                                      order.begin() + static_cast<std::ptrdiff_t>(end)},
                                        .lengths = {},
                                        .logits = {},
                                        .attention = {}};
    compute(histories, attention, batch);
    use(batch);
    first = end;
  }
}

void SequenceRecommender::Parts::compute(const std::vector<internal::ReadHistory>& histories, bool attention,
                                         internal::RecommenderBatch& batch) const {
  const std::int64_t rows = std::ssize(batch.histories), longest = std::ssize(histories[batch.histories[0]].read);
  std::vector<std::int64_t> tokens;
  for (const std::size_t history : batch.histories) {
    const std::vector<std::int64_t>& read = histories[history].read;
    batch.lengths.push_back(std::ssize(read));
    tokens.insert(tokens.end(), read.begin(), read.end());
    tokens.resize(batch.lengths.size() * static_cast<std::size_t>(longest), 0);
  }
  ModelInput input;
  input.tokens = Tensor::from(tokens, {rows, longest});
  input.lengths = batch.lengths;
  input.weights = attention ? Weights::per_head : Weights::none;
  input.last_only = true;
  ModelResult result = model.forward(input);
  batch.logits = internal::on_cpu(result.logits).reshape({rows, items + 1});
  for (const Tensor& layer : result.decoder_weights) batch.attention.push_back(internal::on_cpu(layer));
}

void SequenceRecommender::Parts::choose(const float* logits, const std::vector<std::int64_t>& chosen,
                                        Recommendations& result) const {
  const float largest = *std::max_element(logits + 1, logits + items + 1);
  double sum = 0.0;
  for (std::int64_t item = 1; item <= items; ++item) sum += std::exp(static_cast<double>(logits[item] - largest));
  for (const std::int64_t item : chosen) {
    result.items.push_back({.item = item,
                            .score = static_cast<double>(logits[item]),
                            .probability = std::exp(static_cast<double>(logits[item] - largest)) / sum,
                            .shares = {}});
  }
}

void SequenceRecommender::Parts::recommend_popular(const std::vector<bool>& wanted,
                                                   const std::vector<std::int64_t>& seen,
                                                   const RecommendOptions& options, Recommendations& result) const {
  const auto count_of = [&](std::size_t item) { return static_cast<double>(counts[item]); };
  result.notes.popular = true;
  for (const std::int64_t item : internal::best_items(wanted, seen, options.count, count_of)) {
    const double count = count_of(static_cast<std::size_t>(item));
    result.items.push_back({.item = item, .score = count, .probability = count / all_actions, .shares = {}});
  }
}

void SequenceRecommender::Parts::add_sources(const internal::RecommenderBatch& batch, std::size_t row,
                                             Recommendations& result) const {
  const NoGradGuard no_grad;  // of this thread
  const auto index = static_cast<std::int64_t>(row);
  for (const Tensor& layer : batch.attention) {
    result.attention.push_back(internal::last_weights(layer, index, batch.lengths[row]));
  }
  if (result.attention.empty() || result.items.empty()) return;
  const std::vector<double> weights = internal::mean_weights(result.attention);
  std::vector<std::int64_t> ids = result.read;
  for (const RecommendedItem& item : result.items) ids.push_back(item.item);
  const Tensor rows = internal::on_cpu(headway::embedding(embedding, Tensor::from(ids, {std::ssize(ids)})));
  const std::int64_t width = rows.size(1), length = batch.lengths[row];
  for (std::int64_t i = 0; i < std::ssize(result.items); ++i) {
    std::vector<double> similarities;
    for (std::int64_t j = 0; j < length; ++j) {
      const float* const vectors = rows.data<float>();
      similarities.push_back(internal::cosine(vectors + (length + i) * width, vectors + j * width, width));
    }
    result.items[static_cast<std::size_t>(i)].shares = internal::shares_of(weights, similarities);
  }
}

SequenceRecommender::SequenceRecommender(const std::filesystem::path& directory, const TaskOptions& options)
    : parts_(std::make_shared<const Parts>(
          TransformerModel::load(directory,
                                 {.dtype = options.dtype.value_or(DType::float32), .device = options.device}),
          internal::read_item_counts(directory))) {}

SequenceRecommender::SequenceRecommender(TransformerModel model, std::vector<std::int64_t> counts)
    : parts_(std::make_shared<const Parts>(std::move(model), std::move(counts))) {}

std::vector<Recommendations> SequenceRecommender::recommend_all(const std::vector<std::vector<std::int64_t>>& histories,
                                                                const RecommendOptions& options) const {
  const Parts& parts = *parts_;
  internal::check(options.count >= 1, internal::kWho, ": count is ", options.count, ", expected at least 1");
  const std::vector<bool> wanted = internal::wanted_items(options.candidates, parts.counts, parts.items);
  const auto seen_in = [&](std::size_t i) { return options.exclude_seen ? histories[i] : std::vector<std::int64_t>(); };
  std::vector<internal::ReadHistory> given;
  std::vector<Recommendations> results(histories.size());
  for (std::size_t i = 0; i < histories.size(); ++i) {
    given.push_back(parts.prepare(histories[i], i));
    results[i].read = given[i].read;
    results[i].notes = given[i].notes;
    if (!given[i].read.empty()) continue;
    internal::check(!parts.counts.empty(), "history ", i + 1,
                    histories[i].empty() ? " is empty" : " has no item that the model knows",
                    ", and the model has no counts of its items (items.json), expected an item from 1 to ",
                    parts.items);
    parts.recommend_popular(wanted, seen_in(i), options, results[i]);
  }
  parts.for_each_batch(given, options.batch_items, options.sources, [&](const internal::RecommenderBatch& batch) {
    const auto finish = [&](std::int64_t task, int) {
      const auto row = static_cast<std::size_t>(task);
      const std::size_t number = batch.histories[row];
      const float* const logits = batch.logits.data<float>() + task * (parts.items + 1);
      const auto score = [&](std::size_t item) { return static_cast<double>(logits[item]); };
      parts.choose(logits, internal::best_items(wanted, seen_in(number), options.count, score), results[number]);
      if (options.sources) parts.add_sources(batch, row, results[number]);
    };
    if (parts.embedding.device().is_cpu()) {
      internal::parallel_for(std::ssize(batch.histories), finish);
    } else {  // whose work one thread hands over
      for (std::int64_t row = 0; row < std::ssize(batch.histories); ++row) finish(row, 0);
    }
  });
  return results;
}

Recommendations SequenceRecommender::recommend(const std::vector<std::int64_t>& history,
                                               const RecommendOptions& options) const {
  return std::move(recommend_all({history}, options).front());
}

Tensor SequenceRecommender::scores(const std::vector<std::vector<std::int64_t>>& histories,
                                   std::int64_t batch_items) const {
  const Parts& parts = *parts_;
  std::vector<internal::ReadHistory> given;
  for (std::size_t i = 0; i < histories.size(); ++i) {
    given.push_back(parts.prepare(histories[i], i));
    internal::check(!given[i].read.empty(), "history ", i + 1,
                    histories[i].empty() ? " is empty" : " has no item that the model knows",
                    ", expected an item from 1 to ", parts.items);
  }
  const Tensor all = Tensor::empty({std::ssize(histories), parts.items + 1});
  parts.for_each_batch(given, batch_items, false, [&](const internal::RecommenderBatch& batch) {
    const NoGradGuard no_grad;
    for (std::size_t row = 0; row < batch.histories.size(); ++row) {
      all.select(0, static_cast<std::int64_t>(batch.histories[row]))
          .copy_from(batch.logits.select(0, static_cast<std::int64_t>(row)));
    }
  });
  return all;
}

std::int64_t SequenceRecommender::items() const { return parts_->items; }
std::int64_t SequenceRecommender::max_length() const { return parts_->model.options().decoder.max_positions; }
const std::vector<std::int64_t>& SequenceRecommender::counts() const { return parts_->counts; }
const TransformerModel& SequenceRecommender::model() const { return parts_->model; }

void SequenceRecommender::save(const std::filesystem::path& directory, std::optional<DType> dtype) const {
  model().save(directory, dtype);
  if (!counts().empty()) internal::write_item_counts(directory, counts());
}

std::string HistoryNotes::describe() const {
  std::string text;
  const auto add = [&text](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  if (empty) add("the history is empty");
  if (!unknown.empty()) {
    constexpr std::size_t kShown = 5;
    std::string items;
    for (std::size_t i = 0; i < std::min(unknown.size(), kShown); ++i) {
      items += (i == 0 ? "" : ", ") + std::to_string(unknown[i]);
    }
    if (unknown.size() > kShown) items += ", ...";
    add((unknown.size() == 1 ? "item " : "items ") + items + (unknown.size() == 1 ? " was" : " were") +
        " ignored: training never met " + (unknown.size() == 1 ? "it" : "them"));
  }
  if (items_left_out > 0) {
    add("the oldest " + (items_left_out == 1 ? "item was" : std::to_string(items_left_out) + " items were") +
        " left out: the history is longer than the model reads");
  }
  if (popular) add("these are the most popular items");
  return text;
}

}  // namespace headway::inline v0
