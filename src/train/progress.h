// The progress line of a training run.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

#include "headway/training.h"

namespace headway::inline v0::internal {

// "12.3k", "4.56M": a count in few characters.
std::string short_count(double count);

// "3:05", "2:03:05", "3d 02:03": a time in few characters.
std::string short_time(double seconds);

struct ProgressOptions {
  std::ostream* stream = nullptr;  // null: nothing is written
  bool terminal = false;           // one line that is rewritten, else new lines
  double seconds = 0.5;            // between two updates
  std::int64_t steps = 0;
};

// Shows the newest report at intervals, and always the last one. The destructor ends the line, also when an exception
// leaves the loop.
class Progress {
 public:
  explicit Progress(const ProgressOptions& options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const StepReport& report, std::int64_t tokens);
  // A line of its own, such as where training resumes.
  void note(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  std::string line_of(const StepReport& report, double tokens_per_second) const;
  void write(const std::string& line);
  void end_line();

  ProgressOptions options_;
  Clock::time_point last_;    // of the last update, or the start
  std::int64_t tokens_ = 0;   // since then
  std::int64_t skipped_ = 0;  // steps, since the start
  std::string bad_gradient_;  // of the last one skipped
  std::size_t shown_ = 0;     // characters of the line that stands on the terminal
  bool anything_shown_ = false;
};

}  // namespace headway::inline v0::internal
