// Tokenizers of Hugging Face: small files with answers that are known.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "headway/text_tokenizer.h"
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

constexpr const char* kBertModel = R"("model": {"type": "WordPiece", "unk_token": "[UNK]",
  "continuing_subword_prefix": "##", "max_input_chars_per_word": 8, "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2,
  "[SEP]": 3, "play": 4, "##ing": 5, "##s": 6, "cafe": 7, "the": 8, "!": 9, "中": 10, "a": 11, "##a": 12}})";
constexpr const char* kBertRest = R"("added_tokens": [
  {"id": 2, "content": "[CLS]", "special": true, "normalized": false},
  {"id": 3, "content": "[SEP]", "special": true, "normalized": false},
  {"id": 13, "content": "[NEW]", "special": false, "normalized": false, "lstrip": true}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
    "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                       "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
  "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true})";

std::string bert_json() { return std::string("{") + kBertRest + ", " + kBertModel + "}"; }
TextTokenizer bert() { return TextTokenizer::from_json(bert_json()); }

// Bytes as GPT-2 writes them, and three merges: " t" and " th", "he".
TextTokenizer byte_level(const std::string& decoder = R"({"type": "ByteLevel"})") {
  std::string vocabulary;
  int id = 0;
  const auto add = [&](const std::string& token) {
    vocabulary += (id == 0 ? "\"" : ", \"") + token + "\": " + std::to_string(id);
    ++id;
  };
  for (int byte = 0x21; byte < 0x7F; ++byte) {
    const char c = static_cast<char>(byte);
    add(c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c));
  }
  for (const char* token : {"Ġ", "Ã", "©", "ð", "Ł", "ĺ", "Ģ", "he", "Ġt", "Ġthe"}) add(token);
  return TextTokenizer::from_json(
      R"({"added_tokens": [{"content": "<|end|>", "special": true}],
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
          "post_processor": {"type": "ByteLevel", "trim_offsets": true, "add_prefix_space": false},
          "decoder": )" +
      decoder + R"(, "model": {"type": "BPE", "vocab": {)" + vocabulary +
      R"(}, "merges": ["h e", ["Ġ", "t"], "Ġt he"]}})");
}

// A Llama of few characters: bytes for the rest.
TextTokenizer llama() {
  std::string vocabulary = R"("<unk>": 0, "<s>": 1, "▁": 2, "a": 3, "b": 4, "ab": 5, "▁ab": 6)";
  int id = 7;
  for (const char* byte : {"<0xC3>", "<0xA9>", "<0xE4>", "<0xB8>", "<0xAD>"}) {
    vocabulary += std::string(", \"") + byte + "\": " + std::to_string(id++);
  }
  return TextTokenizer::from_json(
      R"({"added_tokens": [{"content": "<s>", "special": true, "normalized": false}],
          "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
          "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
          "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": {)" +
      vocabulary + R"(}, "merges": ["a b", "▁ ab"]}})");
}

