// A file of results that a later run can go on with.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace cli {

// Results go to FILE. FILE.state says how many lines of the input are complete in it, which input that was and by which
// options; it is there until the run has ended well. What the state does not know of is cut off and computed again.
class ResumableOutput {
 public:
  // `settings`: a line for each thing that changes the results. Throws where FILE.state is there and `resume` is false,
  // where it is of other settings, and where FILE is written by another process.
  ResumableOutput(std::string file, std::string settings, bool resume);
  ~ResumableOutput();
  ResumableOutput(const ResumableOutput&) = delete;
  ResumableOutput& operator=(const ResumableOutput&) = delete;

  // Lines that an earlier run has left in the file, and how many of them failed.
  std::int64_t lines() const { return lines_; }
  std::int64_t failed() const { return failed_; }
  // Lines that the state on the disk knows of.
  std::int64_t kept_lines() const { return kept_lines_; }

  // Takes a text of the input, or a part of one, into the checksum of what is complete.
  void add_input(std::string_view text);
  // Throws where the texts that were added are not those of the earlier run. Before it no state is written.
  void check_input();
  // A line and its results, complete or in parts.
  void write(std::string_view text);
  void end_line(bool failed);
  // Now and then, or `at_once`: writes the state, where there are new lines. Nothing in the middle of a line, and after
  // a write that failed.
  void keep(bool at_once);
  // All of the input is in the file.
  void finish();

  const std::string& file() const { return file_; }

 private:
  void read_state(const std::string& text);
  void open(bool resume);
  void flush();
  [[noreturn]] void fail(int code, const std::string& what) const;

  std::string file_;
  std::string state_file_;
  std::string settings_;
  int descriptor_ = -1;
  std::string unwritten_ = {};
  bool in_line_ = false;
  bool is_broken_ = false;   // a write has failed
  bool is_checked_ = false;  // what was read is what the earlier run has read
  std::int64_t lines_ = 0;
  std::int64_t failed_ = 0;
  std::int64_t kept_lines_ = 0;
  std::int64_t bytes_ = 0;      // of the file, where so many lines are complete
  std::string checksum_ = "-";  // of the input so far
  std::string earlier_checksum_ = {};
  std::chrono::steady_clock::time_point kept_ = {};
};

}  // namespace cli
