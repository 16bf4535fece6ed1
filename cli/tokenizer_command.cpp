// headway tokenizer train, encode, decode
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>

#include "headway/error.h"
#include "headway/text_pairs.h"
#include "headway/text_tokenizer.h"
#include "headway/tokenizer.h"
#include "options.h"
#include "text_io.h"
#include "tokenize.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct TrainTokenizer {
  std::vector<std::string> files = {};
  std::string output = {};
  std::string languages = {};
  std::string kind = "unigram";
  bool no_byte_fallback = false;
  headway::PieceTrainingOptions pieces = {};
  bool json = false;

  int run();
  std::vector<std::string> sentences() const;
};

// A .tsv or .zip holds pairs, both sides of which are used; another file has one sentence per line.
std::vector<std::string> TrainTokenizer::sentences() const {
  std::vector<std::string> all;
  for (const std::string& file : files) {
    const std::string ending = fs::path(file).extension().string();
    if (ending == ".tsv" || ending == ".zip") {
      headway::for_each_pair(file, [&all](headway::TextPair&& pair) {
        all.push_back(std::move(pair.source));
        all.push_back(std::move(pair.target));
      });
    } else {
      std::vector<std::string> lines = read_lines(file);
      std::move(lines.begin(), lines.end(), std::back_inserter(all));
    }
  }
  return all;
}

int TrainTokenizer::run() {
  const std::vector<std::string> texts = sentences();
  pieces.kind = kind == "bpe" ? headway::PieceKind::bpe : headway::PieceKind::unigram;
  pieces.byte_fallback = !no_byte_fallback;
  std::int64_t size = 0;
  if (fs::path(output).extension() == ".spm") {
    if (!languages.empty()) {
      throw UsageError("--languages is for a directory, and --output is a single .spm file");
    }
    size = headway::SentencePieces::train(texts, output, pieces).size();
  } else {
    std::vector<std::string> codes;
    for (std::string_view rest = languages; !rest.empty();) {
      const std::string_view code = rest.substr(0, rest.find(','));
      codes.emplace_back(code);
      rest.remove_prefix(std::min(code.size() + 1, rest.size()));
    }
    std::error_code problem;
    fs::create_directories(output, problem);
    if (problem) throw headway::Error(output + ": cannot be made: " + problem.message());
    const headway::SentencePieces joint =
        headway::SentencePieces::train(texts, fs::path(output) / "source.spm", pieces);
    const headway::TranslationTokenizer tokenizer(joint, codes);
    tokenizer.save(output);
    size = tokenizer.size();
  }
  if (json) {
    std::cout << "{\"output\": " << json_string(output) << ", \"sentences\": " << texts.size() << ", \"size\": " << size
              << "}\n";
  } else {
    std::cout << output << ": " << size << " tokens from "
              << count_of(static_cast<std::int64_t>(texts.size()), "sentence") << '\n';
  }
  return kDone;
}

// What `encode` and `decode` share: a tokenizer directory, or a single model.
struct UseTokenizer {
  std::string tokenizer = {};
  std::string to = {};
  bool target = false;
  bool ids = false;
  bool zero = false;
  TokenizeFlags flags = {};
  std::vector<std::string> texts = {};

  int encode();
  int decode();
  bool is_model() const { return fs::path(tokenizer).extension() == ".spm"; }
  // A directory of another family than Marian's.
  bool is_text_tokenizer() const {
    return !is_model() && !fs::exists(directory() / "source.spm") && headway::TextTokenizer::is_in(directory());
  }
  void refuse_flags() const {
    if (flags.any()) throw UsageError("options such as --json and --offsets need a directory with a tokenizer.json");
  }
  EachText each_text(LongTexts long_texts) const {
    return [this, long_texts](const auto& body) { for_each_text(long_texts, body); };
  }
  fs::path directory() const { return tokenizer.empty() ? default_model() : fs::path(tokenizer); }
  void for_each_text(LongTexts long_texts, const TextBody& body) const;
};

