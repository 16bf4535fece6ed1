// headway completion: scripts with which a shell completes commands, options and their values.
#include <iostream>
#include <memory>
#include <sstream>

#include "command_tree.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kCompletionExamples = R"(  . <(headway completion bash)
  headway completion zsh > ~/.zfunc/_headway
  headway completion fish > ~/.config/fish/completions/headway.fish)";

using Commands = std::vector<CommandDescription>;

// In single quotes, for bash, zsh and fish.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Names of the commands under one.
std::vector<std::string> inner_names(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const CLI::App* const inner : command.inner) names.push_back(inner->get_name());
  return names;
}

// The choices of an option or, for the first argument of `headway completion`, of what follows the options.
std::vector<std::string> positional_choices(const CommandDescription& command) {
  for (const OptionText& option : command.options) {
    if (!option.positional.empty() && !option.choices.empty()) return option.choices;
  }
  return {};
}

bool is_directory(const OptionText& option) { return option.value == "DIR"; }
bool is_path(const OptionText& option) {
  return is_directory(option) || option.value == "FILE" || option.value == "PATH";
}

// A pattern of a case statement that matches the path of every command but the program's.
std::string paths_pattern(const Commands& commands, const std::string& separator) {
  std::vector<std::string> paths;
  for (std::size_t n = 1; n < commands.size(); ++n) paths.push_back(quoted(commands[n].path));
  return joined(paths, separator);
}

// A loop of bash and zsh over `words` that leaves the path of the command in $command; `step` follows each of its
// words.
std::string path_loop(const Commands& commands, const std::string& words, const std::string& step = "") {
  return "  for word in " + words + "; do\n    case \"$command $word\" in\n      " + paths_pattern(commands, " | ") +
         ") command=\"$command $word\"" + step + " ;;\n    esac\n  done\n";
}

std::string bash_script(const Commands& commands) {
  std::ostringstream script;
  script << "# bash completion of headway: . <(headway completion bash)\n"
         << "_headway() {\n"
         << "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=headway word\n"
         << path_loop(commands, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"") << "  COMPREPLY=()\n"
         << "  case \"$command $previous\" in\n";
  for (const CommandDescription& command : commands) {
    for (const OptionText& option : command.options) {
      if (option.value.empty() || option.names.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back(quoted(command.path + " " + name));
      // Where nothing is proposed, bash completes file names.
      std::string reply = ":";
      if (is_directory(option)) reply = "mapfile -t COMPREPLY < <(compgen -d -- \"$current\")";
      if (!option.choices.empty()) {
        reply = "mapfile -t COMPREPLY < <(compgen -W " + quoted(joined(option.choices, " ")) + " -- \"$current\")";
      }
      script << "    " << joined(patterns, " | ") << ") " << reply << "; return ;;\n";
    }
  }
  script << "  esac\n  case \"$command\" in\n";
  for (const CommandDescription& command : commands) {
    std::vector<std::string> words = inner_names(command);
    for (const std::string& choice : positional_choices(command)) words.push_back(choice);
    for (const OptionText& option : command.options) {
      for (const std::string& name : option.names) words.push_back(name);
    }
    script << "    " << quoted(command.path) << ") mapfile -t COMPREPLY < <(compgen -W " << quoted(joined(words, " "))
           << " -- \"$current\") ;;\n";
  }
  script << "  esac\n}\ncomplete -o default -F _headway headway\n";
  return script.str();
}

// What zsh's _arguments calls an option: its names, what it does, and how its value is completed.
std::string zsh_option(const OptionText& option) {
  std::string description;
  for (const char c : option.description) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') description += '\\';
    description += c;
  }
  std::string action;
  if (!option.choices.empty()) {
    action = "(" + joined(option.choices, " ") + ")";
  } else if (is_path(option) || option.names.empty()) {
    action = is_directory(option) ? "_files -/" : "_files";
  }
  if (option.names.empty()) return quoted("*:" + option.positional + ":" + action);
  std::vector<std::string> specifications;
  const std::string exclusive = "(" + joined(option.names, " ") + ")";
  for (const std::string& name : option.names) {
    const std::string value = option.value.empty() ? "" : ":" + option.value + ":" + action;
    specifications.push_back(quoted(exclusive + name + "[" + description + "]" + value));
  }
  return joined(specifications, " ");
}

