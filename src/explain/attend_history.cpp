// attend: the attention of a recommender over a history.
#include <string>
#include <vector>

#include "base/check.h"
#include "headway/attention_view.h"
#include "headway/autograd.h"
#include "nn/evaluation_guard.h"

namespace headway::inline v0 {
namespace internal {
namespace {

AttentionMedium list_medium() { return {.kind = MediumKind::list}; }

std::string item_name(std::int64_t item) { return "item " + std::to_string(item); }

std::string joined_items(const std::vector<std::int64_t>& items) {
  std::string text;
  for (const std::int64_t item : items) text += (text.empty() ? "" : ", ") + std::to_string(item);
  return text;
}

AttentionPart self_attention(const TransformerModel& model, const std::vector<std::int64_t>& read) {
  const NoGradGuard no_grad;
  const EvaluationGuard evaluation(model);
  const ModelResult seen = model.forward(
      {.tokens = Tensor::from(read, {1, std::ssize(read)}), .weights = Weights::per_head, .last_only = true});
  AttentionPart part = {.name = "decoder", .queries = {}, .keys = {}, .layers = {}};
  part.query_medium = part.key_medium = list_medium();
  for (const std::int64_t item : read) part.queries.push_back(item_name(item));
  part.keys = part.queries;
  for (const Tensor& layer : seen.decoder_weights) {
    part.layers.push_back(layer.select(0, 0).detach().to(Device::cpu()).to(DType::float32).contiguous());
  }
  return part;
}

AttentionPart sources(const Recommendations& found, const std::vector<std::string>& read) {
  AttentionPart part = {.name = "cross", .queries = {}, .keys = read, .layers = {}};
  part.key_medium = list_medium();
  std::vector<float> shares;
  for (const RecommendedItem& item : found.items) {
    part.queries.push_back(item_name(item.item));
    for (const double share : item.shares) shares.push_back(static_cast<float>(share));
  }
  part.layers.push_back(Tensor::from(shares, {1, std::ssize(part.queries), std::ssize(read)}));
  return part;
}

}  // namespace
}  // namespace internal

AttentionRecord attend(const SequenceRecommender& recommender, const std::vector<std::int64_t>& history,
                       const RecommendOptions& options) {
  RecommendOptions wanted = options;
  wanted.sources = true;
  const Recommendations found = recommender.recommend(history, wanted);
  internal::check(!found.read.empty(), "the history has no item that the model knows, expected at least one");
  AttentionRecord record;
  record.source = internal::joined_items(found.read);
  record.parts.push_back(internal::self_attention(recommender.model(), found.read));
  if (found.items.empty()) return record;
  std::vector<std::int64_t> items;
  for (const RecommendedItem& item : found.items) items.push_back(item.item);
  record.target = internal::joined_items(items);
  record.parts.push_back(internal::sources(found, record.parts.front().keys));
  return record;
}

}  // namespace headway::inline v0
