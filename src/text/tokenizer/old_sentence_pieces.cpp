// SentencePiece's models as the families' tokenizers use them.
#include <algorithm>
#include <tuple>

#include "base/base64.h"
#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/old_parts.h"
#include "text/tokenizer/sentence_piece_model.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kSpacePiece = "\xE2\x96\x81";
constexpr std::size_t kFairseqPieces = 3;    // <unk>, <s>, </s>, in whose place fairseq has four of its own
constexpr std::size_t kPegasusOffset = 103;  // ids before the pieces
constexpr const char* kMbartLanguages[] = {
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT", "ja_XX", "kk_KZ",
    "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK", "tr_TR", "vi_VN", "zh_CN"};

using Piece = SentencePieceModel::Piece;

Json metaspace(const char* scheme, bool cuts) {
  return {{"type", "Metaspace"}, {"replacement", kSpacePiece}, {"prepend_scheme", scheme}, {"split", cuts}};
}

Json replaced(const char* kind, const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", Json{{kind, pattern}}}, {"content", content}};
}

Json sequence(const char* name, std::vector<Json> steps) { return {{"type", "Sequence"}, {name, std::move(steps)}}; }

// Merges in the order of what they make; a piece that two pairs make has its pairs by their lengths.
Json merges_of(const std::vector<Piece>& pieces, const std::unordered_map<std::string, std::int64_t>& ids) {
  struct Pair {
    std::string_view first, second;
    std::int64_t order, first_id, second_id;
    std::int64_t first_length, second_length;  // in characters
  };
  std::vector<Pair> pairs;
  for (const Piece& piece : pieces) {
    const std::string_view text = piece.text;
    const std::int64_t length = count_characters(text);
    std::int64_t characters = 0;
    for (std::size_t at = 0; at < text.size();) {
      at += static_cast<std::size_t>(character_length(text[at]));
      ++characters;
      if (at >= text.size()) break;
      const auto first = ids.find(std::string(text.substr(0, at))), second = ids.find(std::string(text.substr(at)));
      if (first == ids.end() || second == ids.end()) continue;
      pairs.push_back({text.substr(0, at), text.substr(at), ids.at(piece.text), first->second, second->second,
                       characters, length - characters});
    }
  }
  const auto key = [](const Pair& p) {
    return std::tuple(p.order, p.first_length, p.second_length, p.first_id, p.second_id);
  };
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair& a, const Pair& b) { return key(a) < key(b); });
  std::vector<Json> merges;
  merges.reserve(pairs.size());
  for (const Pair& pair : pairs) {
    merges.push_back(std::vector<Json>{std::string(pair.first), std::string(pair.second)});
  }
  return merges;
}

// The pieces in the family's order.
class SentencePieceFamily {
 public:
  SentencePieceFamily(OldParts parts, SentencePieceModel model) : parts_(std::move(parts)), model_(std::move(model)) {}

  OldTokenizer t5() {
    const std::string end = parts_.token("eos_token", "</s>");
    parts_.token("unk_token", "<unk>");
    parts_.token("pad_token", "<pad>");
    const std::int64_t extra = count_field(parts_.config, "extra_ids", parts_.about, 100);
    check(extra <= kMostTokens, parts_.about, ": extra_ids is ", extra);
    pieces_ = model_.pieces;
    for (std::int64_t n = extra; n-- > 0;) {
      pieces_.push_back({"<extra_id_" + std::to_string(n) + ">", 0});
      parts_.add_special(pieces_.back().text);
    }
    use_unigram(model_.unknown_id, "T5Tokenizer");
    made_.normalizer = character_map();
    made_.post_processor = parts_.template_of({{"$A"}, {end}}, {{"$A"}, {end}, {"$B"}, {end}});
    return finish(true);
  }

  // XLM-R and mBART.
  OldTokenizer fairseq(bool mbart) {
    const std::string begin = parts_.token("bos_token", "<s>"), pad = parts_.token("pad_token", "<pad>");
    const std::string end = parts_.token("eos_token", "</s>"), unknown = parts_.token("unk_token", "<unk>");
    parts_.token("sep_token", "</s>");
    parts_.token("cls_token", "<s>");
    pieces_ = {{begin, 0}, {pad, 0}, {end, 0}, {unknown, 0}};
    append_from(kFairseqPieces);
    if (mbart) {
      for (const char* language : kMbartLanguages) {
        pieces_.push_back({language, 0});
        parts_.add_special(language);
      }
    }
    parts_.add_special(mask_token(), true);
    pieces_.push_back({mask_token(), 0});
    parts_.token("mask_token", "<mask>");
    use_unigram(3, mbart ? "MBartTokenizer" : "XLMRobertaTokenizer");
    made_.normalizer = character_map();
    if (mbart) {
      const std::string language = string_field(parts_.config, "src_lang", parts_.about, "en_XX");
      made_.post_processor = parts_.template_of({{"$A"}, {end}, {language}}, {{"$A"}, {"$B"}, {end}, {language}});
    } else {
      made_.post_processor =
          parts_.template_of({{begin}, {"$A"}, {end}}, {{begin}, {"$A"}, {end}, {end}, {"$B"}, {end}});
    }
    return finish(true);
  }

