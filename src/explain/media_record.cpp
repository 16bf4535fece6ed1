// attention_record: what a forward over a picture, a sound or other features gives as weights, with names and media.
#include <string>
#include <vector>

#include "base/check.h"
#include "explain/medium.h"
#include "explain/record.h"
#include "headway/attention_view.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr const char* kName = "attention_record";

// The encoder's side of a part: its names and medium.
struct Side {
  const std::vector<std::string>& names;
  AttentionMedium medium = {};
  std::int64_t padding = 0;
};

// One layer of one sample, without the padding: [batch, heads, queries, keys] -> [heads, queries, keys].
Tensor layer_of(const std::string& part, const Tensor& weights, const Side& queries, const Side& keys,
                std::int64_t sample) {
  check(weights.defined() && weights.rank() == 4, kName, ": a layer of ", part, " is ",
        weights.defined() ? weights.describe() : std::string("undefined"),
        ", expected weights [batch, heads, queries, keys] of a forward with Weights::per_head");
  check(sample >= 0 && sample < weights.size(0), kName, ": sample is ", sample, ", expected 0 to ",
        weights.size(0) - 1);
  const auto count = [](const Side& side) { return static_cast<std::int64_t>(side.names.size()); };
  check(weights.size(2) == count(queries) + queries.padding && weights.size(3) == count(keys) + keys.padding, kName,
        ": a layer of ", part, " is ", weights, ", and there are ", count(queries), " names of queries and ",
        count(keys), " of keys", keys.padding > 0 ? " and " + std::to_string(keys.padding) + " of padding" : "");
  return weights.select(0, sample)
      .slice(1, 0, count(queries))
      .slice(2, 0, count(keys))
      .detach()
      .to(Device::cpu())
      .to(DType::float32)
      .contiguous();
}

void add_part(AttentionRecord& record, const char* name, const std::vector<Tensor>& layers, const Side& queries,
              const Side& keys, std::int64_t sample) {
  if (layers.empty()) return;
  AttentionPart part = {.name = name, .queries = queries.names, .keys = keys.names, .layers = {}};
  part.query_medium = queries.medium;
  part.key_medium = keys.medium;
  for (const Tensor& layer : layers) part.layers.push_back(layer_of(name, layer, queries, keys, sample));
  check_part(kName, part);
  record.parts.push_back(std::move(part));
}

}  // namespace
}  // namespace internal

AttentionRecord attention_record(const ModelResult& result, const MediaTokens& tokens) {
  using namespace internal;
  check(!result.encoder_weights.empty() || !result.decoder_weights.empty(), kName,
        ": result has no weights, expected those of a forward with Weights::per_head");
  check(tokens.padding >= 0, kName, ": padding is ", tokens.padding, ", expected 0 or more");
  const bool named = !tokens.labels.empty() || !has_grid(tokens.medium);
  const std::vector<std::string> labels = named ? tokens.labels : medium_labels(tokens.medium);
  const Side encoder{labels, tokens.medium, tokens.padding}, read{tokens.read}, written{tokens.written};
  AttentionRecord record;
  add_part(record, "encoder", result.encoder_weights, encoder, encoder, tokens.sample);
  add_part(record, "decoder", result.decoder_weights, written, read, tokens.sample);
  add_part(record, "cross", result.cross_weights, written, encoder, tokens.sample);
  return record;
}

}  // namespace headway::inline v0