TEST(TextTokenizer, WordPieceHasOffsetsWordsAndTypes) {
  const TextTokenizer tokenizer = bert();
  const TokenizedText text = tokenizer.tokenize("Café plays!");
  EXPECT_EQ(text.ids, (Ids{2, 7, 4, 6, 9, 3}));
  EXPECT_EQ(text.offsets, (std::vector<TokenOffsets>{{0, 0}, {0, 5}, {6, 10}, {10, 11}, {11, 12}, {0, 0}}));
  EXPECT_EQ(text.words, (Ids{-1, 0, 1, 1, 2, -1}));
  EXPECT_EQ(text.sequence, (Ids{-1, 0, 0, 0, 0, -1}));
  EXPECT_EQ(text.type_ids, Ids(6, 0));
  EXPECT_EQ(tokenizer.encode("Café plays!"), text.ids);
  EXPECT_EQ(tokenizer.encode("中the", false), (Ids{10, 8}));
  EXPECT_EQ(tokenizer.encode("unknown aaaaaaaaa", false), (Ids{1, 1}));  // the second is longer than 8
  EXPECT_EQ(tokenizer.encode("aaa", false), (Ids{11, 12, 12}));
  EXPECT_EQ(tokenizer.encode("", false), Ids());
  EXPECT_EQ(tokenizer.encode(""), (Ids{2, 3}));

  const TokenizedText pair = tokenizer.tokenize("the", "playing !");
  EXPECT_EQ(pair.ids, (Ids{2, 8, 3, 4, 5, 9, 3}));
  EXPECT_EQ(pair.type_ids, (Ids{0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(pair.sequence, (Ids{-1, 0, -1, 1, 1, 1, -1}));
  EXPECT_EQ(pair.offsets[4], (TokenOffsets{4, 7}));
}

TEST(TextTokenizer, AddedTokensAreFoundFirst) {
  const TextTokenizer tokenizer = bert();
  const TokenizedText text = tokenizer.tokenize("the  [NEW]s [SEP]", {.special_tokens = false});
  EXPECT_EQ(text.ids, (Ids{8, 13, 1, 3}));
  EXPECT_EQ(text.offsets[1], (TokenOffsets{3, 10}));  // with the spaces before it
  EXPECT_EQ(tokenizer.size(), 14);
  EXPECT_EQ(tokenizer.token(13), "[NEW]");
  EXPECT_EQ(tokenizer.id("[NEW]"), 13);
  EXPECT_EQ(tokenizer.id("nothing"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(2));
  EXPECT_FALSE(tokenizer.is_special(13));
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_EQ(tokenizer.decode({2, 4, 5, 9, 13, 3}), "playing! [NEW]");
  EXPECT_EQ(tokenizer.decode({2, 4, 3}, false), "[CLS] play [SEP]");
  EXPECT_TRUE(contains(message_of([&] { tokenizer.decode({14}); }), "an id is 14, expected 0 to 13"));
}

TEST(TextTokenizer, TruncatesAndMakesWindows) {
  const TextTokenizer tokenizer = bert();
  EXPECT_EQ(tokenizer.tokenize("the play the", {.max_length = 4}).ids, (Ids{2, 8, 4, 3}));
  EXPECT_EQ(tokenizer.tokenize("the play a", {.max_length = 4, .side = TruncationSide::left}).ids, (Ids{2, 4, 11, 3}));
  EXPECT_EQ(tokenizer.tokenize("the the the", "a", {.max_length = 6}).ids, (Ids{2, 8, 8, 3, 11, 3}));
  EXPECT_EQ(tokenizer.tokenize("the", "a a a", {.max_length = 6, .truncated = TruncatedText::second}).ids,
            (Ids{2, 8, 3, 11, 11, 3}));
  EXPECT_TRUE(contains(message_of([&] { tokenizer.tokenize("the", {.max_length = 1}); }), "special tokens"));
  EXPECT_TRUE(contains(message_of([&] { tokenizer.tokenize("the", {.max_length = -1}); }), "max_length is -1"));
  EXPECT_TRUE(contains(
      message_of([&] { tokenizer.tokenize("the", "a a a a", {.max_length = 5, .truncated = TruncatedText::first}); }),
      "leaves no token"));

  const std::vector<TokenizedText> windows =
      tokenizer.tokenize_windows("the", "a play a cafe !", {.max_length = 7, .stride = 1});
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].ids, (Ids{2, 8, 3, 11, 4, 11, 3}));
  EXPECT_EQ(windows[1].ids, (Ids{2, 8, 3, 11, 7, 9, 3}));
  EXPECT_EQ(windows[1].offsets[4], (TokenOffsets{9, 13}));
  EXPECT_EQ(tokenizer.tokenize_windows("a a a", {.max_length = 4}).size(), 2u);
  EXPECT_EQ(tokenizer.tokenize_windows("", {.max_length = 4}).size(), 1u);
  EXPECT_TRUE(contains(message_of([&] { tokenizer.tokenize_windows("a a a", {.max_length = 4, .stride = 2}); }),
                       "stride is 2, expected less than the 2 tokens"));
  EXPECT_TRUE(contains(message_of([&] { tokenizer.tokenize_windows("the the", "a", {.max_length = 5}); }),
                       "expected more than the 2 tokens of the first text"));
}

TEST(TextTokenizer, ByteLevelMergesByRank) {
  const TextTokenizer tokenizer = byte_level();
  const std::int64_t the = *tokenizer.id("Ġthe");
  const TokenizedText text = tokenizer.tokenize("the the");
  EXPECT_EQ(text.ids, (Ids{*tokenizer.id("t"), *tokenizer.id("he"), the}));
  EXPECT_EQ(text.offsets, (std::vector<TokenOffsets>{{0, 1}, {1, 3}, {4, 7}}));  // without the space
  const std::string smile = "\xF0\x9F\x98\x80 é!";
  const Ids ids = tokenizer.encode(smile);
  EXPECT_EQ(ids.size(), 8u);
  EXPECT_EQ(tokenizer.decode(ids), smile);
  // The bytes of a character wait for its end.
  StreamingDecoder decoder(tokenizer);
  std::vector<std::string> parts;
  for (const std::int64_t id : ids) parts.push_back(decoder.add(id));
  EXPECT_EQ(parts, (std::vector<std::string>{"", "", "", "\xF0\x9F\x98\x80", " ", "", "é", "!"}));
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.add(ids[0]), "");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.add(the), " the");  // a new text
}

