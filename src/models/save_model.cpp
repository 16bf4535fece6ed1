// TransformerModel into a directory.
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/staged_files.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/safetensors.h"
#include "headway/transformer_model.h"
#include "io/safetensors.h"
#include "models/model_directory.h"
#include "models/quantized_model.h"
#include "models/transformer_model_parts.h"
#include "nn/quantized_product.h"

namespace headway::inline v0 {

using internal::check;
using internal::FileTensor;
using internal::Json;

namespace {

// The tensors of one parameter: split, transposed, with their names in the file.
void add_file_tensors(const FileTensor& tensor, const std::string& prefix, const Tensor& parameter,
                      std::map<std::string, Tensor>& tensors) {
  if (tensor.parts > 1) {
    // The parameters come in the order of their parts.
    Tensor& whole = tensors[(tensor.in_head ? "" : prefix) + tensor.pieces.front()];
    const int outputs = tensor.transposed && parameter.rank() == 2 ? 1 : 0;
    const Tensor part = outputs == 1 ? parameter.transpose(0, 1) : parameter;
    whole = whole.defined() ? concat({whole, part.contiguous()}, outputs) : part.contiguous();
    return;
  }
  std::int64_t first = 0;
  for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
    const Shape& shape = tensor.piece_shapes[i];
    Tensor piece = parameter;
    if (tensor.pieces.size() > 1) {
      piece = parameter.slice(0, first, first + shape[0]);
      first += shape[0];
    }
    piece = tensor.transposed ? piece.transpose(0, 1) : piece.reshape(shape);
    tensors[(tensor.in_head ? "" : prefix) + tensor.pieces[i]] = piece;
    if (!tensor.copy.empty()) tensors[(tensor.in_head ? "" : prefix) + tensor.copy] = piece;
  }
}

// The tables that the model makes by itself.
void add_positions(const TransformerModelOptions& options, const std::string& prefix, DType dtype,
                   std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, stack] : {std::pair{"encoder", &options.encoder}, std::pair{"decoder", &options.decoder}}) {
    if (stack->positions != PositionKind::sinusoidal) continue;
    tensors[prefix + name + ".embed_positions.weight"] =
        sinusoidal_positions(stack->max_positions, stack->width, stack->sinusoid, DType::float32).to(dtype);
  }
}

DType parameters_dtype(const TransformerModel& model) {
  return internal::is_quantized(model) ? DType::int8 : model.named_parameters().front().tensor.dtype();
}

}  // namespace

std::string internal::config_with_dtype(const std::string& config, DType dtype) {
  Json fields = without_quantization(ModelConfig::parse(config, "config.json")).fields();
  // Of a model in 8 bits, what is not in 8 bits.
  const std::string name(dtype_name(computing_dtype(dtype)));
  if (fields.find("torch_dtype")) fields.set("torch_dtype", name);
  if (fields.find("dtype") || !fields.find("torch_dtype")) fields.set("dtype", name);
  if (dtype == DType::int8) {
    fields.set("quantization_config", Json{{"quant_method", "headway"}, {"bits", 8}, {"scheme", "row"}});
  }
  return fields.text(2) + "\n";
}

std::map<std::string, Tensor> internal::file_state(const TransformerModel& model, std::optional<DType> dtype) {
  if (dtype.value_or(parameters_dtype(model)) == DType::int8) return model.state_dict();
  const Family& family = family_named(model.family());
  const TransformerModelOptions& options = model.options();
  const StateDict state = state_as(model, dtype);
  const std::string prefix = options.head.kind == HeadKind::none ? "" : family.prefixes.front();
  std::map<std::string, Tensor> tensors;
  for (const FileTensor& tensor : file_tensors(options, family)) {
    add_file_tensors(tensor, prefix, state.at(tensor.parameter), tensors);
  }
  // Models without a head have the tables in every family.
  if (family.writes_positions || options.head.kind == HeadKind::none) {
    add_positions(options, prefix, dtype.value_or(parameters_dtype(model)), tensors);
  }
  return tensors;
}

std::string TransformerModel::config() const {
  return internal::config_with_dtype(parts().config, parameters_dtype(*this));
}

void TransformerModel::save(const std::filesystem::path& directory, std::optional<DType> dtype) const {
  if (dtype) internal::check_saved_dtype("TransformerModel::save", *dtype, internal::is_quantized(*this));
  const NoGradGuard guard;
  const std::map<std::string, Tensor> tensors = internal::file_state(*this, dtype);
  internal::replace_files(directory, [&](const std::filesystem::path& files) {
    internal::save_safetensors_checked(files / "model.safetensors", tensors, {{"format", "pt"}});
    const std::string generation = generation_config();
    if (!generation.empty()) internal::replace_file(files / "generation_config.json", generation);
    internal::replace_file(files / "config.json",
                           internal::config_with_dtype(parts().config, dtype.value_or(parameters_dtype(*this))));
  });
}

}  // namespace headway::inline v0
