// The program's commands and what they share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace cli {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;
constexpr int kSignalled = 128;  // plus the number of the signal that ended the work

// CLI11 takes an argument "[a, b]" apart. This character behind the bracket keeps it whole; see unguarded().
constexpr char kBracketGuard = '\x01';

// Arguments that do not go together; the program ends with kWrongUsage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How a command is shown in help, completion and the manual.
struct CommandText {
  std::string name;
  std::string description;
  std::string examples = {};  // lines, each a command and what it does
};

// The tree of commands. Help, completion and the manual are made from the same definitions.
class Program {
 public:
  Program();

  CLI::App& app() { return app_; }
  // Adds a command under the program or under another command; options are added to the returned app.
  CLI::App& add_command(const CommandText& text, CLI::App* parent = nullptr);
  // Sets the function that runs the command after its arguments are read; it returns the exit code.
  void on_run(CLI::App& command, std::function<int()> run);

  // Reads the arguments, runs the command, and reports an error in one line.
  int run(int argument_count, char** arguments);

 private:
  struct Runnable {
    CLI::App* command;
    std::function<int()> run;
  };
  void parse(const std::vector<std::string>& arguments);
  int run_parsed();
  // A message that lists the commands where one was expected.
  std::string missing_command(const std::vector<std::string>& arguments);
  // "headway data split": the innermost command that the arguments named.
  CLI::App* innermost();

  CLI::App app_;
  std::vector<Runnable> runnables_ = {};
};

// The words to call a command: "headway data split".
std::string full_name(const CLI::App& command);
// The program as it was called, quoted for a shell: "headway", "./headway".
std::string program_name();

void add_translate(Program& program);
void add_train(Program& program);
void add_finetune(Program& program);
void add_evaluate(Program& program);
void add_attend(Program& program);
void add_generate(Program& program);
void add_summarize(Program& program);
void add_transcribe(Program& program);
void add_caption(Program& program);
void add_embed(Program& program);
void add_classify(Program& program);
void add_classify_picture(Program& program);
void add_tag(Program& program);
void add_answer(Program& program);
void add_fill(Program& program);
void add_recommend(Program& program);
void add_tokenizer(Program& program);
void add_data(Program& program);
void add_quantize(Program& program);
void add_info(Program& program);
void add_completion(Program& program);
void add_man(Program& program);

}  // namespace cli
