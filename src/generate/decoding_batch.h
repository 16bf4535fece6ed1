// One batch of sources that are decoded together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "generate/decoding_buffers.h"
#include "generate/step_decoder.h"

namespace headway::inline v0::internal {

// Rows are hypotheses: one per source in greedy search, several in beam search.
class DecodingBatch {
 public:
  // Encodes the sources, for at most `most_tokens` tokens in every row.
  DecodingBatch(const StepDecoder& decoder, const SourceList& sources, std::int64_t beam, std::int64_t most_tokens);
  ~DecodingBatch();
  DecodingBatch(const DecodingBatch&) = delete;
  DecodingBatch& operator=(const DecodingBatch&) = delete;

  // ---- greedy search ----
  // The number of steps before the host reads the chosen tokens: waiting for a device takes time.
  std::int64_t steps_at_once() const { return decoder_.weights().device().is_cpu() ? 1 : 4; }
  struct ChosenTokens {
    Tensor tokens;  // [steps, rows or more] int64, on the CPU
    Tensor scores;  // [steps, rows or more] float32: log-probabilities
  };
  // Takes `steps` steps, the first from the start token. The next call may change the result.
  ChosenTokens take_steps(std::int64_t steps);
  // Whether steps of this many rows would be smaller than the present ones.
  bool has_smaller_step(std::int64_t rows) const { return buffers_->padded(rows) < buffers_->padded(rows_); }
  // Continues with fewer rows: row i is the former row kept[i].
  void keep_rows(const std::vector<std::int64_t>& kept);

  // ---- beam search ----
  // Row i continues row parents[i] of the step before with tokens[i]; its source is sources[i].
  struct BeamRows {
    std::vector<std::int64_t> tokens;
    std::vector<std::int64_t> parents;
    std::vector<std::int64_t> sources;
  };
  // One row per source, with the start token.
  BeamRows first_rows() const;
  // The best next tokens after one more step, on the CPU. The next call may change them.
  TopTokens step(const BeamRows& rows);

 private:
  const StepDecoder& decoder_;
  std::unique_ptr<DecodingBuffers> buffers_;
  std::int64_t rows_ = 0;
  std::int64_t length_ = 0;              // steps so far
  std::vector<std::int64_t> source_of_;  // (rows) as the buffers have it
};

}  // namespace headway::inline v0::internal
