#include "models/model_directory.h"

namespace headway::inline v0::internal {
namespace {

// The config with other labels.
ModelConfig with_labels(const ModelConfig& config, const std::vector<std::string>& labels) {
  Json names = Json::object();
  Json ids = Json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string id = std::to_string(i);
    check(!ids.find(labels[i]), "new_labels has ", labels[i], " twice");
    names.set(id, labels[i]);
    ids.set(labels[i], static_cast<std::int64_t>(i));
  }
  Json fields = Json::object();
  for (const auto& [name, value] : config.fields().fields()) {
    if (name != "num_labels" && name != "_num_labels") fields.set(name, value);
  }
  fields.set("id2label", names);
  fields.set("label2id", ids);
  return {config.name(), fields};
}

}  // namespace

ModelPlan plan_model(const ModelConfig& given, const std::optional<HeadKind>& new_head,
                     const std::vector<std::string>& new_labels) {
  const Family* family = &family_of(given);
  ModelConfig config = family->text_config ? family->text_config(given) : given;
  const bool classes = new_head == HeadKind::sequence || new_head == HeadKind::tokens;
  check(new_labels.empty() || classes, "new_labels has ", new_labels.size(),
        " labels, expected none without a new head of classes");
  if (!new_labels.empty()) config = with_labels(config, new_labels);
  const HeadKind head = new_head ? *new_head : head_of(config, *family);
  check(has_head(*family, head), config.name(), ": ", family->model_type,
        family->language_model ? " is an encoder-decoder, which has no head of classes"
                               : " reads pictures, and has no other head than that of a picture's classes");
  TransformerModelOptions options = family->read(config, head);
  return {std::move(config), family, std::move(options)};
}

Json config_of(const ModelPlan& plan) {
  Json fields = plan.config.fields();
  const HeadKind head = plan.options.head.kind;
  // The class of the file is kept where it has this head: BertForPreTraining.
  const std::vector<std::string> architectures = plan.config.strings("architectures");
  if (architectures.empty() || head_of(plan.config, *plan.family) != head) {
    fields.set("architectures", std::vector<Json>{architecture_of(*plan.family, head)});
  }
  return fields;
}

void check_parameter_count(const ModelPlan& plan) {
  constexpr double kMost = 1e13;
  double count = 0;
  for (const auto& [name, shape] : parameter_shapes(plan.options)) {
    double elements = 1;
    for (const std::int64_t size : shape) elements *= static_cast<double>(size);
    check(elements <= kMost, plan.config.name(), ": the sizes make a parameter ", name, " of ", shape,
          ", which no memory holds");
    count += elements;
  }
  check(count <= kMost, plan.config.name(), ": the sizes make a model of ", count,
        " parameters, which no memory holds");
}

}  // namespace headway::inline v0::internal
