#include "text/tokenizer/text_tokenizer_data.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/json.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0 {
namespace {

// Counts the spaces that a token's text begins and ends with, for offsets without them. In a byte-level vocabulary
// U+0120 is a space.
void count_spaces(std::string_view text, internal::EncodedText::Token& token) {
  constexpr char32_t kByteLevelSpace = 0x120;
  const internal::CharacterTable& table = internal::CharacterTable::get();
  bool leading = true;
  internal::for_each_character(text, [&](char32_t c, std::size_t, std::size_t) {
    const bool space = c == kByteLevelSpace || table.has(c, internal::kSpace);
    leading = leading && space;
    if (leading) ++token.leading;
    token.trailing = space ? token.trailing + 1 : 0;
  });
}

}  // namespace

void TextTokenizer::Data::read(const internal::Json& json, const std::string& about) {
  internal::check(json.is_object(), about, " is ", json.kind_name(), ", expected an object");
  const internal::Json* described = json.find("model");
  internal::check(described != nullptr, about, ": has no \"model\"");
  normalizer = internal::read_normalizer(json.find("normalizer"), about + ": normalizer");
  pre_tokenizer = internal::read_pre_tokenizer(json.find("pre_tokenizer"), about + ": pre_tokenizer");
  model = internal::read_model(*described, about + ": model");
  added.read(json.find("added_tokens"), *model, normalizer.get(), about + ": added_tokens");
  post_processor.read(json.find("post_processor"), about + ": post_processor");
  decoder = internal::read_decoder(json.find("decoder"), about + ": decoder");
  size = std::max({model->vocabulary().size(), added.size(), post_processor.size()});
}

std::string_view TextTokenizer::Data::decoded_token(std::uint32_t id) const {
  if (const internal::AddedToken* token = added.find(id)) return token->decoded;
  return model->vocabulary().token(id);
}

std::int64_t TextTokenizer::Data::find(std::string_view token) const {
  const std::int64_t id = added.find(token);
  return id >= 0 ? id : model->vocabulary().find(token);
}

void TextTokenizer::Data::decode(std::int64_t id, bool skip_special_tokens, internal::Decoding& decoding) const {
  internal::check(id >= 0 && id < size, "decode: an id is ", id, ", expected 0 to ", size - 1);
  const auto number = static_cast<std::uint32_t>(id);
  const internal::AddedToken* token = added.find(number);
  if (token == nullptr && !model->vocabulary().has(number)) return;  // an id that no token has
  const std::string_view text = token ? std::string_view(token->decoded) : model->vocabulary().token(number);
  if (skip_special_tokens && added.is_special(text)) return;
  decoding.add(text);
}

TextTokenizer::Data::Borrowed::Borrowed(const Data& owner) : data(owner) {
  {
    const std::lock_guard lock(data.mutex_);
    if (!data.spares_.empty()) {
      spare = std::move(data.spares_.back());
      data.spares_.pop_back();
    }
  }
  if (!spare) spare = std::make_unique<internal::TokenizerSpare>();
}

TextTokenizer::Data::Borrowed::~Borrowed() {
  const std::lock_guard lock(data.mutex_);
  try {
    data.spares_.push_back(std::move(spare));
  } catch (const std::bad_alloc&) {  // the next call makes another
  }
}

void TextTokenizer::Data::split(std::string_view text, bool aligned, internal::TokenizerSpare& spare) const {
  constexpr std::size_t kLongestText = std::size_t{1} << 30;
  internal::check(text.size() <= kLongestText, "tokenize: the text has ", text.size(), " bytes, expected at most ",
                  kLongestText);
  spare.split.clear();
  spare.split.aligned = aligned || (pre_tokenizer && pre_tokenizer->needs_alignment());
  added.extract(text, normalizer.get(), spare.normalized, spare.split);
  if (pre_tokenizer) pre_tokenizer->apply(spare.split, spare.pre_tokenizer);
}

internal::EncodedText TextTokenizer::Data::encode(std::string_view text) const {
  return with_spare([&](internal::TokenizerSpare& spare) {
    split(text, true, spare);
    internal::EncodedText encoded;
    encoded.text = text;
    encoded.tokens.reserve(spare.split.splits.size() * 2);
    const internal::SplitText& words = spare.split;
    for (std::uint32_t word = 0; word < words.splits.size(); ++word) {
      const internal::TextSplit& one = words.splits[word];
      const auto add = [&](std::uint32_t id, std::uint32_t begin, std::uint32_t end, bool is_added) {
        // Bytes of the split; a model may count past its end where it left characters out.
        begin = std::min(one.begin + begin, one.end - 1);
        end = std::clamp(one.begin + end, begin + 1, one.end);
        internal::EncodedText::Token token = {id, word, {words.alignment[begin].begin, words.alignment[end - 1].end}};
        if (post_processor.trims()) {
          const bool shown = is_added || model->shows_word();
          count_spaces(shown ? std::string_view(words.text).substr(begin, end - begin) : model->vocabulary().token(id),
                       token);
        }
        encoded.tokens.push_back(token);
      };
      if (one.token >= 0) {
        add(static_cast<std::uint32_t>(one.token), 0, one.end - one.begin, true);
        continue;
      }
      spare.tokens.clear();
      model->tokenize(words.of(one), spare.model, spare.tokens);
      for (const internal::WordToken& token : spare.tokens) add(token.id, token.begin, token.end, false);
    }
    return encoded;
  });
}

}  // namespace headway::inline v0
