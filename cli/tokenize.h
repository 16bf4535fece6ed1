// headway tokenizer encode and decode with the tokenizers of Hugging Face directories.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "program.h"

namespace cli {

// What `encode` and `decode` may do with such a tokenizer.
struct TokenizeFlags {
  bool ids = false;
  bool offsets = false;
  bool json = false;
  bool json_lines = false;
  bool no_special_tokens = false;
  bool keep_special_tokens = false;
  bool windows = false;
  bool stream = false;
  bool left = false;
  std::int64_t max_length = 0;
  std::int64_t stride = 0;
  std::string truncate = "longest";

  void add_to(CLI::App& command, bool encode);
  // Whether any was given that only these tokenizers have.
  bool any() const;
  // Whether the tokens of a long text may be written part by part: not where they say where they are in it.
  bool takes_parts() const;
};

// A text; or a part of a long one, which goes on with the next part.
using TextBody = std::function<void(const std::string& text, bool goes_on)>;
// Calls its argument for each text.
using EachText = std::function<void(const TextBody&)>;

int encode_texts(const std::filesystem::path& directory, const TokenizeFlags& flags, const EachText& for_each_text);
int decode_texts(const std::filesystem::path& directory, const TokenizeFlags& flags, const EachText& for_each_text);

}  // namespace cli
