// Text to a stream of tokens.
#include "training/text_stream.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "text/example_files.h"
#include "training/tokenize_texts.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 14;

// Where a text's first `count` characters end.
std::size_t byte_after(std::string_view text, std::int64_t count) {
  std::string_view rest = text;
  for (std::int64_t i = 0; i < count; ++i) next_character(rest);
  return text.size() - rest.size();
}

}  // namespace

const std::string& TextParts::of(DataPart part) const {
  return part == DataPart::training ? training : part == DataPart::test ? test : validation;
}

std::string TextParts::digest() const { return hexadecimal_digest(training + '\0' + validation + '\0' + test); }

std::string TextParts::describe() const {
  return count_text(count_characters(training), count_characters(validation), count_characters(test), "characters");
}

TextParts read_text_parts(const FineTuneConfig& config) {
  check(config.folds == 0 && config.parts.empty(), "folds and parts are for lists of examples, not for plain text");
  TextParts parts;
  parts.training = read_plain_text(config.data);
  if (!config.validation.empty()) parts.validation = read_plain_text(config.validation);
  if (!config.test.empty()) parts.test = read_plain_text(config.test);
  if (parts.validation.empty() && config.validation_share > 0.0) {
    const auto characters = static_cast<double>(count_characters(parts.training));
    const std::size_t kept =
        byte_after(parts.training, static_cast<std::int64_t>(characters * (1.0 - config.validation_share)));
    parts.validation = parts.training.substr(kept);
    parts.training.resize(kept);
  }
  return parts;
}

std::vector<std::string_view> stream_pieces(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t line_end = text.find('\n', std::min(kPieceBytes, text.size() - 1));
    const std::size_t size = line_end == std::string_view::npos ? text.size() : line_end + 1;
    pieces.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return pieces;
}

std::vector<std::int32_t> encode_stream(const TextTokenizer& tokenizer, std::string_view text) {
  const std::vector<std::string_view> pieces = stream_pieces(text);
  std::vector<std::vector<std::int64_t>> ids(pieces.size());
  for_each_text(pieces.size(), [&](std::size_t i) { ids[i] = tokenizer.encode(pieces[i], false); });
  std::vector<std::int32_t> all;
  for (const std::vector<std::int64_t>& some : ids) all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace headway::inline v0::internal
