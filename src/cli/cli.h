// The door of cli/: the program's command line. docs of every flag: `lockstep COMMAND --help`.
//
// One file a subcommand (generate.cc, inspect.cc, logits.cc, verify.cc, tokenize.cc, detokenize.cc): it declares its
// flags and says what it does with them. What commands share: flags.cc the common flags, model_files.cc the checkpoint
// and its tokenizer, prompt.cc where tokens come from, engine_setup.cc flags -> EngineOptions, output.cc what is
// printed, arguments.cc and process.cc what comes from the caller. Text and JSON go to standard output, everything else
// to standard error.
#pragma once

namespace lockstep {

// Runs the command that the arguments name. Returns the exit status: 0 done; 1 failure, mismatch, does not fit; 2
// usage. Errors are one line on standard error that begins "lockstep: "; nothing is thrown.
int run_command_line(int argc, const char* const* argv) noexcept;

}  // namespace lockstep
