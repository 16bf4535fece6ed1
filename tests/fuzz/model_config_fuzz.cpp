// Feeds bytes to the readers of every family's config.json. What they accept has parameters of sizes above zero, each
// with a name in the family's files; what they do not must be an Error.
#include <string>

#include "headway/error.h"
#include "input_file.h"
#include "models/model_directory.h"
#include "models/quantization_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using headway_fuzz::require;
  namespace internal = headway::internal;
  const std::string text(reinterpret_cast<const char*>(input), size);
  try {
    const internal::ModelConfig config = internal::ModelConfig::parse(text, "config.json");
    internal::is_quantized(config);
    const internal::ModelPlan plan = internal::plan_model(internal::without_quantization(config));
    internal::check_parameter_count(plan);
    for (const internal::FileTensor& tensor : internal::file_tensors(plan.options, *plan.family)) {
      for (const std::int64_t length : tensor.shape) require(length > 0);
      require(!tensor.pieces.empty() && tensor.pieces.size() == tensor.piece_shapes.size());
    }
    require(!internal::config_of(plan).text().empty());
  } catch (const headway::Error&) {
    return 0;
  }
  return 0;
}
