#include "models/quantization_config.h"

#include <string>

namespace headway::inline v0::internal {
namespace {

constexpr const char* kQuantizationField = "quantization_config";

}  // namespace

bool is_quantized(const ModelConfig& config) {
  const Json* const found = config.find(kQuantizationField);
  if (found == nullptr) return false;
  if (!found->is_object()) config.refuse(kQuantizationField, "an object");
  const ModelConfig fields = config.nested(kQuantizationField);
  if (fields.string("quant_method", "") != "headway") {
    fields.refuse("quant_method", "\"headway\"; quantize the model of floating numbers with `headway quantize`");
  }
  if (fields.integer("bits", 0) != 8) fields.refuse("bits", "8");
  if (fields.string("scheme", "") != "row") fields.refuse("scheme", "\"row\"");
  return true;
}

ModelConfig without_quantization(const ModelConfig& config) {
  Json fields = Json::object();
  for (const auto& [name, value] : config.fields().fields()) {
    if (name != kQuantizationField) fields.set(name, value);
  }
  return {config.name(), fields};
}

}  // namespace headway::inline v0::internal
