// Inputs and results of the decoding kernels: plain structs, the same for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headway/dtype.h"

namespace headway::inline v0::internal {

// "Real" is float64 for float64 and float32 for the others.

// One query per head over tokens that lie anywhere, for the heads of some key/value heads: result = softmax(scores) V,
// zero without tokens. The query is at the position of the last token.
struct TokenAttentionTask {
  DType dtype = DType::float32;
  std::int64_t group = 1;     // query heads that share a key/value head
  std::int64_t kv_heads = 1;  // of this task
  std::int64_t head_dim = 0;
  std::int64_t value_offset = 0;             // elements from a token's keys to its values
  std::int64_t count = 0;                    // tokens
  const std::byte* query = nullptr;          // (kv_heads * group, head_dim)
  const std::byte* const* tokens = nullptr;  // (count): each has keys (kv_heads, head_dim) at key_offset
  std::int64_t key_offset = 0;               // elements to the first key of this task
  double scale = 1;
  double softcap = 0;                    // 0: none
  const float* alibi_slopes = nullptr;   // (heads of this task); null: none
  const float* distance_bias = nullptr;  // (heads of this task, distances); null: none
  std::int64_t distances = 0;            // farther tokens have the last
  const float* sinks = nullptr;          // (heads of this task); null: none
  std::byte* result = nullptr;           // (kv_heads * group, head_dim)
  std::byte* workspace = nullptr;        // token_attention_workspace() bytes, 64-byte aligned
};

// A generous bound: scaled queries, outputs, and scores of every head to whole vectors.
constexpr std::size_t token_attention_workspace(std::int64_t heads, std::int64_t head_dim, std::int64_t tokens) {
  constexpr std::int64_t kMostLanes = 16;
  return static_cast<std::size_t>(heads * (2 * head_dim + tokens + kMostLanes) + 2 * kMostLanes) * sizeof(double);
}

// result = x W^T + bias + added of one row for some outputs, by weights of 16 bits as they lie.
struct WeightRowsTask {
  DType dtype = DType::bfloat16;
  std::int64_t outputs = 0;
  std::int64_t depth = 0;
  const float* x = nullptr;           // (depth)
  const std::byte* weight = nullptr;  // (outputs, depth)
  const std::byte* bias = nullptr;    // (outputs); null: none
  const std::byte* added = nullptr;   // (outputs); null: none
  std::byte* result = nullptr;        // (outputs)
};

// Heads of one row that are normed and rotated: target = rotate(norm(source)), which may be the same memory.
struct HeadRowTask {
  DType dtype = DType::float32;
  std::int64_t heads = 1;
  std::int64_t head_dim = 0;
  const std::byte* source = nullptr;       // (heads, head_dim)
  std::byte* target = nullptr;             // (heads, head_dim)
  const std::byte* norm_weight = nullptr;  // (head_dim); null: no norm
  double norm_epsilon = 0;
  const float* rotation = nullptr;  // (dims / 2) cosines, then as many sines; null: no rotation
  std::int64_t dims = 0;
  bool interleaved = false;
  std::byte* workspace = nullptr;  // head_dim doubles
};

// Classes whose logits are looked at one by one only where their maximum is good enough.
inline constexpr std::int64_t kLogitBlock = 128;

// The largest logit of every block of one row, and the logarithm of the sum of exp(logits).
struct LogitRowTask {
  DType dtype = DType::float32;
  std::int64_t classes = 0;
  const std::byte* logits = nullptr;  // (classes)
  void* maxima = nullptr;             // (classes / kLogitBlock, rounded up) Real; NaNs may be skipped
  void* logsumexp = nullptr;          // one Real; not finite where a logit is NaN or infinity
};

// powers[i] = exp((logits[i] - largest) * factor), where `largest` is that of all logits.
struct PowerRowTask {
  DType dtype = DType::float32;
  std::int64_t classes = 0;
  const std::byte* logits = nullptr;  // (classes)
  double largest = 0;
  double factor = 1;
  float* powers = nullptr;  // (classes)
};

struct DecodingKernels {
  void (*token_attention)(const TokenAttentionTask& task) noexcept = nullptr;
  void (*weight_rows)(const WeightRowsTask& task) noexcept = nullptr;
  void (*head_row)(const HeadRowTask& task) noexcept = nullptr;
  void (*power_row)(const PowerRowTask& task) noexcept = nullptr;
  void (*logit_row)(const LogitRowTask& task) noexcept = nullptr;
};

}  // namespace headway::inline v0::internal
