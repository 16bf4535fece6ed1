// CLIP's config.json and the names of its tensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "headway/clip_model.h"
#include "models/model_config.h"
#include "models/model_parameters.h"

namespace headway::inline v0::internal {

// How the parameters of CLIP begin: factors of the whole model and of the towers.
struct ClipInitialValues {
  double factor = 1.0;
  double text_factor = 1.0;
  double picture_factor = 1.0;
  double picture_deviation = 0.02;
};

struct ClipPlan {
  ClipOptions options;
  ClipInitialValues initial_values;
};
ClipPlan plan_clip(const ModelConfig& config);

// A parameter of ClipModel and its tensor in a file.
struct ClipTensor {
  std::string parameter;
  Shape shape;
  std::string name;
  Shape file_shape;
};
std::vector<ClipTensor> clip_tensors(const ClipOptions& options);

// Sets the initial values of a model, by its parameters' names.
void set_clip_initial_values(const Module& model, const ClipPlan& plan);

}  // namespace headway::inline v0::internal
