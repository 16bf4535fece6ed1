// Texts computed in packed batches: sorted by length, without padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "headway/text_task.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"
#include "tasks/task_model.h"

namespace headway::inline v0::internal {

// What a batch holds: texts end to end.
struct PackedBatch {
  std::vector<std::size_t> texts;    // (texts of the batch) their numbers in the whole list
  std::vector<std::int64_t> starts;  // (texts of the batch + 1) where their tokens begin, and the end of the last
};

// Texts of similar length together, the longest first, so that memory is largest in the first batch. A batch has at
// most `batch_tokens` tokens, or one text.
std::vector<PackedBatch> batches_by_length(const std::vector<TokenizedText>& texts, std::int64_t batch_tokens);

// The tokens of all texts (of pairs where `second` is not null), on all threads; `notes` gets one entry for each.
std::vector<TokenizedText> tokenize_all(const TaskModel& model, const std::vector<std::string>& texts,
                                        const std::vector<std::string>* second, std::vector<TextNotes>& notes);

// Calls use(batch, result) with the model's result for every batch, or that of an encoder-decoder's encoder, without
// recording gradients.
void for_each_batch(const TaskModel& model, const std::vector<TokenizedText>& texts, std::int64_t batch_tokens,
                    FunctionRef<void(const PackedBatch& batch, const ModelResult& result)> use);

// A tensor as float32 on the CPU, row by row.
Tensor on_cpu(const Tensor& tensor);

}  // namespace headway::inline v0::internal
