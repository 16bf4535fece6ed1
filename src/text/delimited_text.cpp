// Reading .csv and .tsv.
#include "text/delimited_text.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

// One pass over the text of a .csv.
class CsvParser {
 public:
  CsvParser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  std::vector<TextRecord> records() {
    std::vector<TextRecord> all;
    while (position_ < text_.size()) {
      if (take_line_end()) continue;  // an empty line
      all.push_back(record());
    }
    return all;
  }

 private:
  TextRecord record() {
    TextRecord fields;
    do {
      fields.push_back(position_ < text_.size() && text_[position_] == '"' ? quoted_field() : plain_field());
    } while (take(','));
    check(position_ == text_.size() || take_line_end(), where_, ": line ", line_,
          ": a character follows a closing quote, expected a comma or the end of the line");
    return fields;
  }

  // A quote that is not the first character is one as any other.
  std::string plain_field() {
    std::size_t end = std::min(text_.find_first_of(",\n", position_), text_.size());
    const bool at_line_end = end < text_.size() && text_[end] == '\n';
    if (at_line_end && end > position_ && text_[end - 1] == '\r') --end;
    std::string field(text_.substr(position_, end - position_));
    position_ = end;
    return field;
  }

  std::string quoted_field() {
    const std::int64_t first_line = line_;
    std::string field;
    for (++position_;; ++position_) {
      const std::size_t quote = text_.find('"', position_);
      check(quote != std::string_view::npos, where_, ": line ", first_line,
            ": a field begins with a quote that is never closed");
      const std::string_view part = text_.substr(position_, quote - position_);
      field += part;
      line_ += std::count(part.begin(), part.end(), '\n');
      position_ = quote + 1;
      if (position_ == text_.size() || text_[position_] != '"') return field;
      field += '"';
    }
  }

  bool take(char character) {
    if (position_ == text_.size() || text_[position_] != character) return false;
    ++position_;
    return true;
  }
  bool take_line_end() {
    const std::string_view rest = text_.substr(position_);
    if (!rest.starts_with('\n') && !rest.starts_with("\r\n")) return false;
    position_ += rest.starts_with('\n') ? std::size_t{1} : std::size_t{2};
    ++line_;
    return true;
  }

  std::string_view text_;
  std::string_view where_;
  std::size_t position_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace

std::vector<TextRecord> parse_csv(std::string_view text, std::string_view where) {
  check(is_utf8(text), where, ": is not UTF-8");
  return CsvParser(without_byte_order_mark(text), where).records();
}

std::vector<TextRecord> parse_tsv(std::string_view text, std::string_view where) {
  check(is_utf8(text), where, ": is not UTF-8");
  text = without_byte_order_mark(text);
  std::vector<TextRecord> records;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    TextRecord& fields = records.emplace_back();
    for (std::size_t tab = 0; tab != std::string_view::npos;) {
      tab = line.find('\t');
      fields.emplace_back(line.substr(0, tab));
      if (tab != std::string_view::npos) line.remove_prefix(tab + 1);
    }
  }
  return records;
}

}  // namespace headway::inline v0::internal
