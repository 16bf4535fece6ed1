// Reading, cleaning and splitting sentence pairs.
#include "headway/text_pairs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zip.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "support/files.h"
#include "support/message_of.h"

namespace headway {
namespace {

using headway_test::contains;
using headway_test::message_of;
using headway_test::TemporaryDirectory;
using headway_test::write_bytes;
using Pairs = std::vector<TextPair>;

void write_zip(const std::filesystem::path& file, const std::vector<std::pair<std::string, std::string>>& entries) {
  zip_t* const archive = zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  ASSERT_NE(archive, nullptr);
  for (const auto& [name, bytes] : entries) {
    zip_source_t* const source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    ASSERT_GE(zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8), 0);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += "0123456789abcdef"[value >> 4];
    text += "0123456789abcdef"[value & 15];
  }
  return text;
}

TEST(TextPairs, TabSeparatedLines) {
  TemporaryDirectory directory;
  write_bytes(directory / "pairs.tsv", "\xEF\xBB\xBFone\teins\r\n\ntwo\tzwei\tfield three\nthree\t\nfour\tvier");
  const Pairs expected = {{"one", "eins"}, {"two", "zwei"}, {"three", ""}, {"four", "vier"}};
  EXPECT_EQ(read_pairs(directory / "pairs.tsv"), expected);
}

TEST(TextPairs, LinesLongerThanTheBuffer) {
  TemporaryDirectory directory;
  const std::string long_source(200'000, 'a'), long_target(65'536, 'b');
  write_bytes(directory / "pairs.tsv", long_source + '\t' + long_target + "\nx\ty\n");
  const Pairs expected = {{long_source, long_target}, {"x", "y"}};
  EXPECT_EQ(read_pairs(directory / "pairs.tsv"), expected);
}

TEST(TextPairs, Zip) {
  TemporaryDirectory directory;
  write_zip(directory / "pairs.zip", {{"_about.txt", "no tab here"}, {"deep/pairs.txt", "one\teins\ntwo\tzwei\n"}});
  EXPECT_EQ(read_pairs(directory / "pairs.zip"), (Pairs{{"one", "eins"}, {"two", "zwei"}}));
}

// A text of one line shrinks to a thousandth of its size; it is refused before it fills the memory.
TEST(TextPairs, ZipsThatGrow) {
  TemporaryDirectory directory;
  std::string lines;
  while (lines.size() < (std::size_t{24} << 20)) lines += "one two three\teins zwei drei\n";
  write_zip(directory / "bomb.zip", {{"pairs.tsv", lines}});
  ASSERT_LT(std::filesystem::file_size(directory / "bomb.zip"), 1u << 18);
  std::int64_t read = 0;
  const auto count = [&read](TextPair&&) { ++read; };
  EXPECT_EQ(message_of([&] { headway::for_each_pair(directory / "bomb.zip", count); }),
            (directory / "bomb.zip").string() +
                ": pairs.tsv unpacks to more than 16 MiB, which an archive of this size may not; where it is right, "
                "unpack it first");
  EXPECT_EQ(read, 0);  // the archive says how large the text is
  lines.resize(std::size_t{12} << 20);
  lines.resize(lines.rfind('\n') + 1);
  write_zip(directory / "repeats.zip", {{"pairs.tsv", lines}});
  headway::for_each_pair(directory / "repeats.zip", count);
  EXPECT_GT(read, 100'000);
}

TEST(TextPairs, PipesOnlyWhereTextsAre) {
  TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "pairs.zip").c_str(), 0600), 0);
  EXPECT_PRED2(contains, message_of([&] { read_pairs(directory / "pairs.zip"); }), "is not a regular file");
  ASSERT_EQ(::mkfifo((directory / "pairs.tsv").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(directory / "pairs.tsv") << "one\teins\n"; });
  EXPECT_EQ(read_pairs(directory / "pairs.tsv"), (Pairs{{"one", "eins"}}));
  writer.join();
  std::filesystem::create_symlink("/dev/zero", directory / "endless.tsv");
  EXPECT_PRED2(contains, message_of([&] { read_pairs(directory / "endless.tsv"); }), "line 1: is longer than 16 MiB");
}

