// Tokenizers behind a C interface, for tokenizer_bench.py.
#include <chrono>
#include <cstdint>
#include <exception>
#include <string_view>

#include "headway/text_tokenizer.h"

#define HEADWAY_C extern "C" __attribute__((visibility("default")))

// A tokenizer of a directory, or null.
HEADWAY_C void* tokenizer_load(const char* directory) {
  try {
    return new headway::TextTokenizer(headway::TextTokenizer::load(directory));
  } catch (const std::exception&) {
    return nullptr;
  }
}

HEADWAY_C void tokenizer_free(void* tokenizer) { delete static_cast<headway::TextTokenizer*>(tokenizer); }

// Seconds for all texts, text n being bytes [ends[n - 1], ends[n]); with offsets or ids alone. `tokens` gets their
// number.
HEADWAY_C double tokenizer_encode(const void* tokenizer, const char* bytes, const std::int64_t* ends,
                                  std::int64_t count, int with_offsets, std::int64_t* tokens) {
  const auto& use = *static_cast<const headway::TextTokenizer*>(tokenizer);
  const auto start = std::chrono::steady_clock::now();
  *tokens = 0;
  std::int64_t begin = 0;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::string_view text(bytes + begin, static_cast<std::size_t>(ends[n] - begin));
    *tokens += static_cast<std::int64_t>(with_offsets ? use.tokenize(text).ids.size() : use.encode(text).size());
    begin = ends[n];
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Seconds for decoding ids, `rounds` times.
HEADWAY_C double tokenizer_decode(const void* tokenizer, const std::int64_t* ids, std::int64_t count, int rounds) {
  const auto& use = *static_cast<const headway::TextTokenizer*>(tokenizer);
  const std::vector<std::int64_t> all(ids, ids + count);
  const auto start = std::chrono::steady_clock::now();
  std::size_t bytes = 0;
  for (int round = 0; round < rounds; ++round) bytes += use.decode(all).size();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return bytes > 0 ? seconds : -1;
}
