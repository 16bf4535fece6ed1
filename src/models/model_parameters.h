// The parameters that a model of given options has, without making it: names, shapes, and the file's tensors for them.
#pragma once

#include <string>
#include <vector>

#include "headway/shape.h"
#include "models/family.h"

namespace headway::inline v0::internal {

struct ParameterShape {
  std::string name;
  Shape shape;
};
// In no particular order. The header of TransformerModel says which there are.
std::vector<ParameterShape> parameter_shapes(const TransformerModelOptions& options);

// A parameter and its tensors in a file.
struct FileTensor {
  std::string parameter;
  Shape shape;                      // of the parameter
  std::vector<std::string> pieces;  // names without the base model's prefix
  std::vector<Shape> piece_shapes;  // in the file
  bool transposed = false;
  std::int64_t part = 0;  // of the file's tensor, which has `parts` of this size
  std::int64_t parts = 1;
  std::string copy = {};  // a name under which it is written once more
  bool in_head = false;   // else the names have the base model's prefix where the model has a head
};
std::vector<FileTensor> file_tensors(const TransformerModelOptions& options, const Family& family);

}  // namespace headway::inline v0::internal
