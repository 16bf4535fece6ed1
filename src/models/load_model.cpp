// TransformerModel from a config and from a directory.
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "headway/autograd.h"
#include "headway/transformer_model.h"
#include "models/model_directory.h"
#include "models/model_initial_values.h"
#include "models/quantized_model.h"
#include "models/transformer_model_parts.h"

namespace headway::inline v0 {

using internal::check;
using internal::ModelPlan;

namespace {

// Parameters that no file has, by their names in the model.
class NewParameters : public Module {
 public:
  NewParameters(const ModelPlan& plan, const std::map<std::string, Tensor>& known) {
    for (const auto& [name, shape] : internal::parameter_shapes(plan.options)) {
      if (!known.contains(name)) add_parameter(name, Tensor::zeros(shape));
    }
    internal::set_initial_values(*this, plan.options);
  }
};

// The dtype of the parameter that a model reads its input with, in the files.
DType dtype_in_files(const TransformerModelOptions& options, const std::map<std::string, Tensor>& values) {
  const bool reads_pictures = !values.contains("embedding.weight") && !options.separate_embeddings;
  const char* first = options.separate_embeddings ? "decoder.embedding.weight"
                      : reads_pictures            ? "encoder.front.projection.weight"
                                                  : "embedding.weight";
  return values.at(first).dtype();
}

std::string generation_config_in(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return "";
  std::string text = internal::read_whole_file(file, {}, {.limit = internal::JsonLimits().bytes});
  internal::ModelConfig::parse(text, file.string());
  return text;
}

}  // namespace

TransformerModel TransformerModel::from_config(const std::string& config_json, DType dtype) {
  check(is_floating(dtype), "TransformerModel::from_config: dtype is ", dtype, ", expected a floating one");
  const ModelPlan plan = internal::plan_model(internal::ModelConfig::parse(config_json, "config.json"));
  internal::check_parameter_count(plan);
  return internal::make_transformer_model(plan.options, plan.config.string("model_type", ""),
                                          internal::config_of(plan).text(2), "", dtype, true);
}

TransformerModel TransformerModel::load(const std::filesystem::path& directory, const ModelLoading& loading) {
  const std::string where = directory.string();
  internal::check_directory(directory);
  check(!loading.dtype || is_floating(*loading.dtype) || *loading.dtype == DType::int8,
        "TransformerModel::load: dtype is ", loading.dtype.value_or(DType::float32), ", expected a floating one or ",
        DType::int8);
  const internal::ModelConfig config = internal::ModelConfig::read(directory / "config.json");
  const bool quantized = internal::is_quantized(config);
  check(loading.device.is_cpu() || loading.dtype.value_or(quantized ? DType::int8 : DType::float32) != DType::int8,
        where, ": weights in 8 bits are asked for on ", loading.device, ", expected the CPU or a floating dtype");
  ModelPlan plan = internal::plan_model(internal::without_quantization(config), loading.new_head, loading.new_labels);
  const internal::ModelFiles files(directory);
  const NoGradGuard guard;
  const bool new_head = loading.new_head.has_value();
  std::map<std::string, Tensor> values = quantized ? internal::read_quantized(where, files, new_head, plan)
                                                   : internal::read_parameters(where, files, new_head, plan);
  const DType dtype = loading.dtype ? *loading.dtype : (quantized ? DType::int8 : dtype_in_files(plan.options, values));

  const TransformerModel model = internal::make_transformer_model(plan.options, plan.config.string("model_type", ""),
                                                                  internal::config_of(plan).text(2),
                                                                  generation_config_in(directory), dtype, false);
  for (auto& [name, value] : NewParameters(plan, values).named_parameters()) values.emplace(name, value.detach());
  internal::set_parameters(model, values, loading.mapped);
  model.eval();
  if (loading.device != Device::cpu()) model.to(loading.device);
  return model;
}

std::vector<std::string> TransformerModel::families() {
  std::vector<std::string> names;
  for (const internal::Family& family : internal::families()) names.emplace_back(family.model_type);
  return names;
}

}  // namespace headway::inline v0
