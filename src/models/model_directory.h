// From the config and the tensors of a model directory to a model's options and parameters.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/family.h"
#include "models/model_files.h"
#include "models/model_parameters.h"

namespace headway::inline v0::internal {

// A config, its family and the options that follow from both.
struct ModelPlan {
  ModelConfig config;
  const Family* family = nullptr;
  TransformerModelOptions options = {};
};
// With the head that the config's architectures name, or a new one with these labels.
ModelPlan plan_model(const ModelConfig& config, const std::optional<HeadKind>& new_head = {},
                     const std::vector<std::string>& new_labels = {});
// The config with the architecture and the labels of the options.
Json config_of(const ModelPlan& plan);
// Refuses sizes that no memory has.
void check_parameter_count(const ModelPlan& plan);

// Finds the tensors of a plan in files, whatever prefix they have.
class TensorSearch {
 public:
  TensorSearch(const ModelFiles& files, const Family& family) : files_(files), family_(family) {}

  // The name in the files; empty where there is none. Found names count as used.
  std::string find(const std::string& name, bool in_head);
  bool contains(const std::string& name, bool in_head) { return !candidate(name, in_head).empty(); }
  void use(const std::string& file_name) { used_.insert(file_name); }
  bool is_used(const std::string& file_name) const { return used_.contains(file_name); }
  // Whether a name of the files is this one, or inside the module of this name.
  bool is_within(const std::string& file_name, const std::string& module) const;

 private:
  std::string candidate(const std::string& name, bool in_head) const;

  const ModelFiles& files_;
  const Family& family_;
  std::set<std::string> used_;
};

// The parameters of the plan as the files have them. Changes the plan where the files differ from the config in what is
// harmless: no pooler, no head, an output that is not tied. Throws one Error that names all tensors that are missing,
// mis-shaped or unexpected. With a new head its parameters are not among them.
std::map<std::string, Tensor> read_parameters(const std::string& where, const ModelFiles& files, bool new_head,
                                              ModelPlan& plan);

// The text of a config.json with the dtype under the names that it has.
std::string config_with_dtype(const std::string& config, DType dtype);

// The tensors of a model's file, of `dtype` or as they are: with the family's names, or in 8 bits with the model's own.
std::map<std::string, Tensor> file_state(const TransformerModel& model, std::optional<DType> dtype);

}  // namespace headway::inline v0::internal
