// XXH64 against the values of its specification's reference implementation.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/checksum.h"

namespace {

using headway::internal::xxh64;
using headway::internal::xxh64_text;

TEST(BaseChecksum, ValuesOfTheReference) {
  EXPECT_EQ(xxh64_text(""), "ef46db3751d8e999");
  EXPECT_EQ(xxh64_text("a"), "d24ec4f1a98c6e5b");
  EXPECT_EQ(xxh64_text("abc"), "44bc2cf5ad770999");
  EXPECT_EQ(xxh64_text("The quick brown fox jumps over the lazy dog"), "0b242d361fda71bc");
}

TEST(BaseChecksum, EveryBitCounts) {
  std::string bytes;
  for (int i = 0; i < 111; ++i) bytes += static_cast<char>(i * 37);
  std::set<std::uint64_t> seen = {xxh64(bytes), xxh64(bytes + '\0')};
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    seen.insert(xxh64(changed));
  }
  EXPECT_EQ(seen.size(), bytes.size() * 8 + 2);
}

}  // namespace
