// The program's front: which command, its help, and what becomes of errors.
#include "cli/cli.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/process.h"

namespace lockstep {
namespace {

constexpr const char* kVersion = "0.1.0";  // as the project's in CMakeLists.txt; a test compares them

constexpr int kFailure = 1;
constexpr int kUsage = 2;

struct Command {
  const char* name;
  const char* summary;
  CommandBody (*declare)(CLI::App&);
};

constexpr std::array kCommands{
    Command{"generate", "continue a prompt, with the figures of what it cost", declare_generate},
    Command{"chat", "talk with a model", declare_chat},
    Command{"inspect", "what is in a model, and what each rank would hold of it", declare_inspect},
    Command{"verify", "show that the logits do not depend on ranks, batch, chunk and threads", declare_verify},
    Command{"logits", "write the logits of every prompt position to a NumPy file", declare_logits},
    Command{"tokenize", "a text as tokens", declare_tokenize},
    Command{"detokenize", "tokens as text", declare_detokenize},
};

// Help with the values a flag takes after its name, its default at the end, and lines that fit a terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kColumn); }

  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (option->get_required()) text += " (required)";
    if (!option->get_default_str().empty()) text += "; default: " + option->get_default_str();
    // Words go to the next line when they would pass the width.
    std::string lines;
    size_t width = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(' ', begin), text.size());
      if (width > 0 && width + 1 + (end - begin) > kTextWidth) {
        lines += '\n';
        width = 0;
      } else if (width > 0) {
        lines += ' ';
        ++width;
      }
      lines += text.substr(begin, end - begin);
      width += end - begin;
      begin = end + 1;
    }
    return lines;
  }

 private:
  static constexpr size_t kColumn = 36;
  static constexpr size_t kTextWidth = 80;
};

int run(int argc, const char* const* argv) {
  spdlog::set_default_logger(spdlog::stderr_color_st("lockstep"));
  spdlog::set_level(spdlog::level::warn);
  CLI::App app("lockstep runs large language models with tensor parallelism on CPUs.");
  app.name("lockstep");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", fmt::format("lockstep {}", kVersion));
  app.footer("lockstep COMMAND --help shows the flags of a command.");
  app.require_subcommand(0, 1);
  CommandBody chosen;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->final_callback([&chosen, body = command.declare(*sub)] { chosen = body; });
  }
  try {
    std::vector<std::string> arguments = read_arguments(app, argc, argv);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream text;
    app.exit(asked, text, text);
    print_text(text.str());
    return 0;
  } catch (const CLI::ParseError& error) {
    const auto named = app.get_subcommands();
    fail(ErrorKind::Usage, "{}; see lockstep {}--help", error.what(), named.empty() ? "" : named[0]->get_name() + " ");
  }
  if (!chosen) fail(ErrorKind::Usage, "a command is wanted: generate, inspect, ...; lockstep --help lists them");
  return chosen();
}

int report(std::string_view message, int status) {
  print_note(fmt::format("lockstep: {}\n", one_line(message)));
  return status;
}

}  // namespace

int run_command_line(int argc, const char* const* argv) noexcept {
  prepare_process();
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    return report(error.what(), error.kind() == ErrorKind::Usage ? kUsage : kFailure);
  } catch (const std::bad_alloc&) {
    return report("out of memory", kFailure);
  } catch (const std::exception& error) {
    return report(error.what(), kFailure);
  }
}

}  // namespace lockstep
