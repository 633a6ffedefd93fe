// lockstep detokenize: tokens as the text they stand for.
#include <memory>

#include "cli/command.h"
#include "cli/model_files.h"
#include "cli/output.h"
#include "cli/prompt.h"

namespace lockstep {
namespace {

int detokenize(const Flags& flags) {
  const Prompt prompt = read_prompt(flags);
  const auto tokenizer = open_tokenizer(flags.model);
  const std::string text = tokenizer->decode(check_ids(prompt.ids, tokenizer->vocab_size()), true);
  if (flags.json) {
    print_json({{"text", text}});
  } else {
    print_text(text + "\n");
  }
  return 0;
}

}  // namespace

CommandBody declare_detokenize(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  add_model_flags(app, *flags);
  add_json_flag(app, *flags);
  add_token_flag(app, *flags)->required();
  app.footer("Special tokens are shown as their text.");
  return [flags] { return detokenize(*flags); };
}

}  // namespace lockstep
