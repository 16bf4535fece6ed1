// Model directories with weights in 8 bits.
#pragma once

#include <cstdint>
#include <filesystem>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// Bytes of a directory's files of weights.
struct QuantizedSizes {
  std::int64_t before = 0;
  std::int64_t after = 0;
};

// Writes a model directory once more with weights in 8 bits: as TransformerModel::load() with DType::int8 makes them,
// and with copies of the other files, those of a sentence-transformers directory's modules among them. `output` must be
// missing or empty, and is complete or not there. Classes that load `directory` load `output` too.
HEADWAY_API QuantizedSizes quantize(const std::filesystem::path& directory, const std::filesystem::path& output);

}  // namespace v0
}  // namespace headway
