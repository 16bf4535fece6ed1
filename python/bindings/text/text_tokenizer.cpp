// TextTokenizer and StreamingDecoder. Offsets are code points here, as Python counts characters.
#include "headway/text_tokenizer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings/text/code_points.h"
#include "bindings/text/text_bindings.h"

namespace headway::python {
namespace {

using namespace nb::literals;
using Array = nb::handle;

TokenizeOptions read_options(bool special_tokens, std::int64_t max_length, std::int64_t stride, Array truncated,
                             Array side) {
  TokenizeOptions options;
  options.special_tokens = special_tokens;
  options.max_length = max_length;
  options.stride = stride;
  options.truncated =
      static_cast<TruncatedText>(read_choice("tokenize: truncated", truncated, {"longest", "first", "second"}));
  options.side = static_cast<TruncationSide>(read_choice("tokenize: side", side, {"right", "left"}));
  return options;
}

nb::object give_tokenized(const TokenizedText& text, const CodePoints& first, const CodePoints* second) {
  nb::list offsets;
  for (std::size_t i = 0; i < text.offsets.size(); ++i) {
    const CodePoints& points = text.sequence[i] == 1 && second != nullptr ? *second : first;
    offsets.append(nb::make_tuple(points.begin(text.offsets[i].begin), points.end(text.offsets[i].end)));
  }
  return call_python(result_type("TokenizedText"), text.ids, text.type_ids, offsets, text.sequence, text.words);
}

nb::object tokenize(const TextTokenizer& self, const std::string& text, const std::optional<std::string>& pair,
                    bool special_tokens, std::int64_t max_length, Array truncated, Array side) {
  const TokenizeOptions options = read_options(special_tokens, max_length, 0, truncated, side);
  TokenizedText tokenized;
  {
    const LockReleased released;
    tokenized = pair ? self.tokenize(text, *pair, options) : self.tokenize(text, options);
  }
  const CodePoints first(text);
  if (!pair) return give_tokenized(tokenized, first, nullptr);
  const CodePoints second(*pair);
  return give_tokenized(tokenized, first, &second);
}

nb::list tokenize_windows(const TextTokenizer& self, const std::string& text, const std::optional<std::string>& pair,
                          std::int64_t max_length, std::int64_t stride, bool special_tokens) {
  TokenizeOptions options;
  options.special_tokens = special_tokens;
  options.max_length = max_length;
  options.stride = stride;
  std::vector<TokenizedText> windows;
  {
    const LockReleased released;
    windows = pair ? self.tokenize_windows(text, *pair, options) : self.tokenize_windows(text, options);
  }
  const CodePoints first(text);
  const CodePoints second(pair.value_or(""));
  nb::list result;
  for (const TokenizedText& window : windows) result.append(give_tokenized(window, first, &second));
  return result;
}

// ids of one text, or of each text of a list.
nb::object encode(const TextTokenizer& self, Array text, bool special_tokens) {
  if (nb::isinstance<nb::str>(text)) {
    return nb::cast(self.encode(read_string("encode: text", text), special_tokens));
  }
  const std::vector<std::string> texts = read_texts("encode: text", text).texts;
  std::vector<std::vector<std::int64_t>> all;
  {
    const LockReleased released;
    for (const std::string& one : texts) all.push_back(self.encode(one, special_tokens));
  }
  return nb::cast(all);
}

std::string decode(const TextTokenizer& self, Array ids, bool skip_special_tokens) {
  const nb::object list = nb::hasattr(ids, "tolist") ? ids.attr("tolist")() : nb::borrow(ids);
  return self.decode(read_integers("decode: ids", list, "integers"), skip_special_tokens);
}

void bind_questions(nb::class_<TextTokenizer>& tokenizer) {
  tokenizer.def("__len__", &TextTokenizer::size)
      .def("token", &TextTokenizer::token, "id"_a, "The token of an id; empty where there is none.")
      .def("id", &TextTokenizer::id, "token"_a, "The id of a token; None where there is none.")
      .def("is_special", &TextTokenizer::is_special, "id"_a, "Whether it is a special token.")
      .def_prop_ro("bos_id", &TextTokenizer::bos_id, "The id of the token that begins a text, or None.")
      .def_prop_ro("eos_id", &TextTokenizer::eos_id, "The id of the token that ends a text, or None.")
      .def_prop_ro("pad_id", &TextTokenizer::pad_id, "The id of padding, or None.")
      .def_prop_ro("unk_id", &TextTokenizer::unk_id, "The id of unknown tokens, or None.")
      .def_prop_ro("cls_id", &TextTokenizer::cls_id, "The id of [CLS], or None.")
      .def_prop_ro("sep_id", &TextTokenizer::sep_id, "The id of [SEP], or None.")
      .def_prop_ro("mask_id", &TextTokenizer::mask_id, "The id of [MASK], or None.")
      .def_prop_ro("max_length", &TextTokenizer::max_length, "The most tokens by tokenizer_config.json, or None.");
}

}  // namespace

void bind_text_tokenizer(nb::module_& module) {
  nb::class_<TextTokenizer> tokenizer(module, "TextTokenizer",
                                      "The tokenizer of a Hugging Face directory: tokenizer.json or SentencePiece's.");
  tokenizer.def(
      "__init__",
      [](TextTokenizer* self, Array directory) {
        const std::filesystem::path path = read_path("TextTokenizer: directory", directory);
        const LockReleased released;
        new (self) TextTokenizer(TextTokenizer::load(path));
      },
      "directory"_a, "Reads the directory's tokenizer.json, or SentencePiece's model.");
  tokenizer
      .def_static(
          "load",
          [](Array directory) { return TextTokenizer::load(read_path("TextTokenizer.load: directory", directory)); },
          "directory"_a, "The tokenizer of a directory.")
      .def_static(
          "from_json", [](const std::string& text) { return TextTokenizer::from_json(text); }, "text"_a,
          "A tokenizer from the text of a tokenizer.json.")
      .def(
          "save",
          [](const TextTokenizer& self, Array directory) {
            self.save(read_path("TextTokenizer.save: directory", directory));
          },
          "directory"_a, "Writes tokenizer.json and what else was read.");
  bind_questions(tokenizer);
  tokenizer.def("encode", &encode, "text"_a, "special_tokens"_a = true, "The ids of a text, or of each text of a list.")
      .def("tokenize", &tokenize, "text"_a, "pair"_a.none() = nb::none(), nb::kw_only(), "special_tokens"_a = true,
           "max_length"_a = 0, "truncated"_a = "longest", "side"_a = "right",
           "Ids with their offsets in the text or texts, a headway.TokenizedText. max_length: the most tokens, 0 for "
           "no limit; truncated says which text of a pair is cut, side at which end.")
      .def("tokenize_windows", &tokenize_windows, "text"_a, "pair"_a.none() = nb::none(), nb::kw_only(), "max_length"_a,
           "stride"_a = 0, "special_tokens"_a = true,
           "Windows of max_length tokens that cover the last text, neighbours sharing `stride` tokens.")
      .def("decode", &decode, "ids"_a, "skip_special_tokens"_a = true, "The text of ids.");
  nb::class_<StreamingDecoder>(module, "StreamingDecoder", "Decodes token by token and never cuts a character.")
      .def(nb::init<TextTokenizer, bool>(), "tokenizer"_a, "skip_special_tokens"_a = true)
      .def("add", &StreamingDecoder::add, "id"_a, "The text that is certain after one more token; often empty.")
      .def("finish", &StreamingDecoder::finish, "What is left at the end.");
}

}  // namespace headway::python