TEST(TextPairs, ParallelFiles) {
  TemporaryDirectory directory;
  write_bytes(directory / "a.txt", "one\n\nthree\ttabs stay\n");
  write_bytes(directory / "b.txt", "eins\nzwei\ndrei");
  const Pairs expected = {{"one", "eins"}, {"", "zwei"}, {"three\ttabs stay", "drei"}};
  EXPECT_EQ(read_pairs(directory / "a.txt", directory / "b.txt"), expected);
  write_bytes(directory / "b.txt", "eins\nzwei\n");
  const std::string message = message_of([&] { read_pairs(directory / "a.txt", directory / "b.txt"); });
  EXPECT_PRED2(contains, message, "b.txt ends after 2 lines");
}

TEST(TextPairs, StreamsUntilTheBodyThrows) {
  TemporaryDirectory directory;
  write_bytes(directory / "pairs.tsv", "one\teins\ntwo\tzwei\nno tab\n");
  int count = 0;
  const auto body = [&count](TextPair&&) {
    if (++count == 2) throw 7;
  };
  EXPECT_THROW(for_each_pair(directory / "pairs.tsv", body), int);
}

TEST(TextPairs, ErrorsNameFileAndLine) {
  TemporaryDirectory directory;
  const auto message = [&](const std::string& name) { return message_of([&] { read_pairs(directory / name); }); };
  EXPECT_PRED2(contains, message("missing.tsv"), "missing.tsv: no such file");
  EXPECT_PRED2(contains, message(""), "is a directory");
  write_bytes(directory / "pairs.tsv", "one\teins\ntwo zwei\n");
  EXPECT_PRED2(contains, message("pairs.tsv"), "pairs.tsv: line 2: has no tab");
  write_bytes(directory / "pairs.tsv", "one\teins\n\ntwo\tzw\xFF\n");
  EXPECT_PRED2(contains, message("pairs.tsv"), "pairs.tsv: line 3: is not UTF-8");
  write_bytes(directory / "pairs.tsv", std::string(17 << 20, 'a'));
  EXPECT_PRED2(contains, message("pairs.tsv"), "line 1: is longer than 16 MiB");
  write_bytes(directory / "pairs.zip", "PK\3\4 but no archive");
  EXPECT_PRED2(contains, message("pairs.zip"), "cannot be opened as a zip archive");
  write_zip(directory / "pairs.zip", {{"readme.md", "x"}});
  EXPECT_PRED2(contains, message("pairs.zip"), "holds no .txt or .tsv file");
  write_zip(directory / "pairs.zip", {{"a.txt", "x"}, {"b.tsv", "y"}});
  EXPECT_PRED2(contains, message("pairs.zip"), "holds 2 text files (a.txt, b.tsv)");
}

TEST(TextPairs, DamagedZip) {
  TemporaryDirectory directory;
  std::string lines;
  for (int n = 0; n < 5000; ++n) lines += std::to_string(n * 7919) + "\t" + std::to_string(n * 104729) + "\n";
  write_zip(directory / "pairs.zip", {{"pairs.txt", lines}});
  std::string bytes = headway_test::read_bytes(directory / "pairs.zip");
  for (std::size_t at = 200; at < 400; ++at) bytes[at] = static_cast<char>(~bytes[at]);
  write_bytes(directory / "pairs.zip", bytes);
  EXPECT_NE(message_of([&] { read_pairs(directory / "pairs.zip"); }), "no error");
}

TEST(TextPairs, Cleaning) {
  Pairs pairs = {{" one \x01\t two  ", "eins\x7F zwei"},
                 {"one two", "eins zwei"},
                 {"", "x"},
                 {" \x02 ", "x"},
                 {"x", "\xC2\xA0"},
                 {std::string(11, 'a'), "b"},
                 {"ü", std::string(21, 'a')},
                 {"soft\xC2\xAD hyphen\xC2\xA0stays",
                  "c\xC2\x85"
                  "d"},
                 {std::string(401, 'a'), std::string(401, 'b')}};
  const CleaningReport report = clean_pairs(pairs);
  const Pairs expected = {
      {"one two", "eins zwei"}, {std::string(11, 'a'), "b"}, {"soft\xC2\xAD hyphen\xC2\xA0stays", "c d"}};
  EXPECT_EQ(pairs, expected);
  EXPECT_EQ(report.kept, 3);
  EXPECT_EQ(report.duplicates, 1);
  EXPECT_EQ(report.empty, 3);
  EXPECT_EQ(report.ratio, 1);
  EXPECT_EQ(report.too_long, 1);
}

