#include "generate/decoding_buffers.h"

#include <algorithm>
#include <functional>

#include "generate/decoder_step.h"

namespace headway::inline v0::internal {
namespace {

// Up to this many rows a step on a device takes no longer than with fewer.
constexpr std::int64_t kSmallStep = 128;
// Rows that are few enough for pages of 2 MB in each layer.
constexpr std::int64_t kHugeRows = 2;

// `values` and then zeros: int64 (count).
Tensor padded_with_zeros(const std::vector<std::int64_t>& values, std::int64_t count) {
  std::vector<std::int64_t> all = values;
  all.resize(static_cast<std::size_t>(count));
  return Tensor::from(all, {count});
}

bool is_equal(const SampleRule& a, const SampleRule& b) {
  return a.temperature == b.temperature && a.top_k == b.top_k && a.top_p == b.top_p && a.min_p == b.min_p &&
         a.seed == b.seed;
}

}  // namespace

DecodingBuffers::DecodingBuffers(const DecoderWeights& weights, const BufferSize& size)
    : weights_(weights), size_(size) {
  const Device device = weights.device();
  const DType dtype = weights.dtype();
  std::int64_t head_dim = 0;
  for (const DecoderLayerWeights& layer : weights.layers) {
    const StepScores& scores = layer.self.scores;
    head_dim = scores.head_dim;
    past_.push_back(reserved_tensor({size.rows, size.tokens, 2 * scores.kv_heads * scores.head_dim}, dtype, device,
                                    size.rows <= kHugeRows));
    if (!layer.cross) continue;
    const StepScores& cross = layer.cross->scores;
    memory_.push_back(
        Tensor::empty({size.sources, size.source_length, 2 * cross.kv_heads * cross.head_dim}, dtype, device));
  }
  for (const RotaryPositions& rotary : weights.rotaries) {
    rotations_.emplace_back(rotary, head_dim, size.tokens, device);
  }
  origins_ = Tensor::zeros({size.rows, size.tokens}, DType::int32, device);
  entries_ = Tensor::zeros({size.rows}, DType::int32, device);
  lengths_ = Tensor::zeros({size.sources}, DType::int64, device);
  source_of_ = Tensor::zeros({size.rows}, DType::int32, device);
  state_ = Tensor::zeros({1 + 4 * size.rows}, DType::int64, device);
  chosen_tokens_ = Tensor::zeros({size.tokens * size.rows}, DType::int64, device);
  chosen_scores_ = Tensor::zeros({size.tokens * size.rows}, DType::float32, device);
  top_tokens_ = Tensor::zeros({size.rows * size.best}, DType::int64, device);
  top_logits_ = Tensor::zeros({size.rows * size.best}, DType::float32, device);
  logsumexp_ = Tensor::zeros({size.rows}, DType::float32, device);
}

void DecodingBuffers::set_sources(const Tensor& memory, const std::vector<std::int64_t>& lengths) {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const AttentionWeights& cross = *weights_.layers[i].cross;
    memory_[i].slice(0, 0, memory.size(0)).slice(1, 0, memory.size(1)).copy_from(project_memory(cross, memory));
  }
  lengths_.copy_from(padded_with_zeros(lengths, size_.sources));
}

void DecodingBuffers::set_step(std::int64_t step) {
  step_of().copy_from(Tensor::from(std::vector<std::int64_t>{step}, {1}));
}

void DecodingBuffers::set_rows(const RowState& rows) {
  const Tensor state = Tensor::zeros({4 * size_.rows}, DType::int64);
  auto* values = state.data<std::int64_t>();
  for (const auto* part : {&rows.positions, &rows.newest, &rows.parents, &rows.sequences}) {
    std::copy(part->begin(), part->end(), values);
    values += size_.rows;
  }
  // Rows that are not used write to no entry.
  std::vector<std::int64_t> entries = rows.entries;
  entries.resize(static_cast<std::size_t>(size_.rows), -1);
  state_.slice(0, 1, 1 + 4 * size_.rows).copy_from(state);
  entries_.copy_from(Tensor::from(entries, {size_.rows}).to(DType::int32));
  if (size_.sources > 0) source_of_.copy_from(padded_with_zeros(rows.sources, size_.rows).to(DType::int32));
}

void DecodingBuffers::set_origins(const std::vector<std::int64_t>& entries, const std::vector<std::int64_t>& lengths) {
  const auto rows = static_cast<std::int64_t>(entries.size());
  const std::int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  if (longest == 0) return;
  const Tensor origins = Tensor::empty({rows, longest}, DType::int32);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::fill_n(origins.data<std::int32_t>() + row * longest, longest,
                static_cast<std::int32_t>(entries[static_cast<std::size_t>(row)]));
  }
  origins_.slice(0, 0, rows).slice(1, 0, longest).copy_from(origins);
}

