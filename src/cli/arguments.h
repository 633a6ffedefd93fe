// The arguments as the parser of flags must see them.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace lockstep {

// Without the program's name, in order. Two spellings are rewritten, for CLI11 reads them otherwise than people do:
// "--prompt=" is "--prompt" with an empty value (CLI11 takes the next argument for it), and "-n=3" is "-n3" (CLI11
// makes the "=" part of the value). What is the value of the flag before it stays as it is.
std::vector<std::string> read_arguments(const CLI::App& app, int argc, const char* const* argv);

}  // namespace lockstep
