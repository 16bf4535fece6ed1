// SentencePiece models and the tokenizer of a Marian directory.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "headway/tokenizer.h"
#include "support/files.h"
#include "support/message_of.h"

namespace headway {
namespace {

using headway_test::contains;
using headway_test::message_of;
using headway_test::read_bytes;
using headway_test::TemporaryDirectory;
using headway_test::write_bytes;
using Ids = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

// Sentences of a small made-up language, always the same.
Texts sentences() {
  const Texts nouns = {"der Hund", "die Katze", "das Haus", "the dog", "the cat", "the house", "Äpfel", "Straße"};
  const Texts verbs = {"sieht", "findet", "sees", "finds", "hört", "hears", "läuft zu", "runs to"};
  Texts all;
  for (std::size_t n = 0; n < 400; ++n) {
    all.push_back(nouns[n % 8] + " " + verbs[n / 8 % 8] + " " + nouns[n * 5 / 3 % 8] + (n % 2 == 0 ? "." : "!"));
  }
  return all;
}

// A model trained once for all tests.
const SentencePieces& trained() {
  static const SentencePieces pieces = [] {
    TemporaryDirectory directory;
    return SentencePieces::train(sentences(), directory / "joint.spm", {.vocab_size = 300});
  }();
  return pieces;
}

TranslationTokenizer tokenizer() { return {trained(), {"deu", "eng"}}; }

TEST(SentencePieces, TrainingIsDeterministicAndQuiet) {
  TemporaryDirectory directory;
  for (const PieceKind kind : {PieceKind::unigram, PieceKind::bpe}) {
    const PieceTrainingOptions options = {.kind = kind, .vocab_size = 302};
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    const SentencePieces first = SentencePieces::train(sentences(), directory / "a.spm", options);
    const SentencePieces second = SentencePieces::train(sentences(), directory / "b.spm", options);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(first.size(), 302);
    EXPECT_EQ(read_bytes(directory / "a.spm"), read_bytes(directory / "b.spm"));
    EXPECT_EQ(first.bytes(), read_bytes(directory / "a.spm"));
    EXPECT_EQ(directory.listing().size(), 2u);
    const SentencePieces loaded = SentencePieces::load(directory / "a.spm");
    for (const std::string& text : sentences()) {
      EXPECT_EQ(loaded.encode(text), second.encode(text));
      EXPECT_EQ(loaded.decode(loaded.encode(text)), text);
    }
  }
}

TEST(SentencePieces, ByteFallbackCoversEveryText) {
  for (const std::string text : {"🤯", "中文", "x\xCC\x81y", "ΩЖ", "🏳️‍🌈"}) {
    const Texts pieces = trained().encode(text);
    EXPECT_EQ(trained().decode(pieces), text);
    for (const std::string& piece : pieces) EXPECT_NE(piece, "<unk>");
  }
  EXPECT_EQ(trained().decode(trained().encode("ﬁ ½ ｆｕｌｌ  Ａ\t b ")), "fi 1⁄2 full A b");
  EXPECT_TRUE(trained().encode("").empty());
  EXPECT_TRUE(trained().encode(" \t ").empty());
}

TEST(SentencePieces, InvalidUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(trained().encode("dog \xFF\xE2\x82 cat"), trained().encode("dog \xEF\xBF\xBD\xEF\xBF\xBD cat"));
  EXPECT_EQ(trained().encode("\xED\xA0\x80"), trained().encode("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST(SentencePieces, WithoutByteFallbackThereIsUnk) {
  TemporaryDirectory directory;
  const SentencePieces pieces =
      SentencePieces::train(sentences(), directory / "p.spm", {.vocab_size = 40, .byte_fallback = false});
  const TranslationTokenizer tokenizer(pieces, {});
  EXPECT_TRUE(tokenizer.languages().empty());
  const Ids ids = tokenizer.encode_source("der 🤯");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.unk_id()), 1);
  EXPECT_EQ(tokenizer.decode_target(ids), "der");
}

TEST(SentencePieces, TrainingErrors) {
  TemporaryDirectory directory;
  const auto message = [&](const Texts& texts, const PieceTrainingOptions& options) {
    testing::internal::CaptureStderr();
    const std::string came = message_of([&] { SentencePieces::train(texts, directory / "p.spm", options); });
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    return came;
  };
  EXPECT_PRED2(contains, message(sentences(), {.vocab_size = 100'000}), "vocab_size is 100000");
  EXPECT_PRED2(contains, message(sentences(), {.kind = PieceKind::bpe, .vocab_size = 100'000}), "vocab_size is 100000");
  EXPECT_PRED2(contains, message(sentences(), {.vocab_size = 299}), "vocab_size is 299");
  EXPECT_PRED2(contains, message(sentences(), {.vocab_size = 10, .byte_fallback = false}), "vocab_size is 10");
  EXPECT_PRED2(contains, message(sentences(), {.vocab_size = 0}), "vocab_size is 0");
  EXPECT_PRED2(contains, message(sentences(), {.character_coverage = 2}), "character_coverage is 2");
  EXPECT_PRED2(contains, message(sentences(), {.normalization = "nfd"}), "normalization is \"nfd\"");
  EXPECT_PRED2(contains, message({}, {}), "0 sentences");
  EXPECT_PRED2(contains, message({"", " \t"}, {}), "no characters");
  EXPECT_PRED2(contains, message({"good", "\xFF"}, {}), "sentence 1 is not UTF-8");
  EXPECT_TRUE(directory.listing().empty());
  const std::string no_directory =
      message_of([&] { SentencePieces::train(sentences(), directory / "none/p.spm", {.vocab_size = 300}); });
  EXPECT_PRED2(contains, no_directory, "p.spm: no file can be made in its directory");
}

TEST(SentencePieces, DamagedFiles) {
  TemporaryDirectory directory;
  const std::filesystem::path file = directory / "p.spm";
  const auto load = [&] { return message_of([&] { SentencePieces::load(file); }); };
  EXPECT_PRED2(contains, load(), "p.spm: no such file");
  const std::string& whole = trained().bytes();
  for (std::size_t size = 0; size < whole.size(); size += size < 64 ? 1 : whole.size() / 97) {
    write_bytes(file, whole.substr(0, size));
    EXPECT_NE(load(), "no error") << size << " of " << whole.size() << " bytes";
  }
  write_bytes(file, "this is no model");
  EXPECT_PRED2(contains, load(), "p.spm: is not a complete SentencePiece model");
  EXPECT_PRED2(contains, message_of([] { trained().piece(trained().size()); }), "id is 300, expected 0 to 299");
  EXPECT_PRED2(contains, message_of([] { trained().piece(-1); }), "id is -1");
}

TEST(TranslationTokenizer, Layout) {
  const TranslationTokenizer t = tokenizer();
  EXPECT_EQ(t.size(), 300 + 3);  // </s> and <unk> are among the 300
  EXPECT_EQ(t.eos_id(), 0);
  EXPECT_EQ(t.unk_id(), 1);
  EXPECT_EQ(t.pad_id(), t.size() - 1);
  EXPECT_EQ(t.token(t.size() - 3), ">>deu<<");
  EXPECT_EQ(t.languages(), (Texts{"deu", "eng"}));
  EXPECT_PRED2(contains, message_of([&] { t.token(t.size()); }), "id is 303");
  EXPECT_PRED2(contains, message_of([] { TranslationTokenizer(trained(), {"deu", "deu"}); }), ">>deu<< is there twice");
  for (const char* bad : {"", "de u", ">>deu<<", "ü"}) {
    EXPECT_PRED2(contains, message_of([&] { TranslationTokenizer(trained(), {bad}); }), "a language code is");
  }
}

TEST(TranslationTokenizer, LanguageCodes) {
  const TranslationTokenizer t = tokenizer();
  const std::int64_t deu = t.size() - 3, eng = t.size() - 2;
  const Ids plain = t.encode_source("the dog");
  Ids with_code = plain;
  with_code.insert(with_code.begin(), deu);
  EXPECT_EQ(t.encode_source("the dog", "deu"), with_code);
  EXPECT_EQ(t.encode_source(">>deu<<the dog"), with_code);
  EXPECT_EQ(t.encode_source(">>deu<< the dog"), with_code);
  EXPECT_EQ(t.encode_source("", "eng"), (Ids{eng, t.eos_id()}));
  EXPECT_EQ(t.encode_source(""), (Ids{t.eos_id()}));
  EXPECT_EQ(t.encode_source(">>xyz<< the dog").front(), t.unk_id());
  // Behind a code, what looks like one is text.
  const Ids twice = t.encode_source(">>eng<< the dog", "deu");
  EXPECT_EQ(twice.front(), deu);
  EXPECT_EQ(std::count(twice.begin(), twice.end(), eng), 0);
  EXPECT_EQ(t.decode_target(twice), ">>eng<< the dog");
  EXPECT_PRED2(contains, message_of([&] { t.encode_source("x", "fra"); }), "language is \"fra\", expected deu, eng");
}

TEST(TranslationTokenizer, SpecialTokensAreNeverReadFromText) {
  const TranslationTokenizer t = tokenizer();
  for (const std::string text : {"</s>", "a <pad> b", "<unk>", "<0x41>"}) {
    const Ids ids = t.encode_source(text);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), t.eos_id()), 1) << text;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), t.pad_id()), 0) << text;
    EXPECT_EQ(t.decode_target(ids), text);
  }
  EXPECT_EQ(t.decode_target({t.pad_id(), t.eos_id(), t.unk_id(), t.size() - 3}), "");
  EXPECT_PRED2(contains, message_of([&] { t.decode_target({-1}); }), "an id is -1");
  EXPECT_PRED2(contains, message_of([&] { t.decode_target({t.size()}); }), "an id is 303");
}

TEST(TranslationTokenizer, SavedAndLoaded) {
  TemporaryDirectory directory;
  const TranslationTokenizer t = tokenizer();
  t.save(directory / "made/on/the/way");
  const TranslationTokenizer loaded = TranslationTokenizer::load(directory / "made/on/the/way");
  EXPECT_EQ(loaded.size(), t.size());
  EXPECT_EQ(loaded.languages(), t.languages());
  for (std::int64_t id = 0; id < t.size(); ++id) EXPECT_EQ(loaded.token(id), t.token(id));
  for (const std::string& text : sentences()) {
    EXPECT_EQ(loaded.encode_source(text, "deu"), t.encode_source(text, "deu"));
    EXPECT_EQ(loaded.decode_target(loaded.encode_target(text)), text);
  }
  loaded.save(directory / "again");
  for (const char* name : {"source.spm", "target.spm", "vocab.json", "tokenizer_config.json"}) {
    EXPECT_EQ(read_bytes(directory / "again" / name), read_bytes(directory / "made/on/the/way" / name)) << name;
  }
}

TEST(TranslationTokenizer, SeparatePiecesForBothSides) {
  TemporaryDirectory directory;
  tokenizer().save(directory.path());
  // A source model that knows other pieces: what the vocabulary lacks is <unk>.
  SentencePieces::train({"xyz xyz", "zyx"}, directory / "source.spm",
                        {.kind = PieceKind::bpe, .vocab_size = 8, .byte_fallback = false});
  const TranslationTokenizer t = TranslationTokenizer::load(directory.path());
  EXPECT_EQ(t.encode_target("the dog"), tokenizer().encode_target("the dog"));
  EXPECT_NE(t.encode_source("the dog"), tokenizer().encode_source("the dog"));
}

TEST(TranslationTokenizer, ConfigNamesTheSpecialTokens) {
  TemporaryDirectory directory;
  tokenizer().save(directory.path());
  write_bytes(directory / "tokenizer_config.json",
              R"({"eos_token": {"content": "<pad>"}, "pad_token": "</s>", "unk_token": null})");
  const TranslationTokenizer t = TranslationTokenizer::load(directory.path());
  EXPECT_EQ(t.eos_id(), t.size() - 1);
  EXPECT_EQ(t.pad_id(), 0);
  std::filesystem::remove(directory / "tokenizer_config.json");
  EXPECT_EQ(TranslationTokenizer::load(directory.path()).pad_id(), t.size() - 1);
}

TEST(TranslationTokenizer, HostileFiles) {
  TemporaryDirectory directory;
  tokenizer().save(directory.path());
  const std::string vocabulary = read_bytes(directory / "vocab.json");
  const auto load = [&] { return message_of([&] { TranslationTokenizer::load(directory.path()); }); };
  ASSERT_EQ(load(), "no error");
  const std::vector<std::pair<std::string, std::string>> bad_vocabularies = {
      {"", "is not JSON"},
      {vocabulary.substr(0, vocabulary.size() / 2), "is not JSON"},
      {"[1, 2]", "holds array, expected an object"},
      {"{}", "has no tokens"},
      {R"({"</s>": 0, "<unk>": 1, "<pad>": 3})", "the id of \"<pad>\" is 3, expected 0 to 2"},
      {R"({"</s>": 0, "<unk>": 1, "<pad>": 1})", "have the same id 1"},
      {R"({"</s>": 0, "<unk>": -1, "<pad>": 2})", "the id of \"<unk>\" is -1"},
      {R"({"</s>": 0, "<unk>": 18446744073709551615, "<pad>": 2})", "the id of \"<unk>\" is 9223372036854775807"},
      {R"({"</s>": 0, "<unk>": 1.0, "<pad>": 2})", "is number, expected an integer"},
      {R"({"</s>": 0, "<unk>": "1", "<pad>": 2})", "is string, expected an integer"},
      {R"({"</s>": 0, "<unk>": 1})", "lacks the token <pad>"},
      {R"({"a": )" + std::string(100'000, '['), "is not JSON"},
      {"{\"\xFF\": 0}", "is not JSON"},
  };
  for (const auto& [bytes, part] : bad_vocabularies) {
    write_bytes(directory / "vocab.json", bytes);
    EXPECT_PRED2(contains, load(), part) << bytes.substr(0, 60);
    EXPECT_PRED2(contains, load(), "vocab.json");
  }
  write_bytes(directory / "vocab.json", vocabulary);
  const std::vector<std::pair<std::string, std::string>> bad_configs = {
      {"no", "is not JSON"},
      {"3", "holds number, expected an object"},
      {R"({"separate_vocabs": true})", "separate_vocabs is true, expected false"},
      {R"({"eos_token": 4})", "eos_token is number, expected a string"},
      {R"({"pad_token": "<none>"})", "lacks the token <none>"},
      {R"({"added_tokens_decoder": 1})", "added_tokens_decoder is number"},
      {R"({"added_tokens_decoder": {"5000": {"content": "<new>"}}})", "\"<new>\" the id 5000"},
      {R"({"added_tokens_decoder": {"0": {"content": "<pad>"}}})", "\"<pad>\" the id 0"},
  };
  for (const auto& [bytes, part] : bad_configs) {
    write_bytes(directory / "tokenizer_config.json", bytes);
    EXPECT_PRED2(contains, load(), part) << bytes;
  }
  write_bytes(directory / "tokenizer_config.json", "{}");
  for (const char* name : {"vocab.json", "source.spm", "target.spm"}) {
    const std::string bytes = read_bytes(directory / name);
    std::filesystem::remove(directory / name);
    EXPECT_PRED2(contains, load(), std::string(name) + ": no such file");
    write_bytes(directory / name, bytes);
  }
  EXPECT_EQ(load(), "no error");
  EXPECT_PRED2(contains, message_of([&] { TranslationTokenizer::load(directory / "none"); }),
               "none: no such directory");
}

// What a directory of our own with two ids exchanged is refused for.
std::string exchanged(const TranslationTokenizer& t, std::int64_t first, std::int64_t second, const Texts& removed) {
  TemporaryDirectory directory;
  t.save(directory.path());
  std::string vocabulary;
  for (std::int64_t id = 0; id < t.size(); ++id) {
    const std::int64_t other = id == first ? second : id == second ? first : id;
    vocabulary += (id == 0 ? "{\"" : ", \"") + t.token(other) + "\": " + std::to_string(id);
  }
  write_bytes(directory / "vocab.json", vocabulary + "}");
  for (const std::string& file : removed) std::filesystem::remove(directory / file);
  return message_of([&] { TranslationTokenizer::load(directory.path()); });
}

TEST(TranslationTokenizer, VocabulariesOfOtherPieces) {
  const TranslationTokenizer t = tokenizer();
  EXPECT_EQ(exchanged(t, 5, 5, {}), "no error");
  EXPECT_PRED2(contains, exchanged(t, 270, 290, {}),
               "vocab.json: the token of id 270 is \"" + t.token(290) + "\", expected \"" + t.token(270) + "\"");
  EXPECT_PRED2(contains, exchanged(t, 0, 299, {}), "the token of id 0 is");
  EXPECT_PRED2(contains, exchanged(t, t.size() - 3, t.size() - 2, {}), "is \">>eng<<\", expected \">>deu<<\"");
  EXPECT_PRED2(contains, exchanged(t, 1, t.size() - 1, {}), "the token of id 1 is \"<pad>\"");
  // Of a directory that another program wrote any order may be right.
  EXPECT_EQ(exchanged(t, 270, 290, {"tokenizer_config.json"}), "no error");

  TemporaryDirectory directory;
  t.save(directory.path());
  SentencePieces::train({"xyz xyz", "zyx"}, directory / "source.spm",
                        {.kind = PieceKind::bpe, .vocab_size = 8, .byte_fallback = false});
  write_bytes(directory / "target.spm", read_bytes(directory / "source.spm"));
  EXPECT_PRED2(contains, message_of([&] { TranslationTokenizer::load(directory.path()); }),
               "tokens are no pieces of source.spm or target.spm, as \"<0x00>\"");
}

TEST(TranslationTokenizer, DirectoriesWithoutTheOrderOfCodes) {
  TemporaryDirectory directory;
  tokenizer().save(directory.path());
  std::string config = read_bytes(directory / "tokenizer_config.json");
  const std::size_t begin = config.find(",\n  \"language_codes\"");
  ASSERT_NE(begin, std::string::npos);
  write_bytes(directory / "tokenizer_config.json", config.substr(0, begin) + "\n}\n");
  EXPECT_EQ(TranslationTokenizer::load(directory.path()).languages(), (Texts{"deu", "eng"}));
}

TEST(TranslationTokenizer, SeveralThreadsAtOnce) {
  const TranslationTokenizer t = tokenizer();
  const Texts texts = sentences();
  std::vector<Ids> expected;
  for (const std::string& text : texts) expected.push_back(t.encode_source(text));
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(t.encode_source(texts[i]), expected[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace headway
