// Prompts: all their tokens at once through the decoder, into the cache that steps read.
#include <algorithm>

#include "generate/decoder_step.h"
#include "generate/decoding_buffers.h"
#include "generate/prompt_attention.h"

namespace headway::inline v0::internal {
namespace {

// Tokens that go through the decoder together: enough for large products, few enough for the caches.
constexpr std::int64_t kPassTokens = 1024;

std::int64_t count_of(const PromptPart& prompt) { return static_cast<std::int64_t>(prompt.tokens.size()); }

Tensor joined_rows(const std::vector<Tensor>& parts) { return parts.size() == 1 ? parts.front() : concat(parts); }

// Attention of all prompts, each counts[i] rows of `projected` over tokens[i]: in one call where that is possible.
Tensor attend_all(const StepScores& scores, const Tensor& projected, const std::vector<std::int64_t>& counts,
                  const std::vector<Tensor>& tokens) {
  if (tokens.size() > 1 && !scores.distance_bias.defined()) return attend_prompts(scores, projected, counts, tokens);
  std::vector<Tensor> attended;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    attended.push_back(attend_prompt(scores, projected.slice(0, first, first + counts[i]), tokens[i]).output);
    first += counts[i];
  }
  return joined_rows(attended);
}

}  // namespace

PackedPrompts::PackedPrompts(std::span<const PromptPart> all, Device device) : prompts(all) {
  std::vector<std::int64_t> ids, places;
  std::vector<std::int32_t> entry_of, source_of;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const PromptPart& prompt = all[i];
    const std::int64_t count = count_of(prompt);
    counts.push_back(count);
    ids.insert(ids.end(), prompt.tokens.begin(), prompt.tokens.end());
    for (std::int64_t t = 0; t < count; ++t) places.push_back(prompt.past + t);
    entry_of.resize(ids.size(), static_cast<std::int32_t>(prompt.entry));
    source_of.resize(ids.size(), static_cast<std::int32_t>(prompt.source));
    last_position = std::max(last_position, prompt.past + count);
    if (prompt.past + count < prompt.length) continue;
    ending.push_back(i);
    ends.push_back(static_cast<std::int64_t>(ids.size()) - 1);
  }
  const auto rows = static_cast<std::int64_t>(ids.size());
  tokens = Tensor::from(ids, {rows}).to(device);
  positions = Tensor::from(places, {rows}).to(device);
  entries = Tensor::from(entry_of, {rows}).to(device);
  sources = Tensor::from(source_of, {rows}).to(device);
}

Tensor DecodingBuffers::prefill(std::span<const PromptPart> prompts) {
  std::vector<Tensor> ends;
  std::vector<PromptPart> pass;
  std::int64_t tokens = 0;
  const auto run = [&] {
    if (pass.empty()) return;
    const Tensor hidden = prefill_pass(pass);
    if (hidden.defined()) ends.push_back(hidden);
    pass.clear();
    tokens = 0;
  };
  const bool by_length = std::any_of(rotations_.begin(), rotations_.end(),
                                     [](const RotationTable& table) { return table.depends_on_length(); });
  for (PromptPart rest : prompts) {
    while (!rest.tokens.empty()) {
      PromptPart part = rest;
      part.tokens = rest.tokens.first(std::min(rest.tokens.size(), static_cast<std::size_t>(kPassTokens - tokens)));
      const auto taken = static_cast<std::int64_t>(part.tokens.size());
      pass.push_back(part);
      tokens += taken;
      rest.past += taken;
      rest.tokens = rest.tokens.subspan(part.tokens.size());
      if (tokens == kPassTokens || by_length) run();
    }
  }
  run();
  return joined_rows(ends);
}

void DecodingBuffers::append_prompts(std::size_t layer, const Tensor& projected, const PackedPrompts& packed) {
  CacheAppend task = append_of(layer, projected.slice(0, 0, 0));
  task.projected = projected;
  task.positions = packed.positions;
  task.entries = packed.entries;
  task.origins = {};
  const std::int64_t rotary = weights_.layers[layer].self.rotary;
  if (rotary >= 0) task.rotation = packed.rotations[static_cast<std::size_t>(rotary)];
  cache_append(task);
}

Tensor DecodingBuffers::attend_sources(std::size_t layer, const Tensor& query, const Tensor& source_of) const {
  return cross_attention_step(query, {memory_[layer], lengths_, source_of}, weights_.layers[layer].cross->scores);
}

// In the last layer only the last tokens of prompts need more than their keys and values.
Tensor DecodingBuffers::prefill_pass(std::span<const PromptPart> prompts) {
  PackedPrompts packed(prompts, weights_.device());
  for (RotationTable& table : rotations_) {
    table.reserve(packed.last_position);
    packed.rotations.push_back(table.depends_on_length() ? table.of_length(prompts.front().length) : table.rows());
  }
  const auto tokens_of = [&](std::size_t layer, const PromptPart& prompt) {
    return past_[layer].select(0, prompt.entry).slice(0, 0, prompt.past + count_of(prompt));
  };
  const std::size_t last = weights_.layers.size() - 1;
  Tensor x = run_layers(
      weights_, last, embed_tokens(weights_, packed.tokens, packed.positions),
      [&](std::size_t layer, const Tensor& projected) {
        append_prompts(layer, projected, packed);
        std::vector<Tensor> tokens;
        for (const PromptPart& prompt : prompts) tokens.push_back(tokens_of(layer, prompt));
        return attend_all(weights_.layers[layer].self.scores, projected, packed.counts, tokens);
      },
      [&](std::size_t layer, const Tensor& query) { return attend_sources(layer, query, packed.sources); });
  const DecoderLayerWeights& layer = weights_.layers[last];
  const Tensor projected = project_attention(layer.self, x);
  append_prompts(last, projected, packed);
  if (packed.ending.empty()) return {};
  std::vector<Tensor> tokens;
  for (const std::size_t prompt : packed.ending) tokens.push_back(tokens_of(last, prompts[prompt]));
  const Tensor ends = Tensor::from(packed.ends, {static_cast<std::int64_t>(packed.ends.size())}).to(weights_.device());
  const Tensor attended =
      attend_all(layer.self.scores, gather_rows(projected, ends), std::vector<std::int64_t>(tokens.size(), 1), tokens);
  x = finish_attention(layer.self, gather_rows(x, ends), attended);
  if (layer.cross) {
    const Tensor sources = gather_rows(packed.sources, ends);
    x = finish_attention(*layer.cross, x, attend_sources(last, project_attention(*layer.cross, x), sources));
  }
  return apply_feed_forward(layer.feed_forward, x);
}

void DecodingBuffers::finish(const Tensor& hidden, StepEnd end) {
  prepare_step(end, 0);
  end_step(logits_of(weights_, hidden), hidden.size(0), end);
}

KeptTokens DecodingBuffers::copy_entry(std::int64_t entry, std::int64_t count) const {
  KeptTokens kept;
  for (const Tensor& past : past_) kept.push_back(past.select(0, entry).slice(0, 0, count).clone());
  return kept;
}

void DecodingBuffers::restore_entry(std::int64_t entry, const KeptTokens& tokens) {
  for (std::size_t i = 0; i < past_.size(); ++i) {
    past_[i].select(0, entry).slice(0, 0, tokens[i].size(0)).copy_from(tokens[i]);
  }
}

}  // namespace headway::inline v0::internal
