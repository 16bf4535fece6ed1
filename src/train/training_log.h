// The log of a training run: one line per step, as JSON lines or comma-separated values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headway/training.h"

namespace headway::inline v0::internal {

enum class LogFormat { jsonl, csv };

// The format of a file by its ending; throws for unknown endings.
LogFormat log_format(const std::filesystem::path& path);

// The first line of a CSV log: fixed columns, then one per layer. Layers are known from the start, so that every line
// has the same columns.
std::string csv_header(const std::vector<std::string>& layers);

// One report as a line without its end; what only several ranks have is in JSON alone, and only where there are
// several. Numbers are written so that reading them gives the same bits. Non-finite numbers are null in JSON, nan or
// inf in CSV, where a layer without a gradient is an empty field.
std::string json_line(const StepReport& report);
std::string csv_line(const StepReport& report, const std::vector<std::string>& layers);

// An open log; its lines are appended with one write each.
class TrainingLog {
 public:
  // Truncates the file atomically to the steps up to `last_step`, and opens it for appending. A file that is not a
  // training log is refused and left unchanged.
  TrainingLog(const std::filesystem::path& path, std::vector<std::string> layers, std::int64_t last_step);
  ~TrainingLog();
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;

  void append(const StepReport& report);
  // Flushes all lines to the disk: a checkpoint must not exist without the lines up to its step.
  void flush_to_disk();

 private:
  std::filesystem::path path_;
  LogFormat format_;
  std::vector<std::string> layers_;
  int file_ = -1;
};

}  // namespace headway::inline v0::internal
