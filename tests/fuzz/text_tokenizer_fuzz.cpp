// Feeds bytes to the readers of tokenizers: a tokenizer.json up to the first zero byte, and what follows as a text.
// Input that begins with a byte of 0x0A is a SentencePiece model. What is accepted must encode, and its ids must
// decode.
#include <algorithm>
#include <string_view>

#include "headway/error.h"
#include "headway/text_tokenizer.h"
#include "input_file.h"

namespace {

using headway_fuzz::InputDirectory;
using headway_fuzz::require;

void use(const headway::TextTokenizer& tokenizer, std::string_view text) {
  const headway::TokenizedText tokens = tokenizer.tokenize(text);
  require(tokenizer.encode(text) == tokens.ids);
  for (std::size_t n = 0; n < tokens.ids.size(); ++n) {
    require(tokens.ids[n] >= 0 && tokens.ids[n] < tokenizer.size());
    require(tokens.offsets[n].begin >= 0 && tokens.offsets[n].begin <= tokens.offsets[n].end);
  }
  const std::string whole = tokenizer.decode(tokens.ids, false);
  headway::StreamingDecoder decoder(tokenizer, false);
  std::string joined;
  for (const std::int64_t id : tokens.ids) joined += decoder.add(id);
  require(joined + decoder.finish() == whole);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  constexpr std::string_view kText = "A few w\xC3\xB6rds, e\xCC\x81 \xE4\xB8\xAD\xE6\x96\x87 <s> 12";
  const std::string_view bytes(reinterpret_cast<const char*>(input), size);
  try {
    if (bytes.starts_with('\n')) {
      static const InputDirectory directory;
      const char* name = size % 2 == 0 ? "spiece.model" : "tokenizer.model";
      std::filesystem::remove(directory.path() / "spiece.model");
      directory.write(name, input, size);
      use(headway::TextTokenizer::load(directory.path()), kText);
      return 0;
    }
    const std::size_t end = std::min(bytes.find('\0'), size);
    const headway::TextTokenizer tokenizer = headway::TextTokenizer::from_json(bytes.substr(0, end), "fuzz");
    use(tokenizer, kText);
    if (end < size) use(tokenizer, bytes.substr(end + 1));
  } catch (const headway::Error&) {
    // what a file says is refused by name
  }
  return 0;
}