TEST(TextTokenizer, BytesStandForUnknownCharacters) {
  const TextTokenizer tokenizer = llama();
  EXPECT_EQ(tokenizer.encode("ab ab"), (Ids{6, 6}));
  EXPECT_EQ(tokenizer.encode("é"), (Ids{2, 7, 8}));
  EXPECT_EQ(tokenizer.encode("xyb"), (Ids{2, 0, 4}));  // fused
  EXPECT_EQ(tokenizer.decode({6, 7, 8, 6}), "abé ab");
  EXPECT_EQ(tokenizer.decode({7, 7, 8}), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  StreamingDecoder decoder(tokenizer);
  std::string joined;
  for (const std::int64_t id : {6, 7, 8, 6}) joined += decoder.add(id);
  EXPECT_EQ(joined + decoder.finish(), "abé ab");
  // Long texts take the way with the heap, which must agree.
  std::string longest, expected;
  for (int n = 0; n < 300; ++n) longest += n % 3 == 0 ? "ab" : n % 3 == 1 ? "ba" : "é";
  std::string decoded = tokenizer.decode(tokenizer.encode(longest));
  EXPECT_EQ(decoded, longest);
}

TEST(TextTokenizer, UnigramTakesTheBestSum) {
  const TextTokenizer tokenizer = TextTokenizer::from_json(
      R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
          "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
          "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["▁", -2], ["a", -1], ["b", -1],
            ["ab", -1.5], ["▁ab", -4]]}})");
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{1, 4}));  // -3.5, not -4
  EXPECT_EQ(tokenizer.encode("abxxb a"), (Ids{1, 4, 0, 3, 1, 2}));
  EXPECT_EQ(tokenizer.decode({1, 4, 1, 2}), "ab a");
  EXPECT_EQ(tokenizer.tokenize("ab xy").offsets[2], (TokenOffsets{2, 3}));
}

TEST(TextTokenizer, BrokenTextIsReplaced) {
  const TextTokenizer tokenizer = bert();
  const TokenizedText text = tokenizer.tokenize("the \xFF play");
  EXPECT_TRUE(text.invalid_utf8);
  EXPECT_EQ(text.ids, (Ids{2, 8, 4, 3}));
  EXPECT_FALSE(tokenizer.tokenize("the").invalid_utf8);
}

TEST(TextTokenizer, UnknownComponentsAreNamed) {
  const auto with = [](const std::string& part) {
    return message_of([&] {
      TextTokenizer::from_json("{" + part +
                               R"(, "model": {"type": "WordLevel", "unk_token": "u", "vocab": {"u": 0}}})");
    });
  };
  EXPECT_TRUE(contains(with(R"("normalizer": {"type": "Odd"})"), "normalizer: \"Odd\" is not known, expected Bert"));
  EXPECT_TRUE(contains(with(R"("pre_tokenizer": {"type": "Odd"})"), "pre_tokenizer: \"Odd\" is not known"));
  EXPECT_TRUE(contains(with(R"("post_processor": {"type": "Odd"})"), "post_processor: \"Odd\" is not known"));
  EXPECT_TRUE(contains(with(R"("decoder": {"type": "CTC"})"), "decoder: \"CTC\" is not known, expected BPEDecoder"));
  EXPECT_TRUE(contains(with(R"("normalizer": 3)"), "normalizer is number, expected an object"));
  EXPECT_TRUE(contains(with(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"})"),
                       "cannot be read"));
  EXPECT_TRUE(contains(message_of([] { TextTokenizer::from_json(R"({"model": {"type": "Odd"}})"); }),
                       "\"Odd\" is not known, expected BPE, Unigram, WordLevel or WordPiece"));
  EXPECT_TRUE(contains(message_of([] { TextTokenizer::from_json("[]"); }), "expected an object"));
}