TEST(TextPairs, CleaningOptions) {
  Pairs pairs = {{"ääää", "aaaa"}, {"äääää", "b"}};
  EXPECT_EQ(clean_pairs(pairs, {.max_characters = 4}).too_long, 1);
  EXPECT_EQ(pairs.size(), 1u);
  EXPECT_PRED2(contains, message_of([&] { clean_pairs(pairs, {.max_characters = 0}); }), "max_characters is 0");
  EXPECT_PRED2(contains, message_of([&] { clean_pairs(pairs, {.max_ratio = 0.5}); }), "max_ratio is 0.5");
}

TEST(TextPairs, SplitByComponents) {
  // Chains: a1-b1, a1-b2, a2-b2 are one component; a sentence on the other side joins too.
  Pairs pairs;
  for (int n = 0; n < 2000; ++n) {
    const std::string a = "a" + std::to_string(n), b = "b" + std::to_string(n);
    pairs.push_back({a, b});
    if (n % 3 == 0) pairs.push_back({a, "b" + std::to_string(n + 1)});
    if (n % 7 == 0) pairs.push_back({"c" + std::to_string(n), a});
  }
  const SplitPairs parts = split_pairs(pairs, 5);
  EXPECT_EQ(parts.training.size() + parts.validation.size() + parts.test.size(), pairs.size());
  EXPECT_GT(parts.components, 1000);
  EXPECT_LT(parts.components, 2000);
  std::map<std::string, int> part_of;
  const Pairs* const all[] = {&parts.training, &parts.validation, &parts.test};
  for (int part = 0; part < 3; ++part) {
    EXPECT_GT(all[part]->size(), 300u);
    for (const TextPair& pair : *all[part]) {
      for (const std::string& sentence : {pair.source, pair.target}) {
        EXPECT_EQ(part_of.emplace(sentence, part).first->second, part) << sentence;
      }
    }
  }
}

TEST(TextPairs, SplitFollowsTheHash) {
  // The remainders are those of Python's hashlib; every component here is one pair.
  Pairs pairs;
  for (int n = 0; n < 120; ++n) pairs.push_back({"s" + std::to_string(n), "t" + std::to_string(n)});
  const SplitPairs parts = split_pairs(pairs);
  EXPECT_EQ(parts.components, 120);
  EXPECT_EQ(parts.test, (Pairs{{"s66", "t66"}, {"s71", "t71"}}));
  EXPECT_EQ(parts.validation, (Pairs{{"s22", "t22"}, {"s42", "t42"}, {"s58", "t58"}, {"s109", "t109"}}));
  // The alphabetically first source decides, by bytes: upper case before lower case.
  const SplitPairs joined = split_pairs({{"zebra", "x"}, {"Aa62", "x"}});
  EXPECT_EQ(joined.test.size(), 2u);
  EXPECT_PRED2(contains, message_of([&] { split_pairs(pairs, 1); }), "modulus is 1");
  EXPECT_EQ(split_pairs({}).components, 0);
}

TEST(TextPairs, DistinctSources) {
  const Pairs pairs = {{"a", "x"}, {"b", "x"}, {"a", "y"}};
  EXPECT_EQ(distinct_sources(pairs), (Pairs{{"a", "x"}, {"b", "x"}}));
  EXPECT_EQ(distinct_sources(pairs, true), (Pairs{{"x", "a"}, {"y", "a"}}));
}

TEST(TextPairs, Sha256) {
  EXPECT_EQ(hex(internal::sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(internal::sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(internal::sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(internal::sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace headway