  OldTokenizer pegasus() {
    const std::string pad = parts_.token("pad_token", "<pad>"), end = parts_.token("eos_token", "</s>");
    const std::string sentence_mask = string_field(parts_.config, "mask_token_sent", parts_.about, "<mask_1>");
    parts_.token("unk_token", "<unk>");
    const std::string mask = parts_.token("mask_token", "<mask_2>");
    parts_.add_special(sentence_mask);
    pieces_ = {{pad, 0}, {end, 0}, {sentence_mask, 0}, {mask, 0}};
    for (std::size_t n = 2; n < kPegasusOffset; ++n) {
      pieces_.push_back({"<unk_" + std::to_string(n) + ">", -100});
      parts_.add_special(pieces_.back().text);
    }
    append_from(2);
    const auto unknown = static_cast<std::size_t>(model_.unknown_id) + kPegasusOffset;
    check(unknown < pieces_.size(), parts_.about, ": unk_id is ", model_.unknown_id);
    use_unigram(static_cast<std::int64_t>(unknown), "PegasusTokenizer");
    made_.normalizer = sequence("normalizers", {character_map(), replaced("Regex", " {2,}", " ")});
    if (model_.normalizer.character_map.empty()) made_.normalizer = replaced("Regex", " {2,}", " ");
    made_.post_processor = parts_.template_of({{"$A"}, {end}}, {{"$A"}, {"$B"}, {end}});
    return finish(false);
  }

