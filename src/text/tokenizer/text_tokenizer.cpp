#include "headway/text_tokenizer.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/tokenizer/text_tokenizer_data.h"

namespace headway::inline v0 {
namespace {

using internal::EncodedText;
using internal::PostProcessor;

// A text as it is where it is UTF-8, else repaired.
class ValidText {
 public:
  explicit ValidText(std::string_view text) : view_(text) {
    if (internal::is_utf8(text)) return;
    repaired_ = internal::repaired_utf8(text);
    view_ = repaired_;
    valid_ = false;
  }
  std::string_view view() const { return view_; }
  bool valid() const { return valid_; }

 private:
  std::string repaired_;
  std::string_view view_;
  bool valid_ = true;
};

PostProcessor::Part whole(const EncodedText& text) { return {&text, 0, text.tokens.size()}; }

// The first `count` tokens, or the last.
void truncate(PostProcessor::Part& part, std::size_t count, TruncationSide side) {
  if (part.end - part.begin <= count) return;
  if (side == TruncationSide::right) {
    part.end = part.begin + count;
  } else {
    part.begin = part.end - count;
  }
}

// Cuts a text, or two, down to `most` tokens.
void truncate(PostProcessor::Part& first, PostProcessor::Part* second, std::size_t most,
              const TokenizeOptions& options) {
  std::size_t one = first.end - first.begin, two = second ? second->end - second->begin : 0;
  if (one + two <= most) return;
  const std::size_t excess = one + two - most;
  if (options.truncated == TruncatedText::longest) {
    if (second == nullptr) return truncate(first, most, options.side);
    const bool swapped = one > two;
    std::size_t shorter = std::min(one, two);
    std::size_t longer = shorter > most ? shorter : std::max(shorter, most - shorter);
    if (shorter + longer > most) {
      shorter = most / 2;
      longer = shorter + most % 2;
    }
    truncate(first, swapped ? longer : shorter, options.side);
    truncate(*second, swapped ? shorter : longer, options.side);
    return;
  }
  const bool cuts_second = options.truncated == TruncatedText::second;
  internal::check(!cuts_second || second != nullptr, "tokenize: truncated is second, and there is one text");
  PostProcessor::Part& cut = cuts_second ? *second : first;
  const std::size_t length = cut.end - cut.begin;
  internal::check(length > excess, "tokenize: max_length ", options.max_length, " leaves no token of the ",
                  cuts_second ? "second" : "first", " text, which has ", length, ", expected ", excess - length + 1,
                  " more");
  truncate(cut, length - excess, options.side);
}

// How many tokens of texts max_length leaves.
std::size_t tokens_left(const PostProcessor& processor, bool pair, const TokenizeOptions& options) {
  const std::int64_t added = options.special_tokens ? processor.added(pair) : 0;
  internal::check(options.max_length >= added, "tokenize: max_length is ", options.max_length,
                  ", expected at least the ", added, " special tokens");
  return static_cast<std::size_t>(options.max_length - added);
}

void check_options(const TokenizeOptions& options) {
  internal::check(options.max_length >= 0, "tokenize: max_length is ", options.max_length, ", expected at least 0");
  internal::check(options.stride >= 0, "tokenize: stride is ", options.stride, ", expected at least 0");
}

// Ranges of `most` tokens that cover `count`, each sharing `stride` with the one before.
std::vector<std::pair<std::size_t, std::size_t>> window_ranges(std::size_t count, std::size_t most, std::size_t stride,
                                                               TruncationSide side) {
  internal::check(stride < most, "tokenize: stride is ", stride, ", expected less than the ", most,
                  " tokens that a window has of the text");
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (std::size_t done = 0;; done += most - stride) {
    const std::size_t end = std::min(done + most, count);
    ranges.push_back(side == TruncationSide::right ? std::pair(done, end) : std::pair(count - end, count - done));
    if (end == count) return ranges;
  }
}

std::optional<std::int64_t> none_if_negative(std::int64_t id) {
  return id < 0 ? std::nullopt : std::optional<std::int64_t>(id);
}

}  // namespace

TextTokenizer::TextTokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

std::int64_t TextTokenizer::size() const { return data_->size; }

std::string TextTokenizer::token(std::int64_t id) const {
  if (id < 0 || id >= size()) return {};
  const auto number = static_cast<std::uint32_t>(id);
  if (const internal::AddedToken* token = data_->added.find(number)) return token->content;
  return std::string(data_->model->vocabulary().token(number));
}

std::optional<std::int64_t> TextTokenizer::id(std::string_view token) const {
  return none_if_negative(data_->find(token));
}

bool TextTokenizer::is_special(std::int64_t id) const {
  return id >= 0 && id < size() && data_->added.is_special(data_->decoded_token(static_cast<std::uint32_t>(id)));
}

std::optional<std::int64_t> TextTokenizer::bos_id() const { return data_->specials.bos; }
std::optional<std::int64_t> TextTokenizer::eos_id() const { return data_->specials.eos; }
std::optional<std::int64_t> TextTokenizer::pad_id() const { return data_->specials.pad; }
std::optional<std::int64_t> TextTokenizer::unk_id() const { return data_->specials.unk; }
std::optional<std::int64_t> TextTokenizer::cls_id() const { return data_->specials.cls; }
std::optional<std::int64_t> TextTokenizer::sep_id() const { return data_->specials.sep; }
std::optional<std::int64_t> TextTokenizer::mask_id() const { return data_->specials.mask; }
std::optional<std::int64_t> TextTokenizer::max_length() const { return data_->max_length; }

TokenizedText TextTokenizer::tokenize(std::string_view text, const TokenizeOptions& options) const {
  check_options(options);
  const ValidText valid(text);
  const EncodedText encoded = data_->encode(valid.view());
  PostProcessor::Part part = whole(encoded);
  if (options.max_length > 0) truncate(part, nullptr, tokens_left(data_->post_processor, false, options), options);
  TokenizedText made = data_->post_processor.assemble(part, nullptr, options.special_tokens);
  made.invalid_utf8 = !valid.valid();
  return made;
}

TokenizedText TextTokenizer::tokenize(std::string_view first, std::string_view second,
                                      const TokenizeOptions& options) const {
  check_options(options);
  const ValidText one(first), two(second);
  const EncodedText encoded[] = {data_->encode(one.view()), data_->encode(two.view())};
  PostProcessor::Part parts[] = {whole(encoded[0]), whole(encoded[1])};
  if (options.max_length > 0) {
    truncate(parts[0], &parts[1], tokens_left(data_->post_processor, true, options), options);
  }
  TokenizedText made = data_->post_processor.assemble(parts[0], &parts[1], options.special_tokens);
  made.invalid_utf8 = !one.valid() || !two.valid();
  return made;
}

std::vector<TokenizedText> TextTokenizer::tokenize_windows(std::string_view text,
                                                           const TokenizeOptions& options) const {
  check_options(options);
  const ValidText valid(text);
  const EncodedText encoded = data_->encode(valid.view());
  const std::size_t count = encoded.tokens.size();
  std::size_t most = count + 1;
  if (options.max_length > 0) most = tokens_left(data_->post_processor, false, options);
  std::vector<std::pair<std::size_t, std::size_t>> ranges = {{0, count}};
  if (count > most) ranges = window_ranges(count, most, static_cast<std::size_t>(options.stride), options.side);
  std::vector<TokenizedText> windows;
  for (const auto& [begin, end] : ranges) {
    windows.push_back(data_->post_processor.assemble({&encoded, begin, end}, nullptr, options.special_tokens));
    windows.back().invalid_utf8 = !valid.valid();
  }
  return windows;
}

std::vector<TokenizedText> TextTokenizer::tokenize_windows(std::string_view first, std::string_view second,
                                                           const TokenizeOptions& options) const {
  check_options(options);
  const ValidText one(first), two(second);
  const EncodedText encoded[] = {data_->encode(one.view()), data_->encode(two.view())};
  const std::size_t count = encoded[1].tokens.size(), asked = encoded[0].tokens.size();
  std::size_t most = count + 1;
  if (options.max_length > 0) {
    const std::size_t left = tokens_left(data_->post_processor, true, options);
    internal::check(left > asked || (left == asked && count == 0), "tokenize: max_length is ", options.max_length,
                    ", expected more than the ", asked, " tokens of the first text and the special tokens");
    most = left - asked;
  }
  std::vector<std::pair<std::size_t, std::size_t>> ranges = {{0, count}};
  if (count > most) ranges = window_ranges(count, most, static_cast<std::size_t>(options.stride), options.side);
  std::vector<TokenizedText> windows;
  for (const auto& [begin, end] : ranges) {
    const PostProcessor::Part part = {&encoded[1], begin, end};
    windows.push_back(data_->post_processor.assemble(whole(encoded[0]), &part, options.special_tokens));
    windows.back().invalid_utf8 = !one.valid() || !two.valid();
  }
  return windows;
}

std::vector<std::int64_t> TextTokenizer::encode(std::string_view text, bool special_tokens) const {
  const ValidText valid(text);
  return data_->with_spare([&](internal::TokenizerSpare& spare) {
    data_->split(valid.view(), false, spare);
    spare.tokens.clear();
    for (const internal::TextSplit& split : spare.split.splits) {
      if (split.token >= 0) {
        spare.tokens.push_back({static_cast<std::uint32_t>(split.token), 0, 0});
      } else {
        data_->model->tokenize(spare.split.of(split), spare.model, spare.tokens);
      }
    }
    return data_->post_processor.ids(spare.tokens, special_tokens);
  });
}

std::string TextTokenizer::decode(const std::vector<std::int64_t>& ids, bool skip_special_tokens) const {
  internal::Decoding decoding(data_->decoder);
  for (const std::int64_t id : ids) data_->decode(id, skip_special_tokens, decoding);
  decoding.finish();
  return decoding.take();
}

struct StreamingDecoder::State {
  TextTokenizer tokenizer;  // whose steps the decoding uses
  internal::Decoding decoding;
  bool skips_special_tokens;
};

StreamingDecoder::StreamingDecoder(const TextTokenizer& tokenizer, bool skip_special_tokens)
    : state_(new State{tokenizer, internal::Decoding(tokenizer.data_->decoder), skip_special_tokens}) {}
StreamingDecoder::~StreamingDecoder() = default;
StreamingDecoder::StreamingDecoder(StreamingDecoder&&) noexcept = default;
StreamingDecoder& StreamingDecoder::operator=(StreamingDecoder&&) noexcept = default;

std::string StreamingDecoder::add(std::int64_t id) {
  state_->tokenizer.data_->decode(id, state_->skips_special_tokens, state_->decoding);
  return state_->decoding.take();
}

std::string StreamingDecoder::finish() {
  state_->decoding.finish();
  std::string rest = state_->decoding.take();
  state_->decoding = internal::Decoding(state_->tokenizer.data_->decoder);
  return rest;
}

}  // namespace headway::inline v0
