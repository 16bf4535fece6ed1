// Checks of attention's arguments.
#pragma once

#include <string_view>

#include "backend/attention_problem.h"

namespace headway::inline v0::internal {

inline constexpr const char* kAttention = "attention";  // its name in errors and records

// Checks all arguments and resolves their defaults; throws an Error that names `function` and the argument.
AttentionProblem make_attention_problem(std::string_view function, const Tensor& query, const Tensor& key,
                                        const Tensor& value, const AttentionOptions& options);

// Throws unless the tensor, where it is defined, is on the query's device.
void check_device(std::string_view function, std::string_view name, const Tensor& tensor, const Tensor& query);

// The tensor itself where its last dimension is contiguous, a copy elsewhere.
Tensor with_contiguous_rows(const Tensor& tensor);

// A new tensor whose dimensions lie in memory in the order of `like`'s; the last one is contiguous.
Tensor empty_in_order_of(const Tensor& like, const Shape& shape, DType dtype);

// The shape of the weights that the options ask for.
Shape weights_shape(const AttentionProblem& problem);

}  // namespace headway::inline v0::internal