void DecodingBuffers::keep_rows(const std::vector<std::int64_t>& kept) {
  const auto rows = static_cast<std::int64_t>(kept.size());
  const Tensor indices = Tensor::from(kept, {rows}).to(weights_.device());
  for (Tensor& table : {std::ref(origins_), std::ref(source_of_), std::ref(entries_)}) {
    table.slice(0, 0, rows).copy_from(gather_rows(table, indices));
  }
  for (const std::int64_t part : {0, 1, 3}) {
    state_of(part, rows).copy_from(gather_rows(state_of(part, size_.rows), indices));
  }
  if (rows < size_.rows) entries_.slice(0, rows, size_.rows).fill(-1);
}

void DecodingBuffers::set_rule(const SampleRule& rule) {
  if (!is_equal(rule, rule_)) std::erase_if(steps_, [](const auto& step) { return step.first.end == StepEnd::sample; });
  rule_ = rule;
}

void DecodingBuffers::set_excluded(std::optional<std::int64_t> token) {
  if (token != excluded_) steps_.clear();
  excluded_ = token;
}

std::int64_t DecodingBuffers::padded(std::int64_t rows) const {
  if (weights_.device().is_cpu()) return rows;
  std::int64_t size = size_.rows;
  while (size > kSmallStep && size / 2 >= rows) size /= 2;
  return size;
}

void DecodingBuffers::prepare_step(StepEnd end, std::int64_t end_position) {
  for (RotationTable& table : rotations_) table.reserve(end_position);
  if (end == StepEnd::logits && !logits_.defined()) {
    logits_ = Tensor::empty({size_.rows, weights_.vocab_size()}, weights_.dtype(), weights_.device());
  }
}

void DecodingBuffers::step(std::int64_t rows, StepEnd end, bool reorders, std::int64_t end_position) {
  prepare_step(end, end_position);
  const StepKind kind = {padded(rows), end, reorders};
  Step& step = steps_[kind];
  ++step.uses;
  if (step.uses == 1) return compute(kind);
  if (!step.graph.defined()) step.graph = DeviceGraph(weights_.device(), [this, kind] { compute(kind); });
  step.graph.replay();
}

// One token through the decoder in each of the first `rows` rows.
void DecodingBuffers::compute(const StepKind& kind) {
  const std::int64_t rows = kind.rows;
  // Hypotheses continue others. Keys and values stay in their entries; the table of origins says in which.
  if (kind.reorders) origins_.slice(0, 0, rows).copy_from(gather_rows(origins_, parents(rows)));
  const Tensor x = run_layers(
      weights_, weights_.layers.size(), embed_tokens(weights_, newest(rows), positions(rows)),
      [&](std::size_t layer, const Tensor& projected) {
        return self_attention_step(append_of(layer, projected), weights_.layers[layer].self.scores);
      },
      [&](std::size_t layer, const Tensor& query) {
        return attend_sources(layer, query, source_of_.slice(0, 0, rows));
      });
  end_step(logits_of(weights_, x), rows, kind.end);
}

void DecodingBuffers::end_step(const Tensor& logits, std::int64_t rows, StepEnd end) {
  switch (end) {
    case StepEnd::best:
    case StepEnd::candidates:
      top_tokens(logits, excluded_, top(rows));
      break;
    case StepEnd::sample:
      sample_tokens(
          {.logits = logits, .rule = rule_, .sequences = sequences(rows), .step = step_of(), .top = top(rows)});
      break;
    case StepEnd::logits:
      logits_.slice(0, 0, rows).copy_from(logits);
      break;
  }
  if (end == StepEnd::best || end == StepEnd::sample) {
    take_best({top(rows), newest(rows), history(rows), positions(rows), step_of()});
  }
}

CacheAppend DecodingBuffers::append_of(std::size_t layer, const Tensor& projected) const {
  const AttentionWeights& weights = weights_.layers[layer].self;
  const std::int64_t rows = projected.size(0);
  CacheAppend append = {.projected = projected,
                        .positions = positions(rows),
                        .entries = entries_.slice(0, 0, rows),
                        .cache = past_[layer],
                        .origins = origins_.slice(0, 0, rows),
                        .heads = weights.scores.heads,
                        .kv_heads = weights.scores.kv_heads,
                        .head_dim = weights.scores.head_dim,
                        .query_norm = weights.query_norm,
                        .key_norm = weights.key_norm,
                        .norm_epsilon = weights.norm_epsilon};
  if (weights.rotary >= 0) {
    const auto number = static_cast<std::size_t>(weights.rotary);
    append.rotation = rotations_[number].rows();
    append.interleaved = weights_.rotaries[number].interleaved;
  }
  return append;
}

TokenHistory DecodingBuffers::history(std::int64_t rows) const {
  const std::int64_t values = size_.tokens * rows;
  return {chosen_tokens_.slice(0, 0, values).view({size_.tokens, rows}),
          chosen_scores_.slice(0, 0, values).view({size_.tokens, rows})};
}

TopTokens DecodingBuffers::top(std::int64_t rows) const {
  const std::int64_t values = rows * size_.best;
  return {top_tokens_.slice(0, 0, values).view({rows, size_.best}),
          top_logits_.slice(0, 0, values).view({rows, size_.best}), logsumexp_.slice(0, 0, rows)};
}

}  // namespace headway::inline v0::internal
