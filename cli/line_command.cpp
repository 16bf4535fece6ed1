#include "line_command.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <system_error>

#include "base/checksum.h"
#include "headway/error.h"
#include "launch.h"
#include "options.h"
#include "ranks.h"
#include "resumable_output.h"
#include "task_options.h"

namespace cli {
namespace {

constexpr std::size_t kFailuresThatEnd = 20;  // of the first lines, when none succeeds: it is not the lines' fault

std::atomic<int> line_signal = 0;  // SIGINT or SIGTERM, which came; 0: none
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void want_line_end(int signal) {
  line_signal = signal;
  // A second signal of either kind ends the program at once.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

// What the files of a model's directory are, without reading all of them.
std::string identity_of(const std::filesystem::path& directory) {
  constexpr std::streamoff kRead = 1 << 16;
  std::vector<std::string> files;
  std::error_code problem;
  for (auto entry = std::filesystem::directory_iterator(directory, problem);
       !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    if (!entry->is_regular_file(problem)) continue;
    std::string bytes(2 * static_cast<std::size_t>(kRead), '\0');
    std::ifstream file(entry->path(), std::ios::binary);
    file.read(bytes.data(), kRead);
    const auto size = static_cast<std::streamoff>(entry->file_size(problem));
    file.clear();
    file.seekg(std::max(size - kRead, std::streamoff{0}));
    file.read(bytes.data() + kRead, kRead);
    files.push_back(entry->path().filename().string() + ' ' + std::to_string(size) + ' ' +
                    headway::internal::xxh64_text(bytes));
  }
  std::sort(files.begin(), files.end());
  return headway::internal::xxh64_text(joined(files, "\n"));
}

// Options whose values do not change results.
bool is_without_effect(const std::string& name) {
  const std::string names[] = {"--help",  "--threads",      "--output", "--resume",
                               "--batch", "--batch-tokens", "--model",  "--quiet"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// One run of a LineCommand on one rank.
class LineRun {
 public:
  LineRun(LineCommand& command, const headway::Communicator& world) : command_(command), world_(world) {}

  int run(const std::function<LineWork()>& make_work) {
    on_every_rank(world_, [&] {
      check();
      farm_.work = make_work();
      if (world_.rank() == 0 && !command_.output.empty() && !command_.collect) {
        file_.emplace(command_.output, settings(), command_.resume);
      }
    });
    if (!command_.by_lines && world_.rank() == 0) read_one_text();
    if (!command_.texts.empty() || !command_.by_lines) {
      if (world_.rank() == 0) compute_arguments();
      return kDone;
    }
    prepare();
    on_every_rank(world_, [this] {
      if (world_.rank() == 0) begin_input();
    });
    try {
      farm_lines(world_, farm_);
      if (file_) file_->finish();
    } catch (const std::exception& error) {
      if (world_.rank() > 0) throw;
      if (!told_ && !file_ && world_.is_alone()) throw;
      tell(error.what());
      throw ToldElsewhere(line_signal > 0 ? kSignalled + line_signal : kFailed);
    }
    return world_.rank() > 0 || failed_ == 0 ? kDone : report_failures();
  }

 private:
  std::string who() const { return "headway " + command_.name; }

  std::string settings() const {
    std::string text = "command " + command_.name + '\n';
    for (const CLI::Option* const option : command_.app->get_options()) {
      const std::string name = option->get_lnames().empty() ? "" : "--" + option->get_lnames().front();
      if (name.empty() || is_without_effect(name)) continue;
      const std::string value = option->count() > 0 ? joined(option->results(), "\n") : option->get_default_str();
      if (option->count() > 0 || !value.empty()) text += name + ' ' + json_string(value) + '\n';
    }
    return text + "model " + identity_of(command_.model) + '\n' + command_.settings;
  }

  void check() const {
    if (!command_.resume) return;
    if (command_.output.empty()) throw UsageError("--resume is given, expected --output FILE too");
    if (command_.texts.empty() && command_.by_lines) return;
    throw UsageError("--resume goes on with lines of standard input, and there is one text, or texts are arguments");
  }

  void prepare() {
    farm_.most = command_.most;
    farm_.batch = command_.batch;
    farm_.failed_text = [this](const Line& line, const std::string& why) {
      if (command_.json) return "{\"error\": " + json_string(why) + "}\n";
      return std::string(line.goes_on ? "" : "\n");
    };
    if (world_.rank() > 0) return;
    farm_.next = [this](std::size_t most) { return next(most); };
    farm_.is_ready = [this] { return input_->is_ready(); };
    farm_.write = [this](const Lines& lines, const std::vector<LineResult>& results) { write(lines, results); };
    farm_.died = [this](const std::string& why) { tell(why); };
    farm_.check_signals = [this] {
      // Lines that wait for no others are kept before the next ones are waited for.
      if (file_) file_->keep(/*at_once=*/world_.is_alone() && !input_->is_ready());
      if (line_signal > 0)
        throw std::runtime_error("ended by signal " + std::to_string(line_signal) +
                                 (launch().size > 1 ? ", as launchers do where a rank has ended" : ""));
    };
  }

  void compute_arguments() {
    Lines lines;
    for (const std::string& text : command_.texts) lines.push_back({++number_, text});
    write(lines, farm_.work(lines));
    if (file_) file_->finish();
  }

  void greet() {
    command_.reading.command = who();
    if (!is_terminal(STDIN_FILENO)) return;
    std::cerr << who() << (command_.by_lines ? ": a text a line, Ctrl-D ends" : ": a text, Ctrl-D ends it")
              << std::endl;
  }

  // Without lines all of standard input is as one argument.
  void read_one_text() {
    if (!command_.texts.empty()) return;
    greet();
    command_.reading.end = std::nullopt;
    const std::vector<std::string> all = InputTexts(command_.reading).next(1);
    command_.texts = {all.empty() ? std::string() : all.front()};
  }

  void begin_input() {
    if (file_ || !world_.is_alone()) {
      std::signal(SIGINT, want_line_end);
      std::signal(SIGTERM, want_line_end);
    }
    greet();
    input_.emplace(command_.reading);
    if (!file_) return;
    failed_ = file_->failed();
    any_succeeded_ = file_->lines() > 0;  // as far as this run knows
    while (number_ < file_->lines() || part_ > 0) {
      const Lines lines = next(static_cast<std::size_t>(std::max<std::int64_t>(file_->lines() - number_, 1)));
      if (lines.empty()) break;
      for (const Line& line : lines) file_->add_input(line.text);
    }
    file_->check_input();
  }

  Lines next(std::size_t most) {
    std::vector<std::string> texts = input_->next(most);
    Lines lines;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Line line;
      const bool continues = i == 0 && input_->continues();
      line.goes_on = i + 1 == texts.size() && input_->goes_on();
      number_ += continues ? 0 : 1;
      part_ = continues ? part_ + 1 : 1;
      line.number = number_;
      line.part = continues || line.goes_on ? part_ : 0;
      line.text = std::move(texts[i]);
      if (!line.goes_on) part_ = 0;
      lines.push_back(std::move(line));
    }
    return lines;
  }

  void write(const Lines& lines, const std::vector<LineResult>& results) {
    check_failures(results);
    if (command_.collect) {
      command_.collect(results);
    } else if (file_) {
      for (const LineResult& result : results) file_->write(result.text);
    } else {
      std::string all;
      for (const LineResult& result : results) all += result.text;
      std::cout << (command_.in_columns && is_terminal(STDOUT_FILENO) ? aligned(all) : all) << std::flush;
      if (!std::cout) throw std::runtime_error("standard output cannot be written");
    }
    for (std::size_t i = 0; i < lines.size(); ++i) count(lines[i], results[i]);
    if (file_) file_->keep(/*at_once=*/false);
  }

  void count(const Line& line, const LineResult& result) {
    for (const std::string& note : result.notes) std::cerr << who() + ": " + visible_text(note) + "\n";
    line_failed_ = line_failed_ || result.failed;
    if (file_) file_->add_input(line.text);
    if (line.goes_on) return;
    ++written_;
    failed_ += line_failed_ ? 1 : 0;
    if (file_) file_->end_line(line_failed_);
    line_failed_ = false;
  }

  // Throws where none of the first lines succeeds.
  void check_failures(const std::vector<LineResult>& results) {
    any_succeeded_ = any_succeeded_ || std::any_of(results.begin(), results.end(),
                                                   [](const LineResult& result) { return !result.failed; });
    if (any_succeeded_ ||
        failed_ + static_cast<std::int64_t>(results.size()) < static_cast<std::int64_t>(kFailuresThatEnd)) {
      return;
    }
    throw headway::Error(results.front().notes.front() + "; so did " + std::to_string(results.size() - 1) +
                         " after it, and none succeeded");
  }

  // Says once why the run ends, and where to go on.
  void tell(const std::string& why) {
    if (told_) return;
    told_ = true;
    std::string where = std::to_string(written_) + " lines are written; line " + std::to_string(written_ + 1) +
                        " is the first that is not";
    if (file_) {
      try {
        file_->keep(/*at_once=*/true);
      } catch (const std::exception&) {
        // The earlier state stays.
      }
      const std::int64_t kept = file_->kept_lines();
      where =
          file_->file() + " has " + count_of(kept, "line") + "; --resume goes on from line " + std::to_string(kept + 1);
    }
    std::cout.flush();
    std::cerr << who() + ": " + visible_text(why) + "; " + where + "\n" << std::flush;
  }

  int report_failures() const {
    const std::int64_t all = file_ ? file_->lines() : written_;
    std::cerr << who() + ": " + std::to_string(failed_) + " of " + count_of(all, "line") + " failed\n";
    return kFailed;
  }

  LineCommand& command_;
  const headway::Communicator& world_;
  LineFarm farm_ = {};
  std::optional<ResumableOutput> file_ = {};
  std::optional<InputTexts> input_ = {};
  std::int64_t number_ = 0;   // of the last line that was read
  std::int64_t part_ = 0;     // of a long one that goes on
  std::int64_t written_ = 0;  // lines, by this run
  std::int64_t failed_ = 0;   // lines, by earlier runs too
  bool line_failed_ = false;  // a part of the line that is being written
  bool any_succeeded_ = false;
  bool told_ = false;
};

}  // namespace

void LineCommand::add_to(CLI::App& command, bool with_output) {
  name = command.get_name();
  app = &command;
  if (with_output) {
    command.add_option("--output", output, "Write to a file, with which --resume can go on after a run that was ended")
        ->type_name("FILE");
  }
  command.add_flag("--resume", resume, "Go on after the last complete line of --output, with the same input");
}

int LineCommand::run(const std::function<LineWork()>& make_work) {
  const headway::Communicator world = open_world();
  return LineRun(*this, world).run(make_work);
}

}  // namespace cli
