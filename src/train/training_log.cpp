// Lines of the log, and cutting a log back to where training resumes.
#include "train/training_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/number_text.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainingLog = "training log";
constexpr std::string_view kJsonStart = "{\"step\": ";

[[noreturn]] void fail_with_errno(const fs::path& path, const char* what) {
  const int problem = errno;
  fail_on_file(path, problem, kTrainingLog, ": ", path.string(), ": ", what, ": ",
               std::generic_category().message(problem));
}

// A field as it is, or in quotes with inner ones doubled where a separator is in it. A line's end would split the line
// when a log is cut back, so it becomes a space.
std::string csv_field(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char character : text) {
    quoted += character;
    if (character == '"') quoted += '"';
  }
  return quoted + '"';
}

// The step of a line; nothing where it is not a line of a log.
std::optional<std::int64_t> step_of(std::string_view line, LogFormat format) {
  if (format == LogFormat::jsonl) {
    if (!line.starts_with(kJsonStart) || !line.ends_with('}')) return {};
    line.remove_prefix(kJsonStart.size());
  }
  return parse_number<std::int64_t>(line.substr(0, line.find(',')));
}

// The bytes of a log; none where the file is missing.
std::string read_log(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  check(fs::is_regular_file(path, ignored), kTrainingLog, ": ", path.string(), ": is there already and is not a file");
  return read_whole_file(path, kTrainingLog);
}

// All whole lines of steps up to `last_step`. The last line of a run that was killed may be incomplete, and is removed.
std::string cut_back(const fs::path& path, LogFormat format, const std::string& header, std::int64_t last_step) {
  const std::string text = read_log(path);
  std::string kept = header.empty() ? "" : header + '\n';
  std::string_view rest = text;
  for (std::int64_t number = 1; rest.find('\n') != std::string_view::npos; ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    if (format == LogFormat::csv && number == 1) {
      const bool ours = line.starts_with("step,loss,");
      check(ours && (last_step == 0 || line == header), kTrainingLog, ": ", path.string(), ": its columns are ", line,
            ", expected ", header);
      continue;
    }
    const std::optional<std::int64_t> step = step_of(line, format);
    check(step.has_value(), kTrainingLog, ": ", path.string(), ": line ", number,
          " is not a line of a training log; remove the file or name another one");
    if (*step <= last_step) kept.append(line).push_back('\n');
  }
  // A file without a whole line may be any file, unless it begins as a log does.
  const std::string_view start = format == LogFormat::csv ? std::string_view(header) : kJsonStart;
  check(text.find('\n') != std::string::npos || rest.substr(0, start.size()) == start.substr(0, rest.size()),
        kTrainingLog, ": ", path.string(), ": is not a training log; remove it or name another file");
  return kept;
}

void write_all(int file, const fs::path& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno(path, "cannot be written");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

LogFormat log_format(const fs::path& path) {
  const std::string ending = path.extension().string();
  check(ending == ".jsonl" || ending == ".csv", kTrainingLog, ": ", path.string(), ": the ending is \"", ending,
        "\", expected .jsonl or .csv");
  return ending == ".csv" ? LogFormat::csv : LogFormat::jsonl;
}

std::string csv_header(const std::vector<std::string>& layers) {
  std::string header =
      "step,loss,learning_rate,gradient_norm,tokens_per_second,seconds,seconds_left,skipped,bad_gradient";
  for (const std::string& layer : layers) header += ',' + csv_field("norm:" + layer);
  return header;
}

std::string json_line(const StepReport& report) {
  std::string line = std::string(kJsonStart) + number_text(report.step);
  const std::pair<const char*, double> numbers[] = {{"loss", report.loss},
                                                    {"learning_rate", report.learning_rate},
                                                    {"gradient_norm", report.gradient_norm},
                                                    {"tokens_per_second", report.tokens_per_second},
                                                    {"seconds", report.seconds},
                                                    {"seconds_left", report.seconds_left}};
  for (const auto& [name, value] : numbers) line += std::string(", \"") + name + "\": " + json_number(value);
  if (report.ranks > 1) {
    line += ", \"ranks\": " + number_text(report.ranks) + ", \"waiting\": " + json_number(report.waiting) +
            ", \"peak_bytes\": " + number_text(report.peak_bytes);
  }
  line += std::string(", \"skipped\": ") + (report.skipped ? "true" : "false");
  line += ", \"bad_gradient\": " + json_string(report.bad_gradient) + ", \"layers\": {";
  const char* separator = "";
  for (const NamedNorm& layer : report.layers) {
    line += separator + json_string(layer.name) + ": " + json_number(layer.norm);
    separator = ", ";
  }
  return line + "}}";
}

std::string csv_line(const StepReport& report, const std::vector<std::string>& layers) {
  std::string line = number_text(report.step);
  for (const double value : {report.loss, report.learning_rate, report.gradient_norm, report.tokens_per_second,
                             report.seconds, report.seconds_left}) {
    line += ',' + number_text(value);
  }
  line += report.skipped ? ",1," : ",0,";
  line += csv_field(report.bad_gradient);
  for (const std::string& layer : layers) {
    line += ',';
    const auto found = std::find_if(report.layers.begin(), report.layers.end(),
                                    [&layer](const NamedNorm& norm) { return norm.name == layer; });
    if (found != report.layers.end()) line += number_text(found->norm);
  }
  return line;
}

TrainingLog::TrainingLog(const fs::path& path, std::vector<std::string> layers, std::int64_t last_step)
    : path_(path), format_(log_format(path)), layers_(std::move(layers)) {
  const std::string header = format_ == LogFormat::csv ? csv_header(layers_) : "";
  replace_file(path_, cut_back(path_, format_, header, last_step), kTrainingLog);
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) fail_with_errno(path_, "cannot be opened");
}

TrainingLog::~TrainingLog() {
  if (file_ >= 0) ::close(file_);
}

void TrainingLog::append(const StepReport& report) {
  write_all(file_, path_, (format_ == LogFormat::csv ? csv_line(report, layers_) : json_line(report)) + '\n');
}

void TrainingLog::flush_to_disk() {
  // Pipes and some file systems do not support this, and do not need it.
  if (::fsync(file_) != 0 && errno != EINVAL && errno != EROFS) fail_with_errno(path_, "cannot be flushed to the disk");
}

}  // namespace headway::inline v0::internal