  // Llama 2, Mistral, Phi-3 and Gemma: BPE with tokens for bytes.
  OldTokenizer llama(bool gemma) {
    const std::string unknown = parts_.token("unk_token", "<unk>");
    const std::string begin = parts_.token("bos_token", gemma ? "<bos>" : "<s>");
    const std::string end = parts_.token("eos_token", gemma ? "<eos>" : "</s>");
    parts_.token("pad_token", gemma ? "<pad>" : nullptr);
    parts_.token("mask_token", gemma ? "<mask>" : nullptr);
    pieces_ = model_.pieces;
    use_bpe(unknown, gemma ? "GemmaTokenizer" : "LlamaTokenizer");
    const bool prefix = flag_field(parts_.config, "add_prefix_space", parts_.about, true);
    const bool legacy = flag_field(parts_.config, "legacy", parts_.about, false);
    std::vector<Json> steps = {replaced("String", kSpacePiece, " "), Json{{"type", "ByteFallback"}},
                               Json{{"type", "Fuse"}}};
    if (gemma) {
      made_.normalizer = replaced("String", " ", kSpacePiece);
      made_.pre_tokenizer = {
          {"type", "Split"}, {"pattern", Json{{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
    } else {
      made_.pre_tokenizer = metaspace(!prefix ? "never" : legacy ? "always" : "first", false);
      if (prefix) steps.push_back(Json{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    made_.decoder = sequence("decoders", std::move(steps));
    const bool adds_begin = flag_field(parts_.config, "add_bos_token", parts_.about, true);
    const bool adds_end = flag_field(parts_.config, "add_eos_token", parts_.about, false);
    std::vector<TemplateItem> single, pair;
    for (const int type : {0, 1}) {
      if (adds_begin) pair.push_back({begin, type});
      pair.push_back({type == 0 ? "$A" : "$B", type});
      if (adds_end) pair.push_back({end, type});
      if (type == 0) single = pair;
    }
    made_.post_processor = parts_.template_of(single, pair);
    return finished(std::move(parts_), std::move(made_));
  }

 private:
  std::string mask_token() const {
    const Json* mask = field_of(parts_.config, "mask_token");
    if (mask != nullptr && mask->is_object()) mask = mask->find("content");
    return mask != nullptr && mask->is_string() ? mask->string() : "<mask>";
  }

  void append_from(std::size_t first) {
    check(model_.pieces.size() > first, parts_.about, ": has ", model_.pieces.size(), " pieces, expected more than ",
          first);
    pieces_.insert(pieces_.end(), model_.pieces.begin() + static_cast<std::ptrdiff_t>(first), model_.pieces.end());
  }

  Json character_map() const {
    if (model_.normalizer.character_map.empty()) return {};
    return {{"type", "Precompiled"}, {"precompiled_charsmap", base64(model_.normalizer.character_map)}};
  }

  void number_pieces() {
    std::vector<std::string> tokens;
    for (const Piece& piece : pieces_) tokens.push_back(piece.text);
    parts_.set_vocabulary(std::move(tokens));
    for (const Piece& piece : pieces_) {
      const bool control = piece.kind == SentencePieceModel::control;
      if (control || piece.kind == SentencePieceModel::user_defined) parts_.add_special(piece.text, false, control);
    }
    parts_.number_added(parts_.added_tokens);
  }

  void use_unigram(std::int64_t unknown, const char* tokenizer_class) {
    number_pieces();
    std::vector<Json> vocabulary;
    vocabulary.reserve(pieces_.size());
    for (const Piece& piece : pieces_) {
      vocabulary.push_back(std::vector<Json>{piece.text, static_cast<double>(piece.score)});
    }
    made_.model = {
        {"type", "Unigram"}, {"unk_id", unknown}, {"vocab", std::move(vocabulary)}, {"byte_fallback", false}};
    made_.tokenizer_class = tokenizer_class;
  }

  void use_bpe(const std::string& unknown, const char* tokenizer_class) {
    number_pieces();
    Json vocabulary = Json::object();
    for (std::size_t id = 0; id < pieces_.size(); ++id) vocabulary.set(pieces_[id].text, id);
    made_.model = {{"type", "BPE"},         {"dropout", nullptr},
                   {"unk_token", unknown},  {"fuse_unk", true},
                   {"byte_fallback", true}, {"ignore_merges", false},
                   {"vocab", vocabulary},   {"merges", merges_of(pieces_, parts_.vocabulary)}};
    made_.tokenizer_class = tokenizer_class;
  }

  OldTokenizer finish(bool cuts_spaces) {
    made_.pre_tokenizer = metaspace("always", true);
    if (cuts_spaces) {
      made_.pre_tokenizer =
          sequence("pretokenizers", {Json{{"type", "WhitespaceSplit"}}, std::move(made_.pre_tokenizer)});
    }
    made_.decoder = metaspace("always", true);
    return finished(std::move(parts_), std::move(made_));
  }

  OldParts parts_;
  SentencePieceModel model_;
  std::vector<Piece> pieces_;
  NewParts made_;
};

}  // namespace

OldTokenizer convert_sentence_pieces(OldParts parts, std::string_view file, const std::string& bytes) {
  SentencePieceModel model = SentencePieceModel::parse(bytes, parts.about);
  std::string family = parts.family;
  if (family.empty() || family == "tokenizersbackend") {
    family = file == "spiece.model" ? "t5" : file == "tokenizer.model" ? "llama" : "xlmroberta";
  }
  const std::string about = parts.about;
  using Method = SentencePieceModel::Method;
  check(model.method == Method::unigram || model.method == Method::bpe, about, ": model_type is ",
        static_cast<int>(model.method), ", expected 1 (unigram) or 2 (BPE)");
  const auto count = static_cast<std::int64_t>(model.pieces.size());
  check(model.unknown_id >= 0 && model.unknown_id < count, about, ": unk_id is ", model.unknown_id, ", expected 0 to ",
        count - 1);
  const bool bpe = model.method == Method::bpe;
  SentencePieceFamily made(std::move(parts), std::move(model));
  const auto expect = [&](bool wants_bpe) {
    check(bpe == wants_bpe, about, ": is a model of ", bpe ? "BPE" : "unigram", " pieces, which the tokenizer of ",
          shortened(family, 50), " does not use");
  };
  if (family.starts_with("gemma")) return expect(true), made.llama(true);
  if (family == "llama" || family == "mistral" || family == "phi3" || family == "codellama") {
    return expect(true), made.llama(false);
  }
  expect(false);
  if (family == "t5" || family == "mt5") return made.t5();
  if (family == "pegasus") return made.pegasus();
  if (family == "mbart") return made.fairseq(true);
  if (family == "xlmroberta" || family == "xlm-roberta") return made.fairseq(false);
  fail(about, ": the tokenizer of ", shortened(family, 50),
       " is not known, expected that of T5, XLM-R, mBART, Pegasus, Llama, Mistral, Phi-3 or Gemma");
}

}  // namespace headway::inline v0::internal
