// Records of .csv and .tsv files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

using TextRecord = std::vector<std::string>;  // the fields of one record

// The records of a .csv by RFC 4180: fields in quotes may hold commas, line ends and doubled quotes; records end with
// "\n" or "\r\n". Empty lines are skipped. Errors begin with `where` and name the line.
std::vector<TextRecord> parse_csv(std::string_view text, std::string_view where);

// The records of a .tsv: one per line, fields between tabs, quotes are characters as any other.
std::vector<TextRecord> parse_tsv(std::string_view text, std::string_view where);

}  // namespace headway::inline v0::internal
