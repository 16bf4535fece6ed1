// Feeds bytes to the reader of sentence pairs, as a plain file and as a .zip. What it gives is UTF-8 and can be cleaned
// and split; what it refuses must be an Error.
#include <vector>

#include "base/utf8.h"
#include "headway/error.h"
#include "headway/text_pairs.h"
#include "input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using headway_fuzz::require;
  static const headway_fuzz::InputDirectory directory;
  for (const char* name : {"pairs.tsv", "pairs.zip"}) {
    std::vector<headway::TextPair> pairs;
    try {
      pairs = headway::read_pairs(directory.write(name, input, size));
    } catch (const headway::Error&) {
      continue;
    }
    for (const headway::TextPair& pair : pairs) {
      require(headway::internal::is_utf8(pair.source) && headway::internal::is_utf8(pair.target));
      require(pair.source.find('\t') == std::string::npos && pair.target.find('\t') == std::string::npos);
    }
    const std::size_t read = pairs.size();
    const headway::CleaningReport report = headway::clean_pairs(pairs);
    require(static_cast<std::size_t>(report.kept) == pairs.size() && pairs.size() <= read);
    const headway::SplitPairs parts = headway::split_pairs(pairs, 3);
    require(parts.training.size() + parts.validation.size() + parts.test.size() == pairs.size());
  }
  return 0;
}
