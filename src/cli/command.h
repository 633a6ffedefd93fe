// What a subcommand is to the command line: a name, a line of help, and a function that declares its flags.
#pragma once

#include <CLI/App.hpp>
#include <functional>

namespace lockstep {

// What a command does once its flags have been read; returns the exit status. Throws Error.
using CommandBody = std::function<int()>;

// Adds the command's flags to `app` and returns its body, which owns the values that the flags are read into.
CommandBody declare_generate(CLI::App& app);
CommandBody declare_chat(CLI::App& app);
CommandBody declare_inspect(CLI::App& app);
CommandBody declare_verify(CLI::App& app);
CommandBody declare_logits(CLI::App& app);
CommandBody declare_tokenize(CLI::App& app);
CommandBody declare_detokenize(CLI::App& app);

}  // namespace lockstep