std::string zsh_script(const Commands& commands) {
  std::ostringstream script;
  script << "#compdef headway\n"
         << "# zsh completion of headway: put this as _headway into a directory of $fpath\n"
         << "_headway() {\n"
         << "  local command=headway word\n"
         << "  local -i depth=1\n"
         << path_loop(commands, "${words[2,CURRENT-1]}", "; (( depth++ ))") << "  local -a commands\n"
         << "  case \"$command\" in\n";
  for (const CommandDescription& command : commands) {
    script << "    " << quoted(command.path) << ")\n";
    if (!command.inner.empty()) {
      script << "      commands=(";
      for (const CLI::App* const inner : command.inner) {
        script << "\n        " << quoted(inner->get_name() + ":" + inner->get_description());
      }
      script << ")\n      [[ $PREFIX == -* ]] || { _describe command commands; return }\n";
    }
    // _arguments takes the first word for the command's name.
    script << "      words=(headway \"${(@)words[depth+1,-1]}\"); (( CURRENT -= depth - 1 ))\n"
           << "      _arguments -s";
    for (const OptionText& option : command.options) script << " \\\n        " << zsh_option(option);
    script << " ;;\n";
  }
  script << "  esac\n}\n"
         << "if [[ ${funcstack[1]} == _headway ]]; then _headway \"$@\"; else compdef _headway headway; fi\n";
  return script.str();
}

std::string fish_script(const Commands& commands) {
  std::ostringstream script;
  script << "# fish completion of headway: headway completion fish | source\n"
         << "function __headway_command\n"
         << "    set -l command headway\n"
         << "    for word in (commandline -opc)[2..-1]\n"
         << "        switch \"$command $word\"\n"
         << "            case " << paths_pattern(commands, " ") << "\n"
         << "                set command \"$command $word\"\n"
         << "        end\n"
         << "    end\n"
         << "    echo $command\n"
         << "end\n";
  for (const CommandDescription& command : commands) {
    const std::string start = "complete -c headway -n " + quoted("test (__headway_command) = \"" + command.path + "\"");
    for (const CLI::App* const inner : command.inner) {
      script << start << " -f -a " << inner->get_name() << " -d " << quoted(inner->get_description()) << '\n';
    }
    if (const auto choices = positional_choices(command); !choices.empty()) {
      script << start << " -f -a " << quoted(joined(choices, " ")) << '\n';
    }
    for (const OptionText& option : command.options) {
      if (option.names.empty()) continue;
      script << start;
      for (const std::string& name : option.names) {
        script << (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
      }
      if (!option.choices.empty()) {
        script << " -x -a " << quoted(joined(option.choices, " "));
      } else if (is_directory(option)) {
        script << " -x -a '(__fish_complete_directories)'";
      } else if (!option.value.empty()) {
        script << (is_path(option) ? " -r -F" : " -x");
      }
      script << " -d " << quoted(option.description) << '\n';
    }
  }
  return script.str();
}

}  // namespace

void add_completion(Program& program) {
  CLI::App& command = program.add_command(
      {"completion", "Write a script that teaches a shell to complete headway's arguments", kCompletionExamples});
  const auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "The shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  program.on_run(command, [&program, shell] {
    const Commands commands = describe_commands(program.app());
    std::cout << (*shell == "bash"  ? bash_script(commands)
                  : *shell == "zsh" ? zsh_script(commands)
                                    : fish_script(commands));
    return kDone;
  });
}

}  // namespace cli
