// headway man: the manual page, made from the definitions of the commands.
#include <iostream>
#include <sstream>

#include "command_tree.h"
#include "headway/info.h"

namespace cli {
namespace {

// Text as roff takes it: backslashes and dashes stand for themselves, and no line begins a request.
std::string escaped(const std::string& text) {
  std::string roff;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) roff += "\\&";
    if (c == '\\') {
      roff += "\\e";
    } else if (c == '-') {
      roff += "\\-";
    } else {
      roff += c;
    }
    line_start = c == '\n';
  }
  return roff;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

// "headway data split [options] FILE"
std::string synopsis(const CommandDescription& command) {
  std::string line = bold(command.path);
  if (!command.inner.empty()) return line + " " + italic("COMMAND");
  line += " [" + italic("options") + "]";
  for (const OptionText& option : command.options) {
    if (option.positional.empty()) continue;
    const std::string name = italic(option.positional) + (option.many ? "..." : "");
    line += option.required ? " " + name : " [" + name + "]";
  }
  return line;
}

void write_option(std::ostream& page, const OptionText& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + bold(name);
  if (option.names.empty()) names = italic(option.positional);
  std::string value;
  for (const std::string& choice : option.choices) value += (value.empty() ? "" : "|") + bold(choice);
  if (value.empty() && !option.names.empty()) value = italic(option.value);
  page << ".TP\n"
       << names << (option.value.empty() || option.names.empty() ? "" : " " + value) << '\n'
       << escaped(option.description) << (option.usual.empty() ? "" : "; default: " + escaped(option.usual)) << ".\n";
}

void write_command(std::ostream& page, const CommandDescription& command) {
  page << ".SS \"" << escaped(command.path) << "\"\n"
       << synopsis(command) << "\n.PP\n"
       << escaped(command.description) << ".\n";
  for (const OptionText& option : command.options) write_option(page, option);
  if (!command.examples.empty()) page << ".PP\n.nf\n" << escaped(command.examples) << "\n.fi\n";
}

constexpr const char* kEnd = R"(.SH ENVIRONMENT
.TP
\fBHEADWAY_MODEL\fR
Directory of the model that is used where none is named.
.TP
\fBHEADWAY_NUM_THREADS\fR
Number of threads where \fB\-\-threads\fR is not given.
.TP
\fBHEADWAY_ISA\fR
Instruction set to compute with, as \fBheadway info\fR lists them.
.TP
\fBNO_COLOR\fR
Set to anything: no colours in the terminal.
.SH FILES
A model is a directory in the layout of Hugging Face's Marian models: config.json, generation_config.json,
model.safetensors, source.spm, target.spm, vocab.json and tokenizer_config.json. Without \fBHEADWAY_MODEL\fR the one in
\&../share/headway/models/en\-de beside the program's directory is used, or models/en\-de in the working directory.
.SH "EXIT STATUS"
0 when all went well, 1 when something failed, 2 when the arguments are wrong. \fBheadway train\fR and
\fBheadway finetune\fR end with 130 after SIGINT (Ctrl\-C) and with 143 after SIGTERM: the step is finished, a
checkpoint is written, and the command that goes on from it is shown. A second signal ends them at once.
)";

std::string manual(const CLI::App& program) {
  std::ostringstream page;
  const std::vector<CommandDescription> commands = describe_commands(program);
  page << ".TH HEADWAY 1 \"\" \"headway " << escaped(headway::version()) << "\" \"User Commands\"\n"
       << ".SH NAME\nheadway \\- translate, train translators, see what attention looks at\n"
       << ".SH SYNOPSIS\n";
  for (const CommandDescription& command : commands) {
    if (command.inner.empty()) page << synopsis(command) << "\n.br\n";
  }
  page << ".SH DESCRIPTION\n" << escaped(commands.front().description) << "\n.SH COMMANDS\n";
  for (const CommandDescription& command : commands) {
    if (command.inner.empty()) write_command(page, command);
  }
  page << kEnd;
  return page.str();
}

}  // namespace

void add_man(Program& program) {
  CLI::App& command = program.add_command({"man", "Write the manual page",
                                           "  headway man | man -l -\n"
                                           "  headway man > ~/.local/share/man/man1/headway.1"});
  program.on_run(command, [&program] {
    std::cout << manual(program.app());
    return kDone;
  });
}

}  // namespace cli
