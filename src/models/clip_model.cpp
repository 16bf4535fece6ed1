#include "headway/clip_model.h"

#include <set>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/staged_files.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "io/safetensors.h"
#include "models/clip_config.h"
#include "models/model_directory.h"
#include "models/tensor_problems.h"
#include "models/transformer_model_parts.h"
#include "nn/initial_values.h"

namespace headway::inline v0 {

using internal::check;
using internal::ClipTensor;
using internal::Json;

namespace internal {

// Of one number.
class LogitScale : public Module {
 public:
  explicit LogitScale(DType dtype) : value_(add_parameter("logit_scale", constant({}, 0.0, dtype))) {}
  const Parameter& value() const { return value_; }

 private:
  Parameter value_;
};

}  // namespace internal

struct ClipModel::Parts {
  ClipOptions options;
  std::string config;
  TransformerModel text;
  TransformerModel picture;
  LayerNorm picture_norm;
  Linear text_projection;
  Linear picture_projection;
  internal::LogitScale logit_scale;
};

namespace {

std::shared_ptr<ClipModel::Parts> make_parts(const ClipOptions& options, std::string config, DType dtype) {
  const internal::SkipInitialValues guard;
  const auto tower = [&](const TransformerModelOptions& tower_options, const char* family) {
    return internal::make_transformer_model(tower_options, family, "{}", "", dtype, /*with_initial_values=*/false);
  };
  const auto projection = [&](const TransformerModelOptions& tower_options) {
    return Linear({.in_features = tower_options.encoder.width,
                   .out_features = options.projection,
                   .bias = false,
                   .dtype = dtype});
  };
  const StackOptions& picture = options.picture.encoder;
  return std::make_shared<ClipModel::Parts>(ClipModel::Parts{
      .options = options,
      .config = std::move(config),
      .text = tower(options.text, "clip_text_model"),
      .picture = tower(options.picture, "clip_vision_model"),
      .picture_norm = LayerNorm({.width = picture.width, .epsilon = picture.norm_epsilon, .dtype = dtype}),
      .text_projection = projection(options.text),
      .picture_projection = projection(options.picture),
      .logit_scale = internal::LogitScale(dtype)});
}

// The config as it is written.
std::string written_config(const internal::ModelConfig& config) {
  Json fields = config.fields();
  fields.set("architectures", std::vector<Json>{std::string("CLIPModel")});
  return fields.text(2);
}

void check_sizes(const ClipOptions& options, const std::string& name) {
  constexpr double kMost = 1e13;
  double count = 0;
  for (const ClipTensor& tensor : internal::clip_tensors(options)) {
    double elements = 1;
    for (const std::int64_t size : tensor.shape) elements *= static_cast<double>(size);
    count += elements;
  }
  check(count <= kMost, name, ": the sizes make a model of ", count, " parameters, which no memory holds");
}

// The tensors of a file by our names; throws one Error that names all that are missing, mis-shaped or unexpected.
std::map<std::string, Tensor> read_tensors(const std::string& where, const internal::ModelFiles& files,
                                           const ClipOptions& options) {
  internal::TensorProblems problems;
  std::map<std::string, Tensor> values;
  std::set<std::string> known;
  for (const ClipTensor& tensor : internal::clip_tensors(options)) {
    known.insert(tensor.name);
    if (!files.contains(tensor.name)) {
      problems.missing(tensor.name, tensor.file_shape);
      continue;
    }
    const Tensor found = files.get(tensor.name);
    if (found.shape() == tensor.file_shape && is_floating(found.dtype())) {
      values[tensor.parameter] = found.view(tensor.shape);
    } else {
      problems.wrong(tensor.name, found, "floats " + tensor.file_shape.to_string());
    }
  }
  for (const std::string& name : files.names()) {
    if (!known.contains(name) && !name.ends_with(".position_ids")) problems.unexpected(name, files.get(name));
  }
  problems.check_none(where);
  return values;
}

// x / |x| for each row.
Tensor of_length_one(const Tensor& x) { return div(x, sqrt(sum(mul(x, x), {-1}, /*keep_dims=*/true))); }

// The place of the token that stands for each text: int64 (texts), as rows of (texts * length).
Tensor pooled_rows(const Tensor& tokens, const std::optional<std::int64_t>& pooled_id) {
  const Tensor ids = tokens.to(Device::cpu()).to(DType::int64).contiguous();
  const std::int64_t length = ids.size(1);
  std::vector<std::int64_t> rows;
  for (std::int64_t text = 0; text < ids.size(0); ++text) {
    const std::int64_t* id = ids.data<std::int64_t>() + text * length;
    std::int64_t found = 0;
    for (std::int64_t i = 1; i < length; ++i) {
      const bool better = pooled_id ? id[i] == *pooled_id && id[found] != *pooled_id : id[i] > id[found];
      if (better) found = i;
    }
    rows.push_back(text * length + found);
  }
  return Tensor::from(rows, {static_cast<std::int64_t>(rows.size())});
}

}  // namespace

ClipModel::ClipModel(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {
  add_module("text", parts_->text);
  add_module("picture", parts_->picture);
  add_module("picture_norm", parts_->picture_norm);
  add_module("text_projection", parts_->text_projection);
  add_module("picture_projection", parts_->picture_projection);
  add_parameter("logit_scale", parts_->logit_scale.value());
}

ClipModel ClipModel::from_config(const std::string& config_json, DType dtype) {
  check(is_floating(dtype), "ClipModel::from_config: dtype is ", dtype, ", expected a floating one");
  const internal::ModelConfig config = internal::ModelConfig::parse(config_json, "config.json");
  const internal::ClipPlan plan = internal::plan_clip(config);
  check_sizes(plan.options, config.name());
  const ClipModel model(make_parts(plan.options, written_config(config), dtype));
  internal::set_clip_initial_values(model, plan);
  return model;
}

ClipModel ClipModel::load(const std::filesystem::path& directory, const ModelLoading& loading) {
  internal::check_directory(directory);
  check(!loading.dtype || is_floating(*loading.dtype), "ClipModel::load: dtype is ",
        loading.dtype.value_or(DType::float32), ", expected a floating one");
  check(!loading.new_head && loading.new_labels.empty(), "ClipModel::load: new_head is given, and CLIP has no head");
  const internal::ModelConfig config = internal::ModelConfig::read(directory / "config.json");
  const internal::ClipPlan plan = internal::plan_clip(config);
  const internal::ModelFiles files(directory);
  const NoGradGuard guard;
  const std::map<std::string, Tensor> values = read_tensors(directory.string(), files, plan.options);
  const DType dtype = loading.dtype.value_or(values.at("text.embedding.weight").dtype());
  const ClipModel model(make_parts(plan.options, written_config(config), dtype));
  for (const auto& [name, value] : values) {
    Tensor parameter = value.to(dtype);
    if (!loading.mapped && parameter.is_read_only()) parameter = parameter.clone();
    model.set_parameter(name, parameter.detach().set_requires_grad());
  }
  model.eval();
  if (loading.device != Device::cpu()) model.to(loading.device);
  return model;
}

std::string ClipModel::config() const {
  return internal::config_with_dtype(parts_->config, parts_->logit_scale.value().get().dtype());
}

void ClipModel::save(const std::filesystem::path& directory, std::optional<DType> dtype) const {
  check(!dtype || is_floating(*dtype), "ClipModel::save: dtype is ", dtype.value_or(DType::float32),
        ", expected a floating one");
  const NoGradGuard guard;
  const StateDict state = state_dict();
  const DType written = dtype.value_or(parts_->logit_scale.value().get().dtype());
  std::map<std::string, Tensor> tensors;
  for (const ClipTensor& tensor : internal::clip_tensors(parts_->options)) {
    tensors[tensor.name] = state.at(tensor.parameter).to(written).reshape(tensor.file_shape);
  }
  internal::replace_files(directory, [&](const std::filesystem::path& files) {
    internal::save_safetensors_checked(files / "model.safetensors", tensors, {{"format", "pt"}});
    internal::replace_file(files / "config.json", internal::config_with_dtype(parts_->config, written));
  });
}

ClipEmbeddings ClipModel::embed_texts(const Tensor& tokens, const PerEntry& lengths, Weights weights) const {
  ModelResult result = parts_->text.forward({.tokens = tokens, .lengths = lengths, .weights = weights});
  check(tokens.size(1) > 0, "ClipModel::embed_texts: tokens is ", tokens, ", expected at least one token");
  const Tensor& hidden = result.hidden;
  const Tensor rows = hidden.reshape({hidden.size(0) * hidden.size(1), hidden.size(2)});
  const Tensor pooled = embedding(rows, pooled_rows(tokens, parts_->options.pooled_id));
  const Tensor projected = parts_->text_projection.forward(pooled);
  return {.embeddings = of_length_one(projected),
          .projected = projected,
          .hidden = hidden,
          .weights = std::move(result.encoder_weights)};
}

ClipEmbeddings ClipModel::embed_pictures(const Tensor& pictures, Weights weights) const {
  ModelResult result = parts_->picture.forward({.features = pictures, .weights = weights});
  const Tensor pooled = parts_->picture_norm.forward(result.hidden.select(1, 0));  // of the class token
  const Tensor projected = parts_->picture_projection.forward(pooled);
  return {.embeddings = of_length_one(projected),
          .projected = projected,
          .hidden = result.hidden,
          .weights = std::move(result.encoder_weights)};
}

ClipResult ClipModel::forward(const ClipInput& input) const {
  ClipResult result;
  result.text = embed_texts(input.tokens, input.lengths, input.weights);
  result.picture = embed_pictures(input.pictures, input.weights);
  const Tensor cosines = linear(result.text.embeddings, result.picture.embeddings);  // [texts, pictures]
  result.logits_per_text = mul(cosines, exp(parts_->logit_scale.value().get()));
  result.logits_per_picture = result.logits_per_text.transpose(0, 1);
  return result;
}

Tensor ClipModel::contrastive_loss(const Tensor& logits_per_text) {
  check(logits_per_text.defined() && logits_per_text.rank() == 2 &&
            logits_per_text.size(0) == logits_per_text.size(1) && logits_per_text.size(0) > 0,
        "ClipModel::contrastive_loss: logits_per_text is ", logits_per_text, ", expected as many texts as pictures");
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(logits_per_text.size(0)));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  const Tensor targets = Tensor::from(numbers, {logits_per_text.size(0)}).to(logits_per_text.device());
  const Tensor of_texts = cross_entropy(logits_per_text, targets);
  const Tensor of_pictures = cross_entropy(logits_per_text.transpose(0, 1), targets);
  return scale(add(of_texts, of_pictures), 0.5);
}

const ClipOptions& ClipModel::options() const { return parts_->options; }
const TransformerModel& ClipModel::text_tower() const { return parts_->text; }
const TransformerModel& ClipModel::picture_tower() const { return parts_->picture; }

}  // namespace headway::inline v0
