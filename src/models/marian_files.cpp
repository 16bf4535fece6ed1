// Loading and saving a Marian model directory.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/files.h"
#include "base/staged_files.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/safetensors.h"
#include "headway/translation_model.h"
#include "io/safetensors.h"
#include "models/marian_config.h"
#include "models/quantized_model.h"
#include "models/translation_parts.h"

namespace headway::inline v0 {

using internal::check;
using internal::FileTensor;

namespace {

namespace fs = std::filesystem;

constexpr const char* kBias = "final_logits_bias";
// The one embedding may be under any of these, or all.
constexpr std::array<const char*, 4> kEmbedding = {"model.shared.weight", "model.encoder.embed_tokens.weight",
                                                   "model.decoder.embed_tokens.weight", "lm_head.weight"};
constexpr std::array<const char*, 2> kPositions = {"model.encoder.embed_positions.weight",
                                                   "model.decoder.embed_positions.weight"};

// The tensors of a file, with messages that name it. Shapes are checked before anything of their size is made.
class File {
 public:
  explicit File(const fs::path& path) : name_(path.string()), file_(SafeTensors::open(path)) {}

  Tensor get(const std::string& name, const Shape& shape) {
    check(file_.contains(name), name_, ": tensor ", name, " is not there, expected ", shape);
    const Tensor tensor = file_.get(name);
    check(is_floating(tensor.dtype()) && tensor.shape() == shape, name_, ": tensor ", name, " is ", tensor,
          ", expected floats ", shape);
    used_.insert(name);
    return tensor;
  }

  Tensor embedding(const Shape& shape) {
    Tensor embedding;
    for (const char* name : kEmbedding) {
      if (!file_.contains(name)) continue;
      const Tensor tensor = get(name, shape);
      check(!embedding.defined() || equal(embedding, tensor), name_, ": tensor ", name,
            " differs from the other embeddings, and only one for source, target and output is supported");
      if (!embedding.defined()) embedding = tensor;
    }
    check(embedding.defined(), name_, ": tensor ", kEmbedding[0], " is not there, expected ", shape);
    return embedding;
  }

  // Stored positions must be the sinusoids that the model makes by itself.
  void check_positions(const TranslationModelOptions& options) {
    for (const char* name : kPositions) {
      if (!file_.contains(name)) continue;
      const Tensor tensor = get(name, {options.max_position_embeddings, options.d_model});
      const Tensor table =
          sinusoidal_positions(options.max_position_embeddings, options.d_model, Sinusoid::halves, DType::float32);
      const double tolerance = item_size(tensor.dtype()) == 2 ? 1e-2 : 1e-4;
      check(differ_by(tensor.to(DType::float32).contiguous(), table) <= tolerance, name_, ": tensor ", name,
            " holds other positions than sines and cosines, which is not supported");
    }
  }

  void check_all_used() const {
    for (const std::string& name : file_.names()) {
      check(used_.contains(name), name_, ": tensor ", name, " is not part of such a model");
    }
  }

 private:
  static double differ_by(const Tensor& a, const Tensor& b) {
    const float* x = a.data<float>();
    const float* y = b.data<float>();
    double most = 0.0;
    for (std::int64_t i = 0; i < a.element_count(); ++i) {
      const double difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
      if (!(difference <= most)) most = difference;
    }
    return most;
  }
  static bool equal(const Tensor& a, const Tensor& b) {
    return differ_by(a.to(DType::float32).contiguous(), b.to(DType::float32).contiguous()) == 0.0;
  }

  std::string name_;
  SafeTensors file_;
  std::set<std::string> used_;
};

fs::path weights_of(const fs::path& directory) {
  std::error_code ignored;
  const fs::path file = directory / "model.safetensors";
  if (!fs::exists(file, ignored)) {
    for (const char* other : {"model.safetensors.index.json", "pytorch_model.bin", "tf_model.h5"}) {
      check(!fs::exists(directory / other, ignored), directory.string(), ": has ", other,
            ", expected the weights in one file, model.safetensors");
    }
  }
  return file;
}

// A parameter's tensors, joined.
Tensor joined(const FileTensor& wanted, File& file) {
  std::vector<Tensor> pieces;
  for (std::size_t i = 0; i < wanted.pieces.size(); ++i) {
    pieces.push_back(file.get("model." + wanted.pieces[i], wanted.piece_shapes[i]).to(DType::float32));
  }
  return pieces.size() == 1 ? pieces.front() : concat(pieces, 0);
}

bool is_zero(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector();
  return std::all_of(values.begin(), values.end(), [](double value) { return value == 0.0; });
}

// The parameters of a file of floating numbers.
std::map<std::string, Tensor> read_marian(const fs::path& directory, const TranslationModelOptions& options,
                                          const internal::ModelPlan& plan) {
  File file(weights_of(directory));
  std::map<std::string, Tensor> values;
  values["embedding.weight"] = file.embedding({options.vocab_size, options.d_model});
  values["head.output.bias"] = file.get(kBias, {1, options.vocab_size}).reshape({options.vocab_size});
  for (const FileTensor& wanted : internal::file_tensors(plan.options, *plan.family)) {
    if (!values.contains(wanted.parameter)) values[wanted.parameter] = joined(wanted, file);
  }
  file.check_positions(options);
  file.check_all_used();
  return values;
}

}  // namespace

TranslationModel TranslationModel::load(const fs::path& directory, std::optional<DType> dtype) {
  internal::check_directory(directory);
  check(!dtype || *dtype == DType::float32 || *dtype == DType::int8, "TranslationModel::load: dtype is ",
        dtype.value_or(DType::float32), ", expected ", DType::float32, " or ", DType::int8);
  const TranslationModelOptions options = internal::read_marian_config(directory / "config.json");
  const bool quantized = internal::is_quantized(internal::ModelConfig::read(directory / "config.json"));
  const NoGradGuard guard;
  internal::ModelPlan plan =
      internal::plan_model(internal::ModelConfig("TranslationModel", internal::marian_config(options)));
  const std::map<std::string, Tensor> values =
      quantized ? internal::read_quantized(directory.string(), internal::ModelFiles(directory), false, plan)
                : read_marian(directory, options, plan);
  const bool trains_pad_row = !is_zero(values.at("embedding.weight").select(0, options.pad_token_id));
  const TransformerModel transformer = internal::make_translation_transformer(
      options, trains_pad_row, dtype.value_or(quantized ? DType::int8 : DType::float32));
  internal::set_parameters(transformer, values, /*mapped=*/false);
  return TranslationModel(options, transformer);
}

void TranslationModel::save(const fs::path& directory, std::optional<DType> dtype) const {
  const bool quantized = internal::is_quantized(transformer_);
  const DType written = dtype.value_or(quantized ? DType::int8 : DType::float32);
  internal::check_saved_dtype("TranslationModel::save", written, quantized);
  // "dtype" is what to compute in, whatever floating numbers the file has.
  const std::string config = internal::config_with_dtype(internal::marian_config(options_).text(2),
                                                         quantized && !is_floating(written) ? written : DType::float32);
  const NoGradGuard guard;
  internal::replace_files(directory, [&](const fs::path& files) {
    internal::save_safetensors_checked(files / "model.safetensors", internal::file_state(transformer_, written),
                                       {{"format", "pt"}});
    internal::replace_file(files / "config.json", config);
    internal::replace_file(files / "generation_config.json",
                           internal::marian_generation_config(options_).text(2) + "\n");
  });
}

}  // namespace headway::inline v0
