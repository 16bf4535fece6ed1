// Reading sentence pairs, line by line.
#include "base/check.h"
#include "base/utf8.h"
#include "headway/text_pairs.h"
#include "text/line_reader.h"

namespace headway::inline v0 {
namespace {

void check_utf8(const std::string& line, const internal::LineReader& reader) {
  if (!internal::is_utf8(line)) internal::fail(reader.about_line(), "is not UTF-8");
}

}  // namespace

void for_each_pair(const std::filesystem::path& file, const std::function<void(TextPair&&)>& body) {
  internal::LineReader reader(file);
  std::string line;
  while (reader.next(line)) {
    if (line.empty()) continue;
    check_utf8(line, reader);
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) internal::fail(reader.about_line(), "has no tab, expected source, tab, target");
    const std::size_t end = line.find('\t', tab + 1);
    body({line.substr(0, tab), line.substr(tab + 1, end == std::string::npos ? end : end - tab - 1)});
  }
}

void for_each_pair(const std::filesystem::path& sources, const std::filesystem::path& targets,
                   const std::function<void(TextPair&&)>& body) {
  internal::LineReader source_reader(sources), target_reader(targets);
  while (true) {
    TextPair pair;
    const bool has_source = source_reader.next(pair.source), has_target = target_reader.next(pair.target);
    if (has_source != has_target) {
      const internal::LineReader& shorter = has_source ? target_reader : source_reader;
      internal::fail(sources.string(), " and ", targets.string(), ": ", (has_source ? targets : sources).string(),
                     " ends after ", shorter.number() - 1, " lines, the other goes on; expected as many lines in both");
    }
    if (!has_source) return;
    check_utf8(pair.source, source_reader);
    check_utf8(pair.target, target_reader);
    body(std::move(pair));
  }
}

std::vector<TextPair> read_pairs(const std::filesystem::path& file) {
  std::vector<TextPair> pairs;
  for_each_pair(file, [&pairs](TextPair&& pair) { pairs.push_back(std::move(pair)); });
  return pairs;
}

std::vector<TextPair> read_pairs(const std::filesystem::path& sources, const std::filesystem::path& targets) {
  std::vector<TextPair> pairs;
  for_each_pair(sources, targets, [&pairs](TextPair&& pair) { pairs.push_back(std::move(pair)); });
  return pairs;
}

}  // namespace headway::inline v0