void UseTokenizer::for_each_text(LongTexts long_texts, const TextBody& body) const {
  for (const std::string& text : texts) body(text, false);
  if (!texts.empty()) return;
  constexpr std::size_t kMost = 1024;
  InputTexts input({.long_texts = long_texts, .end = zero ? '\0' : '\n', .command = "headway tokenizer encode"});
  for (auto more = input.next(kMost); !more.empty(); more = input.next(kMost)) {
    for (const std::string& text : more) body(text, input.goes_on() && &text == &more.back());
    std::cout.flush();
  }
}

// The words of a line, by spaces.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t start = line.find_first_not_of(' '); start != std::string::npos;) {
    const std::size_t end = std::min(line.find(' ', start), line.size());
    words.push_back(line.substr(start, end - start));
    start = line.find_first_not_of(' ', end);
  }
  return words;
}

std::int64_t id_of(const std::string& word) {
  std::int64_t id = 0;
  const auto [stop, problem] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (problem != std::errc() || stop != word.data() + word.size()) {
    throw headway::Error("\"" + word + "\" is not an id, expected a number");
  }
  return id;
}

int UseTokenizer::encode() {
  if (is_text_tokenizer()) {
    if (target || !to.empty()) throw UsageError("--target and --to need the directory of a Marian model");
    flags.ids = ids;
    return encode_texts(directory(), flags, each_text(flags.takes_parts() ? LongTexts::in_parts : LongTexts::refused));
  }
  refuse_flags();
  const auto print = [](const std::vector<std::string>& tokens, bool goes_on) {
    for (std::size_t n = 0; n < tokens.size(); ++n) std::cout << (n == 0 ? "" : " ") << visible_token(tokens[n]);
    std::cout << (goes_on ? ' ' : '\n');
  };
  if (is_model()) {
    if (ids || target || !to.empty()) throw UsageError("--ids, --target and --to need a tokenizer directory");
    const headway::SentencePieces pieces = headway::SentencePieces::load(tokenizer);
    for_each_text(LongTexts::in_parts,
                  [&](const std::string& text, bool goes_on) { print(pieces.encode(text), goes_on); });
    return kDone;
  }
  if (target && !to.empty()) throw UsageError("--target and --to do not go together");
  const headway::TranslationTokenizer loaded = headway::TranslationTokenizer::load(directory());
  for_each_text(LongTexts::in_parts, [&](const std::string& text, bool goes_on) {
    const std::vector<std::int64_t> encoded = target ? loaded.encode_target(text) : loaded.encode_source(text, to);
    std::vector<std::string> tokens;
    tokens.reserve(encoded.size());
    for (const std::int64_t id : encoded) tokens.push_back(ids ? std::to_string(id) : loaded.token(id));
    print(tokens, goes_on);
  });
  return kDone;
}

int UseTokenizer::decode() {
  if (is_text_tokenizer()) return decode_texts(directory(), flags, each_text(LongTexts::refused));
  refuse_flags();
  if (is_model()) {
    const headway::SentencePieces pieces = headway::SentencePieces::load(tokenizer);
    for_each_text(LongTexts::refused, [&](const std::string& text, bool) {
      std::cout << shown_line(pieces.decode(words_of(text))) << '\n';
    });
    return kDone;
  }
  const headway::TranslationTokenizer loaded = headway::TranslationTokenizer::load(directory());
  for_each_text(LongTexts::refused, [&](const std::string& text, bool) {
    std::vector<std::int64_t> decoded;
    for (const std::string& word : words_of(text)) decoded.push_back(id_of(word));
    std::cout << shown_line(loaded.decode_target(decoded)) << '\n';
  });
  return kDone;
}

