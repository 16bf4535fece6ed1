// Products by cuBLASLt, which is opened on first use: Headway needs neither its headers nor its library to be built.
#pragma once

#include <cstdint>

#include "headway/dtype.h"

namespace headway::inline v0::internal::cuda {

// A batch of matrices stored by columns, as cuBLASLt has them. Strides are in elements; a batch stride of 0 repeats.
struct LtMatrix {
  const void* data = nullptr;
  std::int64_t leading = 0;  // from one stored column to the next
  std::int64_t batch_stride = 0;
  bool transposed = false;  // stored by rows instead
};

// result (m, n) = activation(left (m, k) right (k, n) + bias (m)) for every matrix of a batch, of sizes above 0.
struct LtProduct {
  DType dtype = DType::float32;         // of left and right
  DType result_dtype = DType::float32;  // of result and bias
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  LtMatrix left = {};
  LtMatrix right = {};
  void* result = nullptr;
  std::int64_t result_leading = 0;
  std::int64_t result_batch_stride = 0;
  const void* bias = nullptr;  // (m); null: none
  bool relu = false;
  bool gelu_tanh = false;           // for results of 16 bits and a batch of one
  void* before = nullptr;           // (m, n): where the argument of gelu_tanh is kept too; null: nowhere
  std::int64_t before_leading = 0;  // a multiple of 8
  bool accumulate = false;          // result += the product
};

// Starts the product on the thread's stream; false where cuBLASLt has no algorithm for it. The algorithm follows from
// sizes, strides and alignments: bits are the same each time. Sums are float64 for float64, else float32 without TF32.
bool lt_product(const LtProduct& product);

}  // namespace headway::inline v0::internal::cuda
