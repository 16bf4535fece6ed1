// Our reader of SentencePiece models against the library itself, and files that the library must not see.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <limits>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"
#include "headway/text_tokenizer.h"
#include "headway/tokenizer.h"
#include "support/files.h"
#include "support/fixtures.h"
#include "support/message_of.h"
#include "support/piece_file.h"

namespace headway {
namespace {

using headway_test::bytes_field;
using headway_test::character_map_of;
using headway_test::contains;
using headway_test::message_of;
using headway_test::number_field;
using headway_test::PieceFile;
using headway_test::TemporaryDirectory;
using headway_test::write_bytes;
using Texts = std::vector<std::string>;
using TrainingArguments = std::unordered_map<std::string, std::string>;

std::string random_text(std::mt19937& random, const Texts& words) {
  std::string text;
  const std::size_t parts = random() % 12;
  for (std::size_t n = 0; n < parts; ++n) {
    switch (random() % 8) {
      case 0:
        text += words[random() % words.size()];
        break;
      case 1:
        text += " ";
        break;
      case 2:
        text += static_cast<char>(random() % 128);
        break;
      case 3:  // combining marks, spaces and signs that normalisation changes
        internal::append_utf8(
            text,
            U"\u0301\u0308\u00A0\u3000\u200B\u2581\uFB01\u00BD\uFDFA\u1E9B\u0130\uFF21\u2047\uFFFD"[random() % 14]);
        break;
      case 4:
        internal::append_utf8(text, static_cast<char32_t>(0x80 + random() % 0x780));
        break;
      case 5:
        internal::append_utf8(text, static_cast<char32_t>(0x4E00 + random() % 0x5000));
        break;
      case 6: {
        const auto character = static_cast<char32_t>(random() % 0x110000);
        internal::append_utf8(text, character >= 0xD800 && character < 0xE000 ? U'x' : character);
        break;
      }
      default:
        text += words[random() % words.size()] + (random() % 3 == 0 ? "  " : " ");
    }
  }
  return text;
}

Texts training_words() {
  return {"der",      "Hund",    "sieht", "die", "Katze", "Straße", "Äpfel", "the",    "house",
          "sees",     "running", "runs",  "run", "<s>",   "</s>",   "<unk>", "<0x41>", "<sym>",
          "<sym>bol", "aa",      "aaaa",  "12",  "3.5",   "don't",  "中文",  "语言",   "\xE2\x96\x81"};
}

// All that a text can become must be what the library gives.
class Comparison {
 public:
  explicit Comparison(const std::string& bytes) : pieces_(load(bytes)) {
    EXPECT_TRUE(library_.LoadFromSerializedProto(bytes).ok());
    EXPECT_EQ(pieces_.size(), library_.GetPieceSize());
    for (int id = 0; id < library_.GetPieceSize(); ++id) EXPECT_EQ(pieces_.piece(id), library_.IdToPiece(id));
  }

  void compare(const std::string& text) const {
    Texts expected;
    ASSERT_TRUE(library_.Encode(text, &expected).ok()) << text;
    const Texts found = pieces_.encode(text);
    ASSERT_EQ(found, expected) << testing::PrintToString(text);
    compare_decoded(found);
  }

  void compare_decoded(const Texts& pieces) const {
    std::string expected;
    ASSERT_TRUE(library_.Decode(pieces, &expected).ok());
    ASSERT_EQ(pieces_.decode(pieces), expected) << testing::PrintToString(pieces);
  }

  void compare_random(int count, unsigned seed) const {
    std::mt19937 random(seed);
    const Texts words = training_words();
    for (const char* text : {"", " ", "  \t ", "\n", "a", " a ", "\xE2\x96\x81", "\xE2\x96\x81 \xE2\x96\x81"})
      compare(text);
    for (int n = 0; n < count && !testing::Test::HasFatalFailure(); ++n) {
      compare(random_text(random, words));
      Texts pieces;
      for (std::size_t i = random() % 8; i-- > 0;) {
        const auto id = static_cast<int>(random() % static_cast<unsigned>(library_.GetPieceSize()));
        pieces.push_back(random() % 6 == 0 ? random_text(random, words) : library_.IdToPiece(id));
      }
      compare_decoded(pieces);
    }
  }

