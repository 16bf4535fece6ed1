// Feeds bytes to the readers of a tokenizer's JSON files, beside pieces that are whole: up to the first zero byte they
// are vocab.json, after it tokenizer_config.json. What is accepted must encode and decode.
#include <algorithm>
#include <vector>

#include "headway/error.h"
#include "headway/tokenizer.h"
#include "input_file.h"

namespace {

using headway_fuzz::InputDirectory;

// A directory with source.spm and target.spm, learned from a few sentences.
const InputDirectory& directory_with_pieces() {
  static const InputDirectory directory;
  static const bool written = [] {
    std::vector<std::string> sentences;
    for (int n = 0; n < 60; ++n) sentences.push_back("a few words of text " + std::to_string(n) + " and more");
    for (const char* name : {"source.spm", "target.spm"}) {
      headway::SentencePieces::train(sentences, directory.path() / name, {.vocab_size = 30, .byte_fallback = false});
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
    for (const std::int64_t id : tokenizer.encode_source("words of text")) require(id >= 0 && id < tokenizer.size());
  } catch (const headway::Error&) {
    // what a file says is refused by name
  }
  return 0;
}
