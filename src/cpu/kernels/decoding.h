// Inputs and results of the decoding kernels: plain structs, the same for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headway/dtype.h"

namespace headway::inline v0::internal {

// "Real" is float64 for float64 and float32 for the others.

// One query per head over tokens that lie anywhere: result = softmax(scale * Q K^T) V, zero without tokens.
struct TokenAttentionTask {
  DType dtype = DType::float32;
  std::int64_t heads = 1;
  std::int64_t head_dim = 0;
  std::int64_t count = 0;                    // tokens
  const std::byte* query = nullptr;          // (heads, head_dim)
  const std::byte* const* tokens = nullptr;  // (count): each has its keys (heads, head_dim), then its values likewise
  std::byte* result = nullptr;               // (heads, head_dim)
  std::byte* workspace = nullptr;            // token_attention_workspace() bytes, 64-byte aligned
};

// A generous bound: the scaled query, and the scores of one head to whole vectors.
constexpr std::size_t token_attention_workspace(std::int64_t features, std::int64_t tokens) {
  constexpr std::int64_t kMostLanes = 16;
  return static_cast<std::size_t>(features + tokens + 2 * kMostLanes) * sizeof(double);
}

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

struct DecodingKernels {
  void (*token_attention)(const TokenAttentionTask& task) noexcept = nullptr;
  void (*logit_row)(const LogitRowTask& task) noexcept = nullptr;
};

}  // namespace headway::inline v0::internal
