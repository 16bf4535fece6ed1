// What tasks on text share: where a model is loaded, remarks on texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "headway/device.h"
#include "headway/dtype.h"
#include "headway/export.h"

namespace headway {
inline namespace v0 {

struct TaskOptions {
  Device device = Device::cpu();
  // Of the parameters; default: as they lie in the files. int8: weights in 8 bits, on the CPU.
  std::optional<DType> dtype = {};
};

// Remarks on one text.
struct TextNotes {
  bool empty = false;         // the text has no characters, or no token but special ones
  bool invalid_utf8 = false;  // bytes that are not UTF-8 were replaced by U+FFFD
  // Tokens at the end that the model has no positions for. Of a text of over 1 MiB those of its first MiB are counted.
  std::int64_t tokens_left_out = 0;

  bool operator==(const TextNotes&) const = default;
  // True where there is nothing to note.
  bool none() const { return *this == TextNotes{}; }
  // The notes in English, separated by semicolons; "" where there are none.
  HEADWAY_API std::string describe() const;
};

}  // namespace v0
}  // namespace headway
