// Models with weights in 8 bits: their directories, and parameters into and out of such models.
#pragma once

#include <map>
#include <string>

#include "models/model_directory.h"
#include "models/quantization_config.h"

namespace headway::inline v0::internal {

// The parameters of a quantized directory, which have the names of the model's own: tensors of int8 [rows, columns]
// beside NAME_scale [rows], others floating. Otherwise as read_parameters().
std::map<std::string, Tensor> read_quantized(const std::string& where, const ModelFiles& files, bool new_head,
                                             ModelPlan& plan);

// Gives a model its parameters, converted to the model's dtypes, which quantizes or brings back floating numbers. Where
// `mapped` is false, every one has memory of its own. Those of a model in 8 bits require no gradients.
void set_parameters(const TransformerModel& model, const std::map<std::string, Tensor>& values, bool mapped);

bool is_quantized(const TransformerModel& model);
// Refuses a dtype that the parameters cannot be written as.
void check_saved_dtype(const char* function, DType dtype, bool quantized);
// The model's state as `dtype`, or as it is.
StateDict state_as(const TransformerModel& model, std::optional<DType> dtype);

}  // namespace headway::inline v0::internal
