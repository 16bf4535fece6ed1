// Tokenizers of Hugging Face directories: WordPiece, byte-level BPE, Unigram and BPE of SentencePiece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// Where a token's characters are in the text that was encoded: bytes [begin, end) of its UTF-8. Both are 0 for a token
// that is not in the text, as [CLS].
struct TokenOffsets {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const TokenOffsets&) const = default;
};

// A text, or a pair of texts, as tokens. All vectors have one length.
struct TokenizedText {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t>
      type_ids;  // as the post-processor sets them: 0 for the first text of a pair, 1 for the second
  std::vector<TokenOffsets> offsets;  // in the text that `sequence` says
  std::vector<std::int64_t>
      sequence;                     // 0 or 1: the text that the token is of; -1: a token that the post-processor added
  std::vector<std::int64_t> words;  // the number of the pre-tokenizer's word in its text; -1 for added tokens
  bool invalid_utf8 = false;        // bytes that are not UTF-8 were replaced by U+FFFD, to which offsets refer
};

enum class TruncationSide { right, left };
// Which text of a pair is cut.
enum class TruncatedText { longest, first, second };

struct TokenizeOptions {
  bool special_tokens = true;   // add those of the post-processor, as [CLS] and [SEP]
  std::int64_t max_length = 0;  // the most tokens, special ones included; 0: no limit
  std::int64_t stride = 0;      // tokens that neighbouring windows of tokenize_windows() share
  TruncatedText truncated = TruncatedText::longest;
  TruncationSide side = TruncationSide::right;
};

// A tokenizer.json, or SentencePiece's model beside a tokenizer_config.json. Copying it shares it; members may be
// called from several threads at once. What the file says of truncation and padding is kept for save() and not applied:
// TokenizeOptions says what is cut.
class HEADWAY_API TextTokenizer {
 public:
  // Reads tokenizer.json, else spiece.model, sentencepiece.bpe.model, tokenizer.model, else vocab.json and merges.txt,
  // else vocab.txt; and tokenizer_config.json, special_tokens_map.json and added_tokens.json for the special tokens.
  static TextTokenizer load(const std::filesystem::path& directory);
  // From the text of a tokenizer.json; messages begin with `about`.
  static TextTokenizer from_json(std::string_view json, const std::string& about = "tokenizer.json");
  // Whether a directory has files that load() would read.
  static bool is_in(const std::filesystem::path& directory);
  // Writes tokenizer.json, tokenizer_config.json and what else load() read, so that Hugging Face reads the directory.
  void save(const std::filesystem::path& directory) const;

  // One more than the largest id.
  std::int64_t size() const;
  // The token of an id; empty where there is none.
  std::string token(std::int64_t id) const;
  // The id of a token; nothing where there is none.
  std::optional<std::int64_t> id(std::string_view token) const;
  // Whether it is a special token, which decode() may leave out.
  bool is_special(std::int64_t id) const;

  // The special tokens that tokenizer_config.json names; nothing where it does not.
  std::optional<std::int64_t> bos_id() const;
  std::optional<std::int64_t> eos_id() const;
  std::optional<std::int64_t> pad_id() const;
  std::optional<std::int64_t> unk_id() const;
  std::optional<std::int64_t> cls_id() const;
  std::optional<std::int64_t> sep_id() const;
  std::optional<std::int64_t> mask_id() const;
  // model_max_length of tokenizer_config.json; nothing where there is none or it means no limit.
  std::optional<std::int64_t> max_length() const;

  TokenizedText tokenize(std::string_view text, const TokenizeOptions& options = {}) const;
  TokenizedText tokenize(std::string_view first, std::string_view second, const TokenizeOptions& options = {}) const;
  // A pair whose second text is long: windows of max_length tokens that cover it, each with all of the first text.
  std::vector<TokenizedText> tokenize_windows(std::string_view first, std::string_view second,
                                              const TokenizeOptions& options) const;
  // The same of one text alone.
  std::vector<TokenizedText> tokenize_windows(std::string_view text, const TokenizeOptions& options) const;
  // tokenize().ids, without the cost of the rest.
  std::vector<std::int64_t> encode(std::string_view text, bool special_tokens = true) const;

  // The text of ids, by the tokenizer's decoder; invalid byte sequences become U+FFFD. Ids outside 0 .. size() - 1 are
  // an Error.
  std::string decode(const std::vector<std::int64_t>& ids, bool skip_special_tokens = true) const;

  struct Data;  // defined in src/text

 private:
  friend class StreamingDecoder;
  explicit TextTokenizer(std::shared_ptr<const Data> data);
  std::shared_ptr<const Data> data_;
};

// Decodes token by token. What add() returns, joined, is decode() of all tokens; a character is never cut: bytes that
// may still become one wait for the next token.
class HEADWAY_API StreamingDecoder {
 public:
  explicit StreamingDecoder(const TextTokenizer& tokenizer, bool skip_special_tokens = true);
  ~StreamingDecoder();
  StreamingDecoder(StreamingDecoder&& other) noexcept;
  StreamingDecoder& operator=(StreamingDecoder&& other) noexcept;
  // The text that is certain after one more token; often empty.
  std::string add(std::int64_t id);
  // What is left at the end; the decoder then begins a new text.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace headway
