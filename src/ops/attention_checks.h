// Checks of attention's arguments.
#pragma once

#include <string_view>

#include "backend/attention_problem.h"

namespace headway::inline v0::internal {

inline constexpr const char* kAttention = "attention";  // its name in errors and records

// The lengths of a sequence of which the tensors are a part.
struct WholeLengths {
  std::int64_t query = 0;
  std::int64_t key = 0;
};

// Checks all arguments and resolves their defaults; throws an Error that names `function` and the argument.
AttentionProblem make_attention_problem(std::string_view function, const Tensor& query, const Tensor& key,
                                        const Tensor& value, const AttentionOptions& options);

// The same of tensors that are a part of a sequence: the problem's sequences are those of the whole, its query_length is
// the tensor's, and its key_length that of the whole, as mask and bias have them.
AttentionProblem make_attention_problem(std::string_view function, const Tensor& query, const Tensor& key,
                                        const Tensor& value, const AttentionOptions& options,
                                        const WholeLengths& whole);

// Throws unless the tensor, where it is defined, is on the query's device.
void check_device(std::string_view function, std::string_view name, const Tensor& tensor, const Tensor& query);

// The tensor itself where its last dimension is contiguous, a copy elsewhere.
Tensor with_contiguous_rows(const Tensor& tensor);

// A new tensor whose dimensions lie in memory in the order of `like`'s; the last one is contiguous.
Tensor empty_in_order_of(const Tensor& like, const Shape& shape, DType dtype);

// The shape of the weights that the options ask for.
Shape weights_shape(const AttentionProblem& problem);

}  // namespace headway::inline v0::internal
