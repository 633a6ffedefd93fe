// Which arguments are flags, and which the values of flags.
#include "cli/arguments.h"

namespace lockstep {
namespace {

bool takes_value(const CLI::App& app, const std::string& name) {
  const CLI::Option* const option = app.get_option_no_throw(name);
  return option != nullptr && option->get_items_expected_min() > 0;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return commands.empty() ? nullptr : commands.front();
}

}  // namespace

std::vector<std::string> read_arguments(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  const CLI::App* command = nullptr;
  bool value_follows = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (value_follows || command == nullptr) {
      value_follows = false;
      if (command == nullptr) command = find_command(app, argument);
      arguments.push_back(std::move(argument));
      continue;
    }
    const size_t equals = argument.find('=');
    if (argument.starts_with("--") && equals + 1 == argument.size()) {
      argument.pop_back();
      arguments.push_back(std::move(argument));
      arguments.emplace_back();
    } else if (argument.starts_with('-') && equals == 2) {
      argument.erase(equals, 1);
      const bool empty = argument.size() == 2;
      arguments.push_back(std::move(argument));
      if (empty) arguments.emplace_back();
    } else {
      value_follows = takes_value(*command, argument);
      arguments.push_back(std::move(argument));
    }
  }
  return arguments;
}

}  // namespace lockstep
