// Pre-tokenizers of tokenizer.json: how a normalised text is cut into words.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/split_text.h"

namespace headway::inline v0::internal {

class Json;

// Buffers that steps reuse.
struct SplitSpare {
  std::vector<TextSplit> splits = {};
  std::vector<MatchedPart> parts = {};
  SplitText text = {};
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(SplitText& text, SplitSpare& spare) const = 0;
  // Whether what it does depends on where splits begin in the original text.
  virtual bool needs_alignment() const { return false; }
};

// The pre-tokenizer of a JSON object; Errors begin with `about`. None for null.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const Json* json, const std::string& about);

// Those that change the text too.
std::unique_ptr<PreTokenizer> read_byte_level(const Json& json, const std::string& about);
std::unique_ptr<PreTokenizer> read_metaspace(const Json& json, const std::string& about);
// Cuts where the writing system changes.
std::unique_ptr<PreTokenizer> unicode_scripts();

}  // namespace headway::inline v0::internal