 private:
  static SentencePieces load(const std::string& bytes) {
    TemporaryDirectory directory;
    write_bytes(directory / "p.spm", bytes);
    return SentencePieces::load(directory / "p.spm");
  }

  SentencePieces pieces_;
  sentencepiece::SentencePieceProcessor library_;
};

class WordSentences : public sentencepiece::SentenceIterator {
 public:
  WordSentences() {
    std::mt19937 random(7);
    const Texts words = training_words();
    for (int n = 0; n < 300; ++n) {
      std::string sentence;
      for (std::size_t i = 2 + random() % 6; i-- > 0;) sentence += words[random() % words.size()] + " ";
      sentences_.push_back(sentence);
    }
  }
  bool done() const override { return next_ == sentences_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return sentences_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  Texts sentences_;
  std::size_t next_ = 0;
};

std::string trained_bytes(TrainingArguments arguments) {
  arguments.insert({{"vocab_size", "120"}, {"hard_vocab_limit", "false"}, {"minloglevel", "3"}, {"num_threads", "1"}});
  WordSentences sentences;
  std::string bytes;
  const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &sentences, &bytes);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return bytes;
}

TEST(SentencePieceModels, EncodeAndDecodeAsTheLibrary) {
  const std::vector<TrainingArguments> all = {
      {{"model_type", "unigram"}},
      {{"model_type", "bpe"}},
      {{"model_type", "unigram"}, {"byte_fallback", "true"}, {"vocab_size", "400"}},
      {{"model_type", "bpe"},
       {"byte_fallback", "true"},
       {"vocab_size", "400"},
       {"normalization_rule_name", "identity"}},
      {{"model_type", "unigram"}, {"user_defined_symbols", "<sym>,aa,aaa,running,中,<sym>b"}},
      {{"model_type", "bpe"}, {"user_defined_symbols", "<sym>,aa,aaa,running,中,<sym>b"}},
      {{"model_type", "unigram"}, {"control_symbols", "<ctl>"}, {"normalization_rule_name", "nmt_nfkc_cf"}},
      {{"model_type", "bpe"}, {"normalization_rule_name", "nfkc"}, {"remove_extra_whitespaces", "false"}},
      {{"model_type", "unigram"}, {"treat_whitespace_as_suffix", "true"}},
      {{"model_type", "unigram"}, {"add_dummy_prefix", "false"}, {"character_coverage", "0.98"}},
      {{"model_type", "bpe"}, {"add_dummy_prefix", "false"}, {"remove_extra_whitespaces", "false"}},
      {{"model_type", "char"}, {"user_defined_symbols", "<sym>"}},
      {{"model_type", "word"}},
      {{"model_type", "unigram"},
       {"unk_surface", "??"},
       {"unk_piece", "[UNK]"},
       {"normalization_rule_name", "nfkc_cf"}},
  };
  unsigned seed = 1;
  for (const TrainingArguments& arguments : all) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    Comparison(trained_bytes(arguments)).compare_random(1500, seed++);
    if (HasFatalFailure()) return;
  }
}

TEST(SentencePieceModels, TheShippedModelAsTheLibrary) {
  const std::filesystem::path model = std::filesystem::path(headway_test::fixture_directory()) / "../../models/en-de";
  if (!std::filesystem::exists(model / "source.spm")) GTEST_SKIP() << "the model is not there";
  const Comparison comparison(headway_test::read_bytes(model / "source.spm"));
  comparison.compare_random(4000, 99);
  for (const char* text :
       {"The quick brown fox jumps over the lazy dog.", "Wie geht es Ihnen? – Danke, gut!",
        "I'd like to know   what \"Größe\" means … 3½ m²", "Ich weiß nicht, 🤯 ob e\xCC\x81 ﬁndet."}) {
    comparison.compare(text);
  }
}

// Unused pieces, equal scores, symbols inside one another, pieces that no training gives.
TEST(SentencePieceModels, MadeUpPiecesAsTheLibrary) {
  std::mt19937 random(3);
  for (int n = 0; n < 200 && !HasFatalFailure(); ++n) {
    PieceFile file;
    file.pieces.resize(1);
    file.pieces.push_back({"</s>", 0, headway_test::kControlPiece});
    const bool bpe = n % 2 == 0;
    std::vector<std::string> seen = {"<unk>", "</s>"};
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (std::size_t length = i < 4 ? 1 : 1 + random() % 6; length-- > 0;) {
        const char* parts[] = {"a", "b", "\xC3\xA4", "\xE2\x96\x81"};
        text += parts[i < 4 ? static_cast<std::size_t>(i) : random() % 4];
      }
      if (std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
      seen.push_back(text);
      const int kinds[] = {1, 1, 1, 1, 1, 1, 4, 5};
      const float score = static_cast<float>(random() % 5) * (random() % 2 == 0 ? -0.5f : -0.37f);
      file.pieces.push_back({text, score, kinds[random() % 8]});
    }
    file.training = number_field(3, bpe ? 2 : 1);
    const Comparison comparison(file.bytes());
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (std::size_t length = random() % 40; length-- > 0;) {
        const char* parts[] = {"a", "b", "\xC3\xA4", " ", "a", "b", "c", "\xE2\x96\x81"};
        text += parts[random() % 8];
      }
      comparison.compare(text);
    }
  }
}

