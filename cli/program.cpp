#include "program.h"

#include <algorithm>
#include <iostream>
#include <new>
#include <utility>

#include "headway/info.h"
#include "launch.h"
#include "ranks.h"
#include "text_io.h"

namespace cli {
namespace {

std::string called_as = "headway";

}  // namespace

Program::Program()
    : app_("Headway: translation with a Transformer, training included, and a look at what each head looks at.",
           "headway") {
  app_.set_help_flag("-h,--help", "Show this help and exit");
  app_.set_version_flag("--version", "headway " + headway::version(), "Show the version and exit");
  app_.require_subcommand(1);
  app_.footer("`headway COMMAND --help` explains a command and has examples; `headway man | man -l -` is the manual.");
  app_.get_formatter()->column_width(36);
}

CLI::App& Program::add_command(const CommandText& text, CLI::App* parent) {
  CLI::App& command = *(parent == nullptr ? &app_ : parent)->add_subcommand(text.name, text.description);
  command.set_help_flag("-h,--help", "Show this help and exit");
  if (!text.examples.empty()) command.footer("Examples:\n" + text.examples);
  return command;
}

void Program::on_run(CLI::App& command, std::function<int()> run) { runnables_.push_back({&command, std::move(run)}); }

std::string full_name(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

std::string program_name() { return shell_quoted(called_as); }

CLI::App* Program::innermost() {
  CLI::App* command = &app_;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return command;
}

int Program::run_parsed() {
  const CLI::App* const command = innermost();
  for (const Runnable& runnable : runnables_) {
    if (runnable.command != command) continue;
    const int code = runnable.run();
    std::cout.flush();
    if (!std::cout) throw std::runtime_error("standard output cannot be written");
    return code;
  }
  throw std::logic_error("the command has no body");
}

void Program::parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> prepared;
  bool options_ended = false;
  for (std::string argument : arguments) {
    options_ended = options_ended || argument == "--";
    if (!options_ended && argument.starts_with("--")) {
      // --learning_rate, as configs spell it, is --learning-rate.
      const auto name_end =
          argument.begin() + static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size()));
      std::replace(argument.begin(), name_end, '_', '-');
    }
    if (argument.starts_with('[') && argument.ends_with(']')) argument += kBracketGuard;
    prepared.push_back(std::move(argument));
  }
  std::reverse(prepared.begin(), prepared.end());  // as CLI11 wants them
  app_.parse(prepared);
}

std::string Program::missing_command(const std::vector<std::string>& arguments) {
  std::string names;
  for (const CLI::App* const inner :
       std::as_const(*innermost()).get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + inner->get_name();
  }
  std::size_t depth = 0;  // of the words that named commands
  for (const CLI::App* command = innermost(); command->get_parent() != nullptr; command = command->get_parent())
    ++depth;
  const bool named = depth < arguments.size() && !arguments[depth].starts_with('-');
  return (named ? "there is no command " + arguments[depth] : std::string("a command is required")) + ", expected " +
         names;
}

int Program::run(int argument_count, char** argument_list) {
  const std::vector<std::string> arguments(argument_list + std::min(argument_count, 1), argument_list + argument_count);
  if (argument_count > 0) called_as = argument_list[0];
  const auto report = [this](const std::string& what, int code) {
    std::cout.flush();
    const std::string name = full_name(*innermost());
    // In one piece, which launchers of ranks do not mix with what they say.
    std::cerr << name + ": " + visible_text(what) + (code == kWrongUsage ? " (see " + name + " --help)\n" : "\n")
              << std::flush;
    return code;
  };
  try {
    parse(arguments);
    return run_parsed();
  } catch (const CLI::ParseError& error) {
    // Help and version are not errors.
    if (error.get_exit_code() == 0) return launch().rank > 0 ? kDone : app_.exit(error);
    const bool has_inner = innermost()->get_require_subcommand_min() > 0;
    if (launch().rank > 0) return kDone;  // rank 0 says it, and has the exit code
    return report(has_inner ? missing_command(arguments) : error.what(), kWrongUsage);
  } catch (const ToldElsewhere& told) {
    std::cout.flush();
    return told.code();
  } catch (const UsageError& error) {
    if (launch().rank > 0) return kDone;
    return report(error.what(), kWrongUsage);
  } catch (const std::bad_alloc&) {
    return report("not enough memory", kFailed);
  } catch (const std::exception& error) {
    return report(error.what(), kFailed);
  }
}

}  // namespace cli
