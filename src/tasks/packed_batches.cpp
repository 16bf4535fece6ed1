#include "tasks/packed_batches.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "core/thread_pool.h"
#include "headway/autograd.h"
#include "nn/evaluation_guard.h"

namespace headway::inline v0::internal {
namespace {

// Enough rows for products to run at full speed; more would leave the processor's caches, or the GPU's memory. Beside
// products in 8 bits, which are four times as fast, what is read and written between them counts more.
constexpr std::int64_t kTokensOnCpu = 4096, kTokensIn8Bits = 1024, kTokensOnDevice = 32768;
// Texts that one thread tokenizes at a time.
constexpr std::int64_t kTextsOfATask = 16;

ModelInput packed_input(const TaskModel& model, const std::vector<TokenizedText>& texts, const PackedBatch& batch) {
  std::vector<std::int64_t> ids, types;
  ids.reserve(static_cast<std::size_t>(batch.starts.back()));
  const bool typed = model.model.options().kind == ModelKind::encoder && model.model.options().encoder.token_types > 1;
  for (const std::size_t text : batch.texts) {
    ids.insert(ids.end(), texts[text].ids.begin(), texts[text].ids.end());
    if (typed) types.insert(types.end(), texts[text].type_ids.begin(), texts[text].type_ids.end());
  }
  const Shape shape = {1, batch.starts.back()};
  ModelInput input;
  input.tokens = Tensor::from(ids, shape);
  input.packed = batch.starts;
  const bool pairs = std::any_of(types.begin(), types.end(), [](std::int64_t type) { return type != 0; });
  if (pairs) input.token_types = Tensor::from(types, shape);
  return input;
}

std::int64_t default_batch_tokens(const TaskModel& model) {
  if (!model.device.is_cpu()) return kTokensOnDevice;
  return model.has_8_bits ? kTokensIn8Bits : kTokensOnCpu;
}

}  // namespace

std::vector<PackedBatch> batches_by_length(const std::vector<TokenizedText>& texts, std::int64_t batch_tokens) {
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return texts[a].ids.size() > texts[b].ids.size(); });
  std::vector<PackedBatch> batches;
  for (const std::size_t text : order) {
    const auto length = static_cast<std::int64_t>(texts[text].ids.size());
    if (batches.empty() || batches.back().starts.back() + length > batch_tokens) batches.push_back({{}, {0}});
    PackedBatch& batch = batches.back();
    batch.texts.push_back(text);
    batch.starts.push_back(batch.starts.back() + length);
  }
  return batches;
}

std::vector<TokenizedText> tokenize_all(const TaskModel& model, const std::vector<std::string>& texts,
                                        const std::vector<std::string>* second, std::vector<TextNotes>& notes) {
  const auto count = static_cast<std::int64_t>(texts.size());
  std::vector<TokenizedText> tokens(texts.size());
  notes.assign(texts.size(), {});
  parallel_for((count + kTextsOfATask - 1) / kTextsOfATask, [&](std::int64_t task, int) {
    const std::int64_t end = std::min(count, (task + 1) * kTextsOfATask);
    for (auto i = static_cast<std::size_t>(task * kTextsOfATask); i < static_cast<std::size_t>(end); ++i) {
      tokens[i] = model.tokenize(texts[i], second == nullptr ? nullptr : &(*second)[i], notes[i]);
    }
  });
  return tokens;
}

void for_each_batch(const TaskModel& model, const std::vector<TokenizedText>& texts, std::int64_t batch_tokens,
                    FunctionRef<void(const PackedBatch& batch, const ModelResult& result)> use) {
  check(batch_tokens >= 0, model.who, ": batch_tokens is ", batch_tokens,
        ", expected at least 1, or 0 for the default");
  const NoGradGuard no_grad;
  const EvaluationGuard evaluation(model.model);
  const std::int64_t most = batch_tokens > 0 ? batch_tokens : default_batch_tokens(model);
  for (const PackedBatch& batch : batches_by_length(texts, most)) {
    const ModelInput input = packed_input(model, texts, batch);
    const bool encodes = model.model.options().kind == ModelKind::encoder_decoder;
    use(batch, encodes ? model.model.encode(input) : model.model.forward(input));
  }
}

Tensor on_cpu(const Tensor& tensor) { return tensor.to(Device::cpu()).to(DType::float32).contiguous(); }

}  // namespace headway::inline v0::internal
