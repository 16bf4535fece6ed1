// Greedy search with the modules of a model.
#include "training/greedy_texts.h"

#include <algorithm>

#include "headway/ops.h"
#include "training/training_task.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::size_t kSearchRows = 64;

// Sources [first, end) at once; results go to the same places.
void search_batch(const TransformerModel& model, std::span<const std::vector<std::int64_t>> sources,
                  std::int64_t max_length, std::span<std::vector<std::int64_t>> results) {
  const TransformerModelOptions& options = model.options();
  ExampleSet examples;
  std::vector<std::int32_t> members;
  for (const std::vector<std::int64_t>& source : sources) {
    members.push_back(static_cast<std::int32_t>(members.size()));
    examples.add(source, {{0}});
  }
  const TokenRows rows = make_rows(examples, members, padding_of(options), device_of(model));
  const Tensor memory = model.encode(rows.input()).hidden;
  ModelCache cache;
  const std::int64_t count = std::ssize(sources);
  std::vector<std::int64_t> next(sources.size(), options.decoder_start_id.value());
  std::vector<bool> ended(sources.size(), false);
  for (std::int64_t step = 0; step < max_length; ++step) {
    ModelInput input;
    input.tokens = Tensor::from(next, {count, 1}).to(device_of(model));
    input.last_only = true;
    const Tensor logits = model.decode(input, cache, memory, rows.lengths).logits;  // [count, 1, vocab_size]
    const std::vector<double> best = argmax(logits, -1).to(Device::cpu()).to_vector();
    for (std::size_t row = 0; row < next.size(); ++row) {
      next[row] = static_cast<std::int64_t>(best[row]);
      if (std::count(options.eos_ids.begin(), options.eos_ids.end(), next[row]) > 0) ended[row] = true;
      if (!ended[row]) results[row].push_back(next[row]);
    }
    if (std::find(ended.begin(), ended.end(), false) == ended.end()) return;
  }
}

}  // namespace

std::vector<std::vector<std::int64_t>> greedy_texts(const TransformerModel& model,
                                                    const std::vector<std::vector<std::int64_t>>& sources,
                                                    std::int64_t max_length) {
  std::vector<std::vector<std::int64_t>> results(sources.size());
  for (std::size_t first = 0; first < sources.size(); first += kSearchRows) {
    const std::size_t count = std::min(kSearchRows, sources.size() - first);
    search_batch(model, std::span(sources).subspan(first, count), max_length, std::span(results).subspan(first, count));
  }
  return results;
}

}  // namespace headway::inline v0::internal