void add_training(Program& program, CLI::App& tokenizer) {
  CLI::App& command =
      program.add_command({"train", "Learn pieces of words from sentences",
                           "  headway tokenizer train parts/training.tsv --output joint.spm\n"
                           "  headway tokenizer train parts/training.tsv --languages deu,eng --output model   (a "
                           "Marian directory's files)\n"
                           "  headway tokenizer train a.txt b.txt --kind bpe --vocab-size 16000 --output joint.spm"},
                          &tokenizer);
  const auto options = std::make_shared<TrainTokenizer>();
  const CLI::Option* const files =
      add_texts(command, "FILE", "Texts, a sentence a line; a .tsv or .zip holds pairs, of which both sides count")
          ->required();
  command
      .add_option("--output", options->output,
                  "A SentencePiece model where it ends in .spm, else the directory of a Marian model")
      ->type_name("PATH")
      ->required();
  command.add_option("--languages", options->languages, "Codes to choose the target language by, as deu,eng")
      ->type_name("CODES");
  command.add_option("--kind", options->kind, "How pieces are chosen")
      ->capture_default_str()
      ->check(CLI::IsMember({"unigram", "bpe"}));
  command.add_option("--vocab-size", options->pieces.vocab_size, "Number of pieces")
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--character-coverage", options->pieces.character_coverage,
                  "Share of the characters that become pieces; the others become bytes")
      ->type_name("X")
      ->capture_default_str();
  command.add_option("--normalization", options->pieces.normalization, "What is done to a text first")
      ->capture_default_str()
      ->check(CLI::IsMember({"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"}));
  command.add_flag("--no-byte-fallback", options->no_byte_fallback,
                   "Characters that no piece has become <unk> instead of their bytes");
  command.add_flag("--json", options->json, "Write the result as a JSON object");
  program.on_run(command, [options, files] {
    options->files = texts_of(*files);
    return options->run();
  });
}

void add_use(Program& program, CLI::App& tokenizer, bool encode) {
  CLI::App& command =
      encode ? program.add_command({"encode", "Show the tokens of texts",
                                    "  headway tokenizer encode \"The animal was too tired.\"\n"
                                    "  headway tokenizer encode --tokenizer joint.spm < text.txt\n"
                                    "  headway tokenizer encode --ids --to deu \"Good morning!\"\n"
                                    "  headway tokenizer encode --model all-MiniLM-L6-v2 --offsets \"Good morning!\""},
                                   &tokenizer)
             : program.add_command({"decode", "Show the text of ids, or of the pieces of a single model",
                                    "  headway tokenizer encode --ids \"Good morning!\" | headway tokenizer decode\n"
                                    "  headway tokenizer decode \"17 384 9 0\""},
                                   &tokenizer);
  const auto options = std::make_shared<UseTokenizer>();
  command
      .add_option("--tokenizer,--model", options->tokenizer,
                  "Directory of a model with its tokenizer, or a .spm file; default: the default model")
      ->type_name("PATH");
  if (encode) {
    command.add_option("--to", options->to, "Put the code of this language in front, as deu")->type_name("LANGUAGE");
    command.add_flag("--target", options->target, "Encode as the target side does");
    command.add_flag("--ids", options->ids, "Show ids instead of tokens");
    command.add_flag("--zero", options->zero, "Texts on standard input end with a zero byte, not with a line");
  }
  options->flags.add_to(command, encode);
  const CLI::Option* const texts = add_texts(command, "TEXT", "Texts; without any, each line of standard input is one");
  program.on_run(command, [options, texts, encode] {
    options->texts = texts_of(*texts);
    return encode ? options->encode() : options->decode();
  });
}

}  // namespace

void add_tokenizer(Program& program) {
  CLI::App& tokenizer =
      program.add_command({"tokenizer", "Train SentencePiece tokenizers, and use those of any model",
                           "  headway tokenizer train parts/training.tsv --languages deu,eng --output model\n"
                           "  headway tokenizer encode \"The animal was too tired.\""});
  tokenizer.require_subcommand(1);
  add_training(program, tokenizer);
  add_use(program, tokenizer, true);
  add_use(program, tokenizer, false);
}

}  // namespace cli
