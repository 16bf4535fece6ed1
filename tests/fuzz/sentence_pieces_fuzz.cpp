// Feeds bytes to the reader of SentencePiece models. What it accepts must encode any text to pieces of UTF-8 and decode
// them; what it does not must be an Error.
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "headway/error.h"
#include "headway/tokenizer.h"
#include "input_file.h"

namespace {

using headway_fuzz::require;

void use(const headway::SentencePieces& pieces, std::string_view text) {
  try {
    const std::vector<std::string> encoded = pieces.encode(text);
    for (const std::string& piece : encoded) require(!piece.empty() && headway::internal::is_utf8(piece));
    require(headway::internal::is_utf8(pieces.decode(encoded)));
  } catch (const headway::Error&) {
    // a rule that is too long, or a text that is a control piece
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static const headway_fuzz::InputDirectory directory;
  try {
    const auto pieces = headway::SentencePieces::load(directory.write("pieces.spm", input, size));
    require(pieces.size() > 0);
    std::string all;
    for (std::int64_t id = 0; id < pieces.size(); ++id) all += pieces.piece(id);
    use(pieces, all);
    use(pieces, "A few w\xC3\xB6rds  aaaaab, e\xCC\x81 \xE4\xB8\xAD\xE6\x96\x87 <s> 12\t");
    use(pieces, {reinterpret_cast<const char*>(input), size});
  } catch (const headway::Error&) {
    // what a file says is refused by name
  }
  return 0;
}
