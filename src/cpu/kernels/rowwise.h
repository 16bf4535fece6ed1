// Inputs and results of the kernels of norms, softmax, losses and embeddings: operations over whole rows.
#pragma once

#include <cstdint>

#include "headway/dtype.h"

namespace headway::inline v0::internal {

// In all tasks: rows are dense, one after the other, and a task does those of [begin, end). Elements are of `dtype`;
// "Real" is float64 for float64 and float32 for the others.

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias; without a mean where it is not wanted (RMS norm).
struct NormTask {
  DType dtype = DType::float32;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t features = 0;
  double epsilon = 0;
  const void* x = nullptr;       // (rows, features)
  const void* weight = nullptr;  // (features); null: ones
  const void* bias = nullptr;    // (features); null: zeros
  void* y = nullptr;             // (rows, features)
  void* mean = nullptr;          // (rows) Real; null: RMS norm
  void* inverse = nullptr;       // (rows) Real: 1 / sqrt(variance + epsilon)
};

struct NormBackwardTask {
  DType dtype = DType::float32;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t features = 0;
  const void* x = nullptr;        // (rows, features)
  const void* weight = nullptr;   // (features); null: ones
  const void* mean = nullptr;     // (rows) Real; null: RMS norm
  const void* inverse = nullptr;  // (rows) Real
  const void* d_y = nullptr;      // (rows, features)
  void* d_x = nullptr;            // (rows, features), may be d_y; null: not wanted
  void* d_weight = nullptr;       // (features) Real: the sum over this task's rows; null: not wanted
  void* d_bias = nullptr;         // (features) Real: likewise
};

// target[i] = the sum of parts[p][i] over p in ascending order, for i in [begin, end).
struct JoinTask {
  DType dtype = DType::float32;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t parts_count = 0;
  std::int64_t part_stride = 0;
  const void* parts = nullptr;  // (parts_count, part_stride) Real
  void* target = nullptr;
};

struct SoftmaxTask {
  DType dtype = DType::float32;
  bool logarithm = false;  // log_softmax
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t classes = 0;
  const void* x = nullptr;  // (rows, classes)
  void* y = nullptr;        // (rows, classes)
};

struct SoftmaxBackwardTask {
  DType dtype = DType::float32;
  bool logarithm = false;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t classes = 0;
  const void* y = nullptr;    // (rows, classes)
  const void* d_y = nullptr;  // (rows, classes)
  void* d_x = nullptr;        // (rows, classes), may be d_y
};

struct CrossEntropyTask {
  DType dtype = DType::float32;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t classes = 0;
  double smoothing = 0;
  const void* logits = nullptr;           // (rows, classes)
  const std::int64_t* targets = nullptr;  // (rows); negative: the row is ignored
  void* logsumexp = nullptr;              // (rows) Real; unchanged where a row is ignored
  double* losses = nullptr;               // (rows)
};

// d_logits = (softmax - target distribution) * d_loss * factor.
struct CrossEntropyBackwardTask {
  DType dtype = DType::float32;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t classes = 0;
  double smoothing = 0;
  double factor = 1;
  const void* logits = nullptr;           // (rows, classes)
  const std::int64_t* targets = nullptr;  // (rows)
  const void* logsumexp = nullptr;        // (rows) Real
  const void* d_losses = nullptr;         // (rows) Real, or one for all of them
  bool one_d_loss = false;
  void* d_logits = nullptr;  // (rows, classes)
};

// Row r of d_weight is the sum of the rows of d_output at order[starts[r]] .. order[starts[r + 1] - 1], in that order.
struct EmbeddingBackwardTask {
  DType dtype = DType::float32;
  std::int64_t begin = 0;  // rows of d_weight
  std::int64_t end = 0;
  std::int64_t features = 0;
  const std::int64_t* starts = nullptr;  // (count + 1)
  const std::int64_t* order = nullptr;   // (tokens)
  const void* d_output = nullptr;        // (tokens, features)
  void* d_weight = nullptr;              // (count, features)
};

struct RowwiseKernels {
  void (*norm)(const NormTask& task) noexcept = nullptr;
  void (*norm_backward)(const NormBackwardTask& task) noexcept = nullptr;
  void (*join)(const JoinTask& task) noexcept = nullptr;
  void (*softmax)(const SoftmaxTask& task) noexcept = nullptr;
  void (*softmax_backward)(const SoftmaxBackwardTask& task) noexcept = nullptr;
  void (*cross_entropy)(const CrossEntropyTask& task) noexcept = nullptr;
  void (*cross_entropy_backward)(const CrossEntropyBackwardTask& task) noexcept = nullptr;
  void (*embedding_backward)(const EmbeddingBackwardTask& task) noexcept = nullptr;
};

}  // namespace headway::inline v0::internal
