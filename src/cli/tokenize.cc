// lockstep tokenize: a text as the model's tokens.
#include <memory>

#include "base/quoted.h"
#include "cli/command.h"
#include "cli/model_files.h"
#include "cli/output.h"
#include "cli/prompt.h"

namespace lockstep {
namespace {

int tokenize(const Flags& flags) {
  const Prompt prompt = read_prompt(flags, "--prompt and --file");
  const auto tokenizer = open_tokenizer(flags.model);
  const std::vector<TokenId> tokens = encode_text(prompt, *tokenizer, flags.model);
  if (flags.json) {
    Json pieces = Json::array();
    for (const TokenId token : tokens) pieces.push_back(tokenizer->piece(token));
    print_json({{"tokens", tokens}, {"pieces", std::move(pieces)}});
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const TokenId token : tokens) rows.push_back({std::to_string(token), one_line(tokenizer->piece(token))});
  print_text(format_table(rows, 2));
  return 0;
}

}  // namespace

CommandBody declare_tokenize(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  add_model_flags(app, *flags);
  add_json_flag(app, *flags);
  add_text_flags(app, *flags);
  app.footer("The tokens of the text alone: no beginning-of-sequence token is put before them.");
  return [flags] { return tokenize(*flags); };
}

}  // namespace lockstep
