// Lines that are computed by all ranks and come back in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "headway/communicator.h"

namespace cli {

// A text of the input, or a part of a long one.
struct Line {
  std::int64_t number = 0;  // of the text, from 1
  std::string text = {};
  std::int64_t part = 0;  // 0: a whole text; else the number of the part, from 1
  bool goes_on = false;   // more parts follow
};

struct LineResult {
  std::string text = {};                // what is written, with its line ends
  std::vector<std::string> notes = {};  // for standard error, as "text 3 is empty"
  bool failed = false;
};

using Lines = std::vector<Line>;
// Results of lines, in their order. An exception is of one of the lines, which is then found.
using LineWork = std::function<std::vector<LineResult>(const Lines& lines)>;

struct LineFarm {
  // ---- of rank 0 ----
  // At least one and at most `most` lines as they come; none at the end of the input.
  std::function<Lines(std::size_t most)> next = {};
  // Whether next() would return at once.
  std::function<bool()> is_ready = {};
  // Takes results in the order of the lines.
  std::function<void(const Lines& lines, const std::vector<LineResult>& results)> write = {};
  // Called often, before next(); throws to end before the end of the input. May be empty.
  std::function<void()> check_signals = {};
  // Called where the ranks cannot go on, before anything else is done about it. May be empty.
  std::function<void(const std::string& why)> died = {};
  std::size_t most = 512;  // lines that a rank takes at once
  std::size_t batch = 32;  // fewer are not worth while
  // ---- of every rank ----
  LineWork work = {};
  // What a line that cannot be computed becomes. Without it the error ends the run.
  std::function<std::string(const Line& line, const std::string& why)> failed_text = {};
};

// Every rank calls it. Where one fails, rank 0 throws why and the others ToldElsewhere. Rank 0 reads, deals the lines
// out to the ranks by their lengths, as each has time, itself included, and writes; memory does not grow with the
// input. Parts of long texts stay on rank 0, one after another.
void farm_lines(const headway::Communicator& world, const LineFarm& farm);

// The texts of lines.
std::vector<std::string> line_texts(const Lines& lines);

}  // namespace cli
