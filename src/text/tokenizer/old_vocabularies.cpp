// vocab.txt of BERT, and vocab.json with merges.txt of GPT-2, RoBERTa, BART and Qwen.
#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/old_parts.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

// Without the white space at the end.
std::size_t trimmed_length(std::string_view text) {
  std::size_t length = 0;
  for_each_character(text, [&](char32_t c, std::size_t, std::size_t end) {
    if (!CharacterTable::get().has(c, kSpace)) length = end;
  });
  return length;
}

bool is_one_of(const std::string& family, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (family == name) return true;
  }
  return false;
}

// RoBERTa's and BART's special tokens.
void add_roberta(OldParts& parts, bool prefix, NewParts& made) {
  made.tokenizer_class = "RobertaTokenizer";
  const std::string cls = parts.token("cls_token", "<s>"), separator = parts.token("sep_token", "</s>");
  for (const auto& [name, usual] : {std::pair("bos_token", "<s>"), std::pair("eos_token", "</s>"),
                                    std::pair("unk_token", "<unk>"), std::pair("pad_token", "<pad>")}) {
    parts.token(name, usual);
  }
  parts.token("mask_token", "<mask>");
  parts.number_added(parts.added_tokens);
  made.post_processor = {{"type", "RobertaProcessing"},
                         {"sep", std::vector<Json>{separator, parts.id_of(separator)}},
                         {"cls", std::vector<Json>{cls, parts.id_of(cls)}},
                         {"trim_offsets", flag_field(parts.config, "trim_offsets", parts.about, true)},
                         {"add_prefix_space", prefix}};
}

// Those of GPT-2, and what Qwen has besides.
void add_gpt2(OldParts& parts, bool qwen, NewParts& made) {
  made.tokenizer_class = qwen ? "Qwen2Tokenizer" : "GPT2Tokenizer";
  for (const char* name : {"unk_token", "bos_token", "eos_token", "pad_token"}) {
    const bool has_usual = qwen ? std::string_view(name) != "bos_token" && std::string_view(name) != "unk_token"
                                : std::string_view(name) != "pad_token";
    parts.token(name, has_usual ? "<|endoftext|>" : nullptr);
  }
  parts.number_added(parts.added_tokens);
  made.post_processor = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}};
  if (qwen) {
    made.normalizer = {{"type", "NFC"}};
    const Json cut = {
        {"type", "Split"}, {"pattern", Json{{"Regex", kQwenPattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    const Json bytes = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
    made.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", std::vector<Json>{cut, bytes}}};
  }
}

}  // namespace

OldTokenizer finished(OldParts parts, NewParts made) {
  OldTokenizer old;
  old.tokenizer = {{"version", "1.0"},
                   {"truncation", nullptr},
                   {"padding", nullptr},
                   {"added_tokens", Json(parts.added)},
                   {"normalizer", std::move(made.normalizer)},
                   {"pre_tokenizer", std::move(made.pre_tokenizer)},
                   {"post_processor", std::move(made.post_processor)},
                   {"decoder", std::move(made.decoder)},
                   {"model", std::move(made.model)}};
  if (field_of(parts.config, "tokenizer_class") == nullptr) parts.config.set("tokenizer_class", made.tokenizer_class);
  old.config = std::move(parts.config);
  old.files = std::move(parts.files);
  return old;
}

OldTokenizer convert_word_pieces(OldParts parts, const std::string& lines) {
  std::vector<std::string> tokens;
  Json vocabulary = Json::object();
  for (std::string_view line : lines_of(lines)) {
    std::string token = repaired_utf8(line);
    token.resize(trimmed_length(token));
    vocabulary.set(token, static_cast<std::int64_t>(tokens.size()));
    tokens.push_back(std::move(token));
    check(static_cast<std::int64_t>(tokens.size()) <= kMostTokens, parts.about, ": vocab.txt has too many lines");
  }
  parts.set_vocabulary(std::move(tokens));
  const std::string unknown = parts.token("unk_token", "[UNK]"), separator = parts.token("sep_token", "[SEP]");
  parts.token("pad_token", "[PAD]");
  const std::string cls = parts.token("cls_token", "[CLS]");
  parts.token("mask_token", "[MASK]");
  parts.number_added(parts.added_tokens);
  const Json* accents = field_of(parts.config, "strip_accents");
  NewParts made;
  made.tokenizer_class = "BertTokenizer";
  made.normalizer = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", flag_field(parts.config, "tokenize_chinese_chars", parts.about, true)},
                     {"strip_accents", accents ? *accents : Json()},
                     {"lowercase", flag_field(parts.config, "do_lower_case", parts.about, true)}};
  made.pre_tokenizer = {{"type", "BertPreTokenizer"}};
  made.post_processor =
      parts.template_of({{cls}, {"$A"}, {separator}}, {{cls}, {"$A"}, {separator}, {"$B", 1}, {separator, 1}});
  made.decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  made.model = {{"type", "WordPiece"},
                {"unk_token", unknown},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", 100},
                {"vocab", std::move(vocabulary)}};
  return finished(std::move(parts), std::move(made));
}

OldTokenizer convert_merges(OldParts parts, const std::string& vocabulary, const std::string& merges) {
  const Json vocab = parse_json(vocabulary, parts.about + "/vocab.json");
  check(vocab.is_object(), parts.about, "/vocab.json: is ", vocab.kind_name(), ", expected an object");
  for (const JsonField& field : vocab.fields()) {
    parts.vocabulary[field.name] = token_id_of(field.value, parts.about + "/vocab.json");
  }
  parts.count = static_cast<std::int64_t>(vocab.fields().size());
  Json rules = Json::array();
  for (const std::string_view line : lines_of(merges)) {
    if (line.empty() || line.starts_with("#version")) continue;
    rules.push_back(repaired_utf8(line));
  }
  const bool roberta = is_one_of(parts.family, {"roberta", "bart", "longformer", "led", "camembert"});
  const bool qwen = parts.family.starts_with("qwen");
  const bool prefix = flag_field(parts.config, "add_prefix_space", parts.about, false);
  NewParts made;
  made.decoder = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  made.pre_tokenizer = {
      {"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", true}, {"use_regex", true}};
  made.model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", ""},
                {"end_of_word_suffix", ""},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", false},
                {"vocab", vocab},
                {"merges", std::move(rules)}};
  if (roberta) {
    add_roberta(parts, prefix, made);
  } else {
    add_gpt2(parts, qwen, made);
  }
  return finished(std::move(parts), std::move(made));
}

}  // namespace headway::inline v0::internal