TEST(TextTokenizer, HostileFilesAreRefused) {
  const auto of = [](const std::string& model) {
    return message_of([&] { TextTokenizer::from_json("{\"model\": " + model + "}"); });
  };
  EXPECT_TRUE(contains(of(R"({"type": "WordLevel", "vocab": {"a": 4294967295}})"), "an id is 4294967295"));
  EXPECT_TRUE(contains(of(R"({"type": "WordLevel", "vocab": {"a": -1}})"), "an id is -1"));
  EXPECT_TRUE(contains(of(R"({"type": "WordLevel", "vocab": {"a": 0, "b": 0}})"), "have the same id 0"));
  EXPECT_TRUE(contains(of(R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]})"), "\"b\" of merge 0 is not in"));
  EXPECT_TRUE(contains(of(R"({"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]})"), "expected two tokens"));
  EXPECT_TRUE(contains(of(R"({"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.1})"), "dropout is 0.1"));
  EXPECT_TRUE(contains(of(R"({"type": "Unigram", "unk_id": 1, "vocab": [["a", 0]]})"), "unk_id is 1"));
  EXPECT_TRUE(contains(of(R"({"type": "Unigram", "vocab": [["a"]]})"), "expected a text and a score"));
  for (const char* map : {"AAAA", "BAAAAA==", "BAAAAP////8=", "!"}) {
    const std::string json = std::string(R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": ")") + map +
                             R"("}, "model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}}})";
    message_of([&] { TextTokenizer::from_json(json).encode("text \xC3\xA9"); });  // refused or harmless
  }
}

TEST(TextTokenizer, DirectoriesAreReadAndWritten) {
  TemporaryDirectory directory;
  EXPECT_FALSE(TextTokenizer::is_in(directory.path()));
  EXPECT_TRUE(contains(message_of([&] { TextTokenizer::load(directory.path()); }), "has no tokenizer"));
  write_bytes(directory / "tokenizer.json", bert_json());
  write_bytes(
      directory / "tokenizer_config.json",
      R"({"cls_token": "[CLS]", "sep_token": {"content": "[SEP]"}, "model_max_length": 512, "pad_token": null})");
  write_bytes(directory / "special_tokens_map.json", R"({"pad_token": "[PAD]"})");
  EXPECT_TRUE(TextTokenizer::is_in(directory.path()));
  const TextTokenizer tokenizer = TextTokenizer::load(directory.path());
  EXPECT_EQ(tokenizer.cls_id(), 2);
  EXPECT_EQ(tokenizer.sep_id(), 3);
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_EQ(tokenizer.bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer.max_length(), 512);
  TemporaryDirectory copy;
  tokenizer.save(copy.path());
  EXPECT_EQ(copy.listing(), directory.listing());
  for (const std::string& name : copy.listing()) EXPECT_EQ(read_bytes(copy / name), read_bytes(directory / name));
}

TEST(TextTokenizer, OldVocabulariesAreConverted) {
  TemporaryDirectory directory;
  write_bytes(directory / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nPlay\n##ing\n");
  write_bytes(directory / "tokenizer_config.json", R"({"do_lower_case": false, "model_max_length": 1e30})");
  const TextTokenizer tokenizer = TextTokenizer::load(directory.path());
  EXPECT_EQ(tokenizer.encode("the Playing [MASK]"), (Ids{2, 5, 6, 7, 4, 3}));
  EXPECT_EQ(tokenizer.mask_id(), 4);
  EXPECT_EQ(tokenizer.max_length(), std::nullopt);
  TemporaryDirectory copy;
  tokenizer.save(copy.path());
  EXPECT_EQ(TextTokenizer::load(copy.path()).encode("the Playing"), tokenizer.encode("the Playing"));

  TemporaryDirectory gpt;
  write_bytes(gpt / "vocab.json", R"({"a": 0, "b": 1, "Ġ": 2, "ab": 3, "<|endoftext|>": 4})");
  write_bytes(gpt / "merges.txt", "#version: 0.2\na b\n");
  const TextTokenizer gpt2 = TextTokenizer::load(gpt.path());
  EXPECT_EQ(gpt2.encode("ab ab<|endoftext|>"), (Ids{3, 2, 3, 4}));
  EXPECT_EQ(gpt2.eos_id(), 4);
}

TEST(TextTokenizer, ThreadsShareIt) {
  const TextTokenizer tokenizer = llama();
  const Ids expected = tokenizer.encode("ab ab aab xé");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t n = 0; n < wrong.size(); ++n) {
    threads.emplace_back([&, n] {
      for (int k = 0; k < 200; ++k) wrong[n] += tokenizer.encode("ab ab aab xé") != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace headway
