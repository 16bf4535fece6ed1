// Tokens to text as they come, and the strings at which a text ends.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "headway/text_tokenizer.h"

namespace headway::inline v0::internal {

// The text of one sequence. What may be the beginning of a stop string is kept back until the next token decides.
class TextStream {
 public:
  using OnText = std::function<void(std::string_view piece)>;
  // `before` are the last tokens of the prompt: what a token looks like may depend on them.
  TextStream(const TextTokenizer& tokenizer, const std::vector<std::int64_t>& before, std::vector<std::string> stops,
             OnText on_text);

  // One more token; true where the text now ends, before a stop string.
  bool add(std::int64_t token);
  // The whole text, once no more tokens come.
  const std::string& finish();

 private:
  // Looks for stop strings in what was added after `from`; true where one was found, and the text is cut there.
  bool cut(std::size_t from);
  // Passes on the text before `end`.
  void pass_on(std::size_t end);
  // How many characters at the end may begin a stop string.
  std::size_t kept_back() const;

  StreamingDecoder decoder_;
  std::vector<std::string> stops_;
  OnText on_text_;
  std::size_t longest_stop_ = 0;
  std::string text_;
  std::size_t passed_on_ = 0;
  bool ended_ = false;
};

}  // namespace headway::inline v0::internal
