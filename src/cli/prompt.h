// Where a command's tokens come from: --prompt, --file or --tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "cli/model_files.h"
#include "cli/output.h"
#include "text/text.h"

namespace lockstep {

// What the prompt flags say, before a model has been opened: a text or ids.
struct Prompt {
  std::optional<std::string> text;
  std::vector<int64_t> ids;
  bool parse_special = false;
};

// All of a text file; "-" is standard input. `flag` is for messages. Throws Error(NotFound | Io | DoesNotFit).
std::string read_text_file(std::string_view flag, const std::string& path);

// A JSON file of at most 64 levels, of which, with `only`, the member of this name alone is kept. Throws
// Error(Malformed) beside what read_text_file() throws.
Json read_json_file(std::string_view flag, const std::string& path, std::string_view only = {});

// Reads the file if one is named. `offered`: the flags that the command has, for the message. Throws Error(Usage)
// unless exactly one of them is given, or for --parse-special without a text, Error(NotFound | Io) for a file that
// cannot be read.
Prompt read_prompt(const Flags& flags, std::string_view offered = "--prompt, --file and --tokens");
bool has_prompt(const Flags& flags);  // any of the flags

// The prompt's text as tokens. Throws Error(Unsupported) for a byte that the vocabulary has no token for, which would
// be lost without a word. `file`: of the tokenizer, for messages.
std::vector<TokenId> encode_text(const Prompt& prompt, const Tokenizer& tokenizer, const std::string& file);

// Ids below `vocab`. Throws Error(Usage) for the first that is not.
std::vector<TokenId> check_ids(const std::vector<int64_t>& ids, int64_t vocab);

// The prompt as the model reads it: a text gets the beginning-of-sequence token where the model asks for one. At least
// one token, or Error(Usage). A text that cannot fit into --ctx or the model's context, whatever its tokens, is refused
// with Error(DoesNotFit) before the work of finding them.
std::vector<TokenId> encode_prompt(const Prompt& prompt, const Model& model, const Flags& flags);

}  // namespace lockstep
