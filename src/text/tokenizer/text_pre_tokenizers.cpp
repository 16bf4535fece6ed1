// Pre-tokenizers that change the text: ByteLevel and Metaspace.
#include "base/check.h"
#include "base/push_copy.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

// Begins a new text beside the old one; finish() puts it in its place.
class TextRewriter {
 public:
  TextRewriter(SplitText& old, SplitSpare& spare) : old_(old), made_(spare.text) {
    made_.clear();
    made_.aligned = old.aligned;
    made_.text.reserve(old.text.size() * 2);
    if (old.aligned) made_.alignment.reserve(old.text.size() * 2);
    made_.splits.reserve(old.splits.size());
  }

  std::size_t size() const { return made_.text.size(); }
  void append(std::string_view text, Alignment from) {
    made_.text.append(text);
    if (made_.aligned) made_.alignment.resize(made_.text.size(), from);
  }
  Alignment old_alignment(std::size_t byte) const { return old_.aligned ? old_.alignment[byte] : Alignment{}; }
  // What was appended since `begin` as a split.
  void take(std::size_t begin, std::int32_t token = -1, std::uint32_t origin = 0) {
    if (begin >= size()) return;
    if (token < 0) origin = made_.aligned ? made_.alignment[begin].begin : 0;
    push_copy(made_.splits, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size()), origin, token});
  }
  // An added token stays as it is.
  void copy(const TextSplit& split) {
    const std::size_t begin = size();
    made_.text.append(old_.of(split));
    if (made_.aligned) {
      made_.alignment.insert(made_.alignment.end(), old_.alignment.begin() + split.begin,
                             old_.alignment.begin() + split.end);
    }
    take(begin, split.token, split.origin);
  }
  void finish() { std::swap(old_, made_); }

 private:
  SplitText& old_;
  SplitText& made_;
};

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool prefix_space, bool cuts) : prefix_space_(prefix_space), cuts_(cuts) {}

  void apply(SplitText& text, SplitSpare& spare) const override {
    if (cuts_ && prefix_space_) add_spaces(text, spare);
    TextRewriter made(text, spare);
    const auto& characters = byte_characters();
    for (const TextSplit& split : text.splits) {
      if (split.token >= 0) {
        made.copy(split);
        continue;
      }
      const std::string_view whole = std::string_view(text.text).substr(0, split.end);
      if (!cuts_ && prefix_space_ && !text.of(split).starts_with(' ')) {
        const std::size_t begin = made.size();
        const ByteCharacter& space = characters[' '];
        made.append({space.bytes, space.length}, made.old_alignment(split.begin));
        append_bytes(made, whole, split.begin, split.end);
        made.take(begin);
        continue;
      }
      for (std::size_t at = split.begin; at < split.end;) {
        const std::size_t next = cuts_ ? scan_known(KnownPattern::gpt2, whole, at) : split.end;
        const std::size_t begin = made.size();
        append_bytes(made, whole, at, next);
        made.take(begin);
        at = next;
      }
    }
    made.finish();
  }

 private:
  static void append_bytes(TextRewriter& made, std::string_view text, std::size_t begin, std::size_t end) {
    const auto& characters = byte_characters();
    for (std::size_t at = begin; at < end; ++at) {
      const ByteCharacter& one = characters[static_cast<unsigned char>(text[at])];
      made.append({one.bytes, one.length}, made.old_alignment(at));
    }
  }

  // The pattern must see the space that is put in front.
  static void add_spaces(SplitText& text, SplitSpare& spare) {
    bool missing = false;
    for (const TextSplit& split : text.splits) missing |= split.token < 0 && !text.of(split).starts_with(' ');
    if (!missing) return;
    TextRewriter made(text, spare);
    for (const TextSplit& split : text.splits) {
      if (split.token >= 0) {
        made.copy(split);
        continue;
      }
      const std::size_t begin = made.size();
      if (!text.of(split).starts_with(' ')) made.append(" ", made.old_alignment(split.begin));
      for (std::size_t at = split.begin; at < split.end; ++at) made.append({&text.text[at], 1}, made.old_alignment(at));
      made.take(begin);
    }
    made.finish();
  }

  bool prefix_space_, cuts_;
};

enum class PrependScheme { always, first, never };

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  MetaspacePreTokenizer(char32_t replacement, PrependScheme scheme, bool cuts) : scheme_(scheme), cuts_(cuts) {
    append_utf8(mark_, replacement);
  }
  bool needs_alignment() const override { return scheme_ == PrependScheme::first; }

  void apply(SplitText& text, SplitSpare& spare) const override {
    TextRewriter made(text, spare);
    for (const TextSplit& split : text.splits) {
      if (split.token >= 0) {
        made.copy(split);
        continue;
      }
      const std::string_view old = text.of(split);
      std::size_t begin = made.size();
      const bool marked = old.starts_with(' ') || old.starts_with(mark_);
      if (!marked && (scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && split.origin == 0))) {
        made.append(mark_, made.old_alignment(split.begin));
      }
      for (std::size_t at = 0; at < old.size();) {
        const bool space = old[at] == ' ', mark = old.substr(at).starts_with(mark_);
        if (cuts_ && (space || mark)) {
          made.take(begin);
          begin = made.size();
        }
        if (space || mark) {
          made.append(mark_, made.old_alignment(split.begin + at));
          at += space ? 1 : mark_.size();
          continue;
        }
        const std::size_t length = static_cast<std::size_t>(character_length(old[at]));
        made.append(old.substr(at, length), made.old_alignment(split.begin + at));
        at += length;
      }
      made.take(begin);
    }
    made.finish();
  }

 private:
  std::string mark_;
  PrependScheme scheme_;
  bool cuts_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_byte_level(const Json& json, const std::string& about) {
  return std::make_unique<ByteLevelPreTokenizer>(flag_field(json, "add_prefix_space", about, true),
                                                 flag_field(json, "use_regex", about, true));
}

std::unique_ptr<PreTokenizer> read_metaspace(const Json& json, const std::string& about) {
  const std::string scheme = string_field(json, "prepend_scheme", about, "always");
  check(scheme == "always" || scheme == "first" || scheme == "never", about, ": prepend_scheme is \"",
        shortened(scheme, 50), "\", expected always, first or never");
  const bool prefix = flag_field(json, "add_prefix_space", about, true);
  check(prefix || scheme == "never" || field_of(json, "prepend_scheme") == nullptr, about,
        ": add_prefix_space is false and prepend_scheme is ", scheme);
  const PrependScheme kind = !prefix || scheme == "never" ? PrependScheme::never
                             : scheme == "first"          ? PrependScheme::first
                                                          : PrependScheme::always;
  return std::make_unique<MetaspacePreTokenizer>(character_field(json, "replacement", about), kind,
                                                 flag_field(json, "split", about, true));
}

}  // namespace headway::inline v0::internal
