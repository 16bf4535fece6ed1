#include "tokenize.h"

#include <charconv>
#include <iostream>

#include "base/json.h"
#include "headway/error.h"
#include "headway/text_tokenizer.h"
#include "text_io.h"

namespace cli {
namespace {

using headway::internal::Json;

Json tokens_as_json(const headway::TextTokenizer& tokenizer, const headway::TokenizedText& text) {
  Json ids = Json::array(), tokens = Json::array(), offsets = Json::array(), words = Json::array();
  Json types = Json::array(), sequences = Json::array();
  for (std::size_t n = 0; n < text.ids.size(); ++n) {
    ids.push_back(text.ids[n]);
    tokens.push_back(tokenizer.token(text.ids[n]));
    offsets.push_back(std::vector<Json>{text.offsets[n].begin, text.offsets[n].end});
    words.push_back(text.words[n]);
    types.push_back(text.type_ids[n]);
    sequences.push_back(text.sequence[n]);
  }
  Json all = {{"ids", std::move(ids)},     {"tokens", std::move(tokens)}, {"offsets", std::move(offsets)},
              {"words", std::move(words)}, {"types", std::move(types)},   {"sequences", std::move(sequences)}};
  if (text.invalid_utf8) all.set("invalid_utf8", true);
  return all;
}

// A text, or two of a pair: a line as it is, or a JSON string, or a JSON array of two.
struct LineTexts {
  std::string first = {};
  std::string second = {};
  bool pair = false;
};

LineTexts texts_of_line(const std::string& line, bool json) {
  if (!json) return {line};
  const Json value = headway::internal::parse_json(line, "a line of the input");
  if (value.is_string()) return {value.string()};
  if (!value.is_array() || value.items().size() != 2) {
    throw headway::Error("a line of the input is neither a JSON string nor an array of two");
  }
  return {value.items()[0].string(), value.items()[1].string(), true};
}

headway::TokenizeOptions options_of(const TokenizeFlags& flags) {
  headway::TokenizeOptions options = {
      .special_tokens = !flags.no_special_tokens, .max_length = flags.max_length, .stride = flags.stride};
  options.truncated = flags.truncate == "first"    ? headway::TruncatedText::first
                      : flags.truncate == "second" ? headway::TruncatedText::second
                                                   : headway::TruncatedText::longest;
  if (flags.left) options.side = headway::TruncationSide::left;
  return options;
}

void print_windows(const headway::TextTokenizer& tokenizer, const LineTexts& texts,
                   const headway::TokenizeOptions& options) {
  const std::vector<headway::TokenizedText> windows =
      texts.pair ? tokenizer.tokenize_windows(texts.first, texts.second, options)
                 : tokenizer.tokenize_windows(texts.first, options);
  Json all = Json::array();
  for (const headway::TokenizedText& window : windows) all.push_back(tokens_as_json(tokenizer, window));
  std::cout << all.text() << '\n';
}

std::vector<std::int64_t> ids_of_line(const std::string& line, bool json) {
  std::vector<std::int64_t> ids;
  if (json) {
    const Json value = headway::internal::parse_json(line, "a line of the input");
    for (const Json& id : value.items()) ids.push_back(id.int64());
    return ids;
  }
  const char* at = line.data();
  const char* const end = at + line.size();
  while (at < end) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    std::int64_t id = 0;
    const auto [stop, problem] = std::from_chars(at, end, id);
    if (problem != std::errc() || (stop < end && *stop != ' ')) {
      throw headway::Error("\"" + line + "\" is not ids, expected numbers");
    }
    ids.push_back(id);
    at = stop;
  }
  return ids;
}

}  // namespace

void TokenizeFlags::add_to(CLI::App& command, bool encode) {
  if (encode) {
    command.add_flag("--offsets", offsets, "Show the bytes of the text that each token stands for");
    command.add_flag("--json", json, "Write a JSON object for each text: ids, tokens, offsets, words, types");
    command.add_flag("--json-lines", json_lines,
                     "Each text is a JSON string, or an array of two for a pair; implies --json");
    command.add_flag("--no-special-tokens", no_special_tokens, "Leave out the tokens around the text, as [CLS]");
    command.add_option("--max-length", max_length, "Cut texts to so many tokens")->type_name("N");
    command.add_option("--truncate", truncate, "Which text of a pair is cut")
        ->capture_default_str()
        ->check(CLI::IsMember({"longest", "first", "second"}));
    command.add_flag("--truncate-left", left, "Cut the begin of a text, not its end");
    command.add_flag("--windows", windows, "Write all windows of --max-length tokens, as a JSON array for each text");
    command.add_option("--stride", stride, "Tokens that neighbouring windows share")->type_name("N");
  } else {
    command.add_flag("--json-lines", json_lines, "Each text is a JSON array of ids, and is written as a JSON string");
    command.add_flag("--keep-special-tokens", keep_special_tokens, "Show special tokens, as [CLS]");
    command.add_flag("--stream", stream, "Write what each token adds, as a JSON array of strings for each text");
  }
}

bool TokenizeFlags::any() const {
  return offsets || json || json_lines || no_special_tokens || keep_special_tokens || windows || stream || left ||
         max_length != 0 || stride != 0;
}

bool TokenizeFlags::takes_parts() const { return !offsets && !json && !json_lines && !windows && max_length == 0; }

int encode_texts(const std::filesystem::path& directory, const TokenizeFlags& flags, const EachText& for_each_text) {
  const headway::TextTokenizer tokenizer = headway::TextTokenizer::load(directory);
  const headway::TokenizeOptions options = options_of(flags);
  for_each_text([&](const std::string& line, bool goes_on) {
    const LineTexts texts = texts_of_line(line, flags.json_lines);
    if (flags.windows) return print_windows(tokenizer, texts, options);
    const headway::TokenizedText text =
        texts.pair ? tokenizer.tokenize(texts.first, texts.second, options) : tokenizer.tokenize(texts.first, options);
    if (flags.json || flags.json_lines) {
      std::cout << tokens_as_json(tokenizer, text).text() << '\n';
      return;
    }
    for (std::size_t n = 0; n < text.ids.size(); ++n) {
      std::cout << (n == 0 ? "" : " ")
                << (flags.ids ? std::to_string(text.ids[n]) : visible_token(tokenizer.token(text.ids[n])));
      if (flags.offsets) std::cout << '[' << text.offsets[n].begin << ',' << text.offsets[n].end << ')';
    }
    std::cout << (goes_on ? ' ' : '\n');
  });
  return kDone;
}

int decode_texts(const std::filesystem::path& directory, const TokenizeFlags& flags, const EachText& for_each_text) {
  const headway::TextTokenizer tokenizer = headway::TextTokenizer::load(directory);
  for_each_text([&](const std::string& line, bool) {
    const std::vector<std::int64_t> ids = ids_of_line(line, flags.json_lines);
    if (flags.stream) {
      headway::StreamingDecoder decoder(tokenizer, !flags.keep_special_tokens);
      Json pieces = Json::array();
      for (const std::int64_t id : ids) pieces.push_back(decoder.add(id));
      pieces.push_back(decoder.finish());
      std::cout << pieces.text() << '\n';
      return;
    }
    const std::string text = tokenizer.decode(ids, !flags.keep_special_tokens);
    std::cout << (flags.json_lines ? json_string(text) : shown_line(text)) << '\n';
  });
  return kDone;
}

}  // namespace cli
