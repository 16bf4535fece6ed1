// Feeds bytes to the readers of a tokenizer's JSON files, beside pieces that are whole: up to the first zero byte they
// are vocab.json, after it tokenizer_config.json. What is accepted must encode and decode.
#include <algorithm>
#include <vector>

#include "../support/piece_file.h"
#include "headway/error.h"
#include "headway/tokenizer.h"
#include "input_file.h"

namespace {

using headway_fuzz::InputDirectory;

// A directory with source.spm and target.spm that have the pieces of the seeds.
const InputDirectory& directory_with_pieces() {
  static const InputDirectory directory;
  static const bool written = [] {
    headway_test::PieceFile file;
    file.pieces.insert(file.pieces.end(), {{"</s>", 0, headway_test::kControlPiece},
                                           {"\xE2\x96\x81"
                                            "a",
                                            -2},
                                           {"\xE2\x96\x81"
                                            "few",
                                            -3},
                                           {"w", -3},
                                           {"ord", -4},
                                           {"s", -3}});
    const std::string bytes = file.bytes();
    for (const char* name : {"source.spm", "target.spm"}) {
      directory.write(name, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    }
    return true;
  }();
  (void)written;
  return directory;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using headway_fuzz::require;
  const InputDirectory& directory = directory_with_pieces();
  const std::uint8_t* end = std::find(input, input + size, 0);
  const std::size_t first = static_cast<std::size_t>(end - input);
  directory.write("vocab.json", input, first);
  std::filesystem::remove(directory.path() / "tokenizer_config.json");
  if (first < size) directory.write("tokenizer_config.json", end + 1, size - first - 1);
  try {
    const headway::TranslationTokenizer tokenizer = headway::TranslationTokenizer::load(directory.path());
    require(tokenizer.size() > 0);
    for (const std::int64_t id : {tokenizer.eos_id(), tokenizer.unk_id(), tokenizer.pad_id()}) {
      require(id >= 0 && id < tokenizer.size());
    }
    std::vector<std::int64_t> ids = tokenizer.encode_source("a few words of text");
    for (const std::int64_t id : ids) require(id >= 0 && id < tokenizer.size());
    for (std::int64_t id = 0; id < tokenizer.size(); ++id) ids.push_back(id);
    tokenizer.decode_target(ids);
  } catch (const headway::Error&) {
    // what a file says is refused by name
  }
  return 0;
}