TEST(SentencePieceModels, DenormalizersAsTheLibrary) {
  // Rules: "a" becomes "bc", "b" becomes "".
  constexpr std::uint32_t kText = 1u << 31;
  std::vector<std::uint32_t> units(256, 0);
  units[0] = 128u << 10;                                      // children at 128 ^ label
  units[128 ^ 'a'] = (128 ^ 'a' ^ 8u) << 10 | 1u << 8 | 'a';  // its text at unit 8
  units[128 ^ 'b'] = (128 ^ 'b' ^ 9u) << 10 | 1u << 8 | 'b';
  units[8] = kText | 0;
  units[9] = kText | 2;
  PieceFile file;
  file.pieces.insert(file.pieces.end(), {{"b", -3},
                                         {"c", -4},
                                         {"\xE2\x96\x81"
                                          "a",
                                          -1}});
  const std::string map = bytes_field(2, character_map_of(units, std::string("bc\0", 3)));
  file.denormalizer = map + number_field(3, 0) + number_field(4, 0) + number_field(5, 0);
  const Comparison decoded(file.bytes());
  file.denormalizer.clear();
  file.normalizer = map;
  const Comparison encoded(file.bytes());
  for (const char* text : {"a", "ab", "ba", "b", "cab bac", "  a  b  c"}) {
    decoded.compare(text);
    encoded.compare(text);
  }
}

// What a file is refused for; "no error" where it loads and a text can be encoded.
std::string outcome(const std::string& bytes, const std::string& text = "aaaa a <unk> \xC3\xA4") {
  TemporaryDirectory directory;
  write_bytes(directory / "p.spm", bytes);
  return message_of([&] {
    const SentencePieces pieces = SentencePieces::load(directory / "p.spm");
    const Texts encoded = pieces.encode(text);
    for (const std::string& piece : encoded) EXPECT_TRUE(internal::is_utf8(piece));
    pieces.decode(encoded);
  });
}

