// lockstep logits: the logits of every prompt position, as a NumPy file and their hash.
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/command.h"
#include "cli/engine_setup.h"
#include "cli/npy.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/sha256.h"

namespace lockstep {
namespace {

// The file is replaced at the end of the run: not to be done to the model, nor to where the summary is printed.
void check_output(const std::string& path, const Checkpoint& checkpoint) {
  std::error_code ignored;  // a file that is not there is no other file
  for (const auto& file : checkpoint.files()) {
    if (std::filesystem::equivalent(path, file, ignored)) {
      fail(ErrorKind::Usage, "--out {} is the model's own file; name another", in_quotes(path));
    }
  }
  if (std::filesystem::is_regular_file(path, ignored) && std::filesystem::equivalent(path, "/dev/stdout", ignored)) {
    fail(ErrorKind::Usage, "--out {} is where standard output goes; name another file", in_quotes(path));
  }
}

int logits(const Flags& flags, const std::optional<std::string>& out) {
  check_environment();
  const Prompt prompt = read_prompt(flags);
  const Model model = open_model(flags.model);
  Request request;
  request.tokens = encode_prompt(prompt, model, flags);
  const auto tokens = static_cast<int64_t>(request.tokens.size());
  const EngineOptions options = engine_options(flags, model.spec, context_for(flags, model.spec, tokens, 0));
  std::optional<NpyWriter> file;
  if (out) {
    check_output(*out, *model.checkpoint);
    file.emplace(*out, tokens, model.spec.vocab);
  }
  Sha256 hash;
  request.on_logits = [&](int64_t, std::span<const float> row) {
    hash.add(row);
    if (file) file->add(row);
  };
  // After what the callback writes to: destroyed first, also when something throws.
  const auto engine = load_engine(model, options, !flags.quiet);
  engine->submit(std::move(request)).get();
  if (file) file->close();
  const std::string sha256 = hash.finish();
  if (flags.json) {
    print_json({{"tokens", tokens}, {"vocab", model.spec.vocab}, {"sha256", sha256}});
  } else {
    print_text(fmt::format("{} tokens, vocabulary {}, sha256 {}\n", tokens, model.spec.vocab, sha256));
  }
  return 0;
}

}  // namespace

CommandBody declare_logits(CLI::App& app) {
  struct LogitsFlags : Flags {
    std::optional<std::string> out;
  };
  const auto flags = std::make_shared<LogitsFlags>();
  add_model_flags(app, *flags);
  add_prompt_flags(app, *flags);
  app.add_option("--out", flags->out,
                 "where the logits go: a NumPy file, float32 [tokens, vocab], there once it is whole; default: nowhere")
      ->type_name("FILE.npy");
  add_size_flags(app, *flags);
  add_mode_flags(app, *flags);
  add_step_flags(app, *flags);
  add_context_flag(app, *flags);
  add_number_flags(app, *flags);
  app.footer("sha256 covers the float32 bytes of all rows in order of position.");
  return [flags] { return logits(*flags, flags->out); };
}

}  // namespace lockstep
