#include "command_tree.h"

#include <algorithm>

namespace cli {
namespace {

OptionText text_of(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (option.get_positional()) text.positional = option.get_name(true, false);
  // A type with choices reads TEXT:{a,b}.
  std::string type = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  if (const std::size_t brace = type.find('{'); brace != std::string::npos) {
    for (std::size_t start = brace + 1; start < type.size();) {
      const std::size_t end = std::min(type.find_first_of(",}", start), type.size());
      text.choices.push_back(type.substr(start, end - start));
      start = end + 1;
    }
    type = type.substr(0, type.find(':'));
  }
  text.value = type;
  text.usual = option.get_default_str();
  text.description = option.get_description();
  text.required = option.get_required();
  text.many = option.get_items_expected_max() > 1;
  return text;
}

void describe(const CLI::App& command, std::vector<CommandDescription>& all) {
  CommandDescription description = {full_name(command), command.get_description(), command.get_footer(), {}, {}};
  for (const CLI::Option* const option : command.get_options()) description.options.push_back(text_of(*option));
  const auto any = [](const CLI::App*) { return true; };
  description.inner = command.get_subcommands(any);
  const std::vector<const CLI::App*> inner = description.inner;
  all.push_back(std::move(description));
  for (const CLI::App* const command_inside : inner) describe(*command_inside, all);
}

}  // namespace

std::vector<CommandDescription> describe_commands(const CLI::App& program) {
  std::vector<CommandDescription> all;
  describe(program, all);
  return all;
}

}  // namespace cli