TEST(SentencePieceModels, CharacterMapsThatReachOutside) {
  constexpr std::uint32_t kText = 1u << 31;
  const auto with_map = [](const std::string& map) {
    PieceFile file;
    file.character_map = map;
    return file.bytes();
  };
  // "a" has a text; its value is what `value` says.
  const auto with_value = [&](std::uint32_t value, const std::string& texts) {
    std::vector<std::uint32_t> units(256, 0);
    units[0] = 128u << 10;
    units[128 ^ 'a'] = (128 ^ 'a' ^ 8u) << 10 | 1u << 8 | 'a';
    units[8] = kText | value;
    return with_map(character_map_of(units, texts));
  };
  const std::string texts("a\0\xC3\xA4\0", 5);
  for (const std::uint32_t value : {0u, 2u, 3u, 4u, 5u, 6u, 1000u, 1u << 20, 0x7FFFFFFFu}) {
    EXPECT_EQ(outcome(with_value(value, texts)), "no error") << value;
  }
  EXPECT_PRED2(contains, outcome(with_value(0, "a")), "the last text of precompiled_charsmap has no end");
  EXPECT_PRED2(contains, outcome(with_value(0, std::string("\xFF\0", 2))), "is not UTF-8");
  EXPECT_PRED2(contains, outcome(with_value(0, std::string(5000, 'x') + '\0')), "has 5000 bytes, expected at most 256");
  // Children, or the unit of a text, that are not there.
  for (const std::uint32_t offset : {0u, 1u, 255u, 4096u, (1u << 21) - 1}) {
    for (const std::uint32_t flags : {0u, 1u << 8, 1u << 9, 3u << 8}) {
      std::vector<std::uint32_t> units(256, offset << 10 | flags);
      EXPECT_EQ(outcome(with_map(character_map_of(units, texts))), "no error");
      units[0] = 128u << 10;
      units[128 ^ 'a'] = offset << 10 | flags | 'a';
      EXPECT_EQ(outcome(with_map(character_map_of(units, texts))), "no error");
    }
  }
  // A node that is its own child: "a", "aa", "aaa" and so on.
  std::vector<std::uint32_t> units(256, 0);
  units[0] = 128u << 10;
  units[128 ^ 'a'] = static_cast<std::uint32_t>('a') << 10 | 'a';
  EXPECT_EQ(outcome(with_map(character_map_of(units, texts))), "no error");
  EXPECT_PRED2(contains, outcome(with_map(character_map_of(units, texts)), std::string(100'000, 'a')),
               "a rule of precompiled_charsmap has more than 256 bytes");
  units[128 ^ 'a'] |= 1u << 8;
  EXPECT_EQ(outcome(with_map(character_map_of(units, texts)), std::string(1000, 'a')), "no error");
  // Sizes that the blob does not have.
  EXPECT_PRED2(contains, outcome(with_map("abc")), "precompiled_charsmap has 3 bytes");
  EXPECT_PRED2(contains, outcome(with_map(std::string("\xFF\xFF\xFF\xFF") + "abcd")), "a trie of 4294967295 bytes");
  EXPECT_PRED2(contains, outcome(with_map(std::string("\x08\0\0\0abcd", 8))), "a trie of 8 bytes");
  EXPECT_PRED2(contains, outcome(with_map(std::string("\x03\0\0\0abcd", 8))), "a multiple of 4");
  EXPECT_EQ(outcome(with_map(std::string("\0\0\0\0", 4))), "no error");
}

TEST(SentencePieceModels, PiecesOfEveryLengthAndNesting) {
  PieceFile file;
  file.pieces.push_back({std::string(1024, 'b'), -1});
  EXPECT_EQ(outcome(file.bytes(), std::string(5000, 'b')), "no error");
  file.pieces.push_back({std::string(300'000, 'b'), -1});
  EXPECT_PRED2(contains, outcome(file.bytes()), "a piece has 300000 bytes, expected at most 1024");
  for (const std::uint64_t method : {1, 2, 4}) {
    PieceFile nested;
    nested.training = number_field(3, method);
    for (std::size_t length = 2; length < 500; ++length) {
      nested.pieces.push_back({std::string(length, 'a'), -1, headway_test::kUserPiece});
    }
    EXPECT_EQ(outcome(nested.bytes(), std::string(3000, 'a')), "no error") << method;
  }
  // Nodes of a trie whose children fit between no others.
  std::mt19937 random(5);
  PieceFile sparse;
  std::set<std::string> seen = {"<unk>", "a"};
  for (char32_t n = 0; n < 6000; ++n) {
    for (int child = 0; child < 20; ++child) {
      std::string text;
      internal::append_utf8(text, 0x4E00 + n);
      text += static_cast<char>(1 + random() % 127);
      if (seen.insert(text).second) sparse.pieces.push_back({text, -1});
    }
  }
  EXPECT_EQ(outcome(sparse.bytes()), "no error");
  PieceFile taken_apart;  // BPE pieces that must not be used, each made of the one before
  taken_apart.training = number_field(3, 2);
  for (std::size_t length = 2; length < 1000; ++length) {
    taken_apart.pieces.push_back({std::string(length, 'a'), static_cast<float>(length), headway_test::kUnusedPiece});
  }
  EXPECT_EQ(outcome(taken_apart.bytes(), std::string(3000, 'a')), "no error");
}

TEST(SentencePieceModels, ContentsThatDoNotFit) {
  const auto changed = [](auto change) {
    PieceFile file;
    change(file);
    return file.bytes();
  };
  EXPECT_EQ(outcome(changed([](PieceFile&) {})), "no error");
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  using File = PieceFile;
  const std::pair<std::string, std::string> bad[] = {
      {changed([&](File& f) { f.pieces[2].score = nan; }), "the score of the piece \"a\" is nan"},
      {changed([&](File& f) { f.pieces[2].score = -infinity; }), "the score of the piece \"a\" is -inf"},
      {changed([](File& f) { f.pieces[2].text = ""; }), "a piece is empty"},
      {changed([](File& f) { f.pieces[2].text = "\xFF"; }), "a piece is not UTF-8"},
      {changed([](File& f) {
         f.pieces.push_back({"a", -1});
       }),
       "the piece \"a\" is there twice"},
      {changed([](File& f) { f.pieces[0].kind = 1; }), "has no unknown piece"},
      {changed([](File& f) { f.pieces[1].kind = 2; }), "has two unknown pieces"},
      {changed([](File& f) { f.pieces.resize(1); }), "has no pieces of text"},
      {changed([](File& f) { f.pieces.clear(); }), "has no pieces"},
      {changed([](File& f) {
         f.pieces[2] = {"<0x41>", 0, 6};
       }),
       "without byte_fallback"},
      {changed([](File& f) { f.training = number_field(35, 1); }), "without a piece for each byte"},
      {changed([](File& f) { f.training = number_field(3, 9); }), "model_type is 9"},
      {changed([](File& f) { f.training = bytes_field(44, "\xFF"); }), "unk_surface is not UTF-8"},
      {changed([](File& f) { f.training = bytes_field(3, "x"); }), "field 3 has wire type 2"},
      {changed([](File&) {}) + "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", "it ends inside a field"},
      {changed([](File&) {}) + "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", "more than 64 bits"},
      {changed([](File&) {}) + "\x0B", "a field of wire type 3"},
      {changed([](File&) {}) + "\x0A", "it ends inside a field"},
  };
  for (const auto& [bytes, part] : bad) {
    EXPECT_PRED2(contains, outcome(bytes), part);
    EXPECT_PRED2(contains, outcome(bytes), "p.spm: ");
  }
  const std::string byte_piece = changed([](File& f) {
    f.training = number_field(35, 1);
    f.pieces[2] = {"<0x4g>", 0, 6};
  });
  EXPECT_PRED2(contains, outcome(byte_piece), "none of <0x00> to <0xFF>");
}

}  // namespace
}  // namespace headway
