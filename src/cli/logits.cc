// lockstep logits: the logits of every prompt position, as a NumPy file and their hash.
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/command.h"
#include "cli/engine_setup.h"
#include "cli/npy.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/sha256.h"
#include "cli/trace_file.h"

namespace lockstep {
namespace {

int logits(const Flags& flags, const std::optional<std::string>& out) {
  check_environment();
  const Prompt prompt = read_prompt(flags);
  const Model model = open_model(flags.model);
  Request request;
  request.tokens = encode_prompt(prompt, model, flags);
  const auto tokens = static_cast<int64_t>(request.tokens.size());
  EngineOptions options = engine_options(flags, model.spec, context_for(flags, model.spec, tokens, 0));
  std::optional<OutputFile> file;
  if (out && flags.trace &&
      std::filesystem::weakly_canonical(*out) == std::filesystem::weakly_canonical(*flags.trace)) {
    fail(ErrorKind::Usage, "--out and --trace are both {}; name two files", in_quotes(*flags.trace));
  }
  if (out) {
    file.emplace("--out", *out, model.checkpoint->files());
    write_npy_header(*file, tokens, model.spec.vocab);
  }
  TraceFile trace(flags.trace, model.checkpoint->files());
  options.trace = trace.trace();
  Sha256 hash;
  request.on_logits = [&](int64_t, std::span<const float> row) {
    hash.add(row);
    if (file) write_npy_row(*file, row);
  };
  // After what the callback writes to: destroyed first, also when something throws.
  auto engine = load_engine(model, options, !flags.quiet);
  engine->submit(std::move(request)).get();
  engine.reset();
  if (file) file->close();
  const std::string sha256 = hash.finish();
  if (flags.json) {
    print_json({{"tokens", tokens}, {"vocab", model.spec.vocab}, {"sha256", sha256}});
  } else {
    print_text(fmt::format("{} tokens, vocabulary {}, sha256 {}\n", tokens, model.spec.vocab, sha256));
  }
  trace.close();
  return 0;
}

}  // namespace

CommandBody declare_logits(CLI::App& app) {
  struct LogitsFlags : Flags {
    std::optional<std::string> out;
  };
  const auto flags = std::make_shared<LogitsFlags>();
  add_model_flags(app, *flags);
  add_json_flag(app, *flags);
  add_prompt_flags(app, *flags);
  app.add_option("--out", flags->out,
                 "where the logits go: a NumPy file, float32 [tokens, vocab], there once it is whole; default: nowhere")
      ->type_name("FILE.npy");
  add_size_flags(app, *flags);
  add_mode_flags(app, *flags);
  add_step_flags(app, *flags);
  add_context_flag(app, *flags);
  add_number_flags(app, *flags);
  add_group_flags(app, *flags);
  add_trace_flag(app, *flags);
  app.footer("sha256 covers the float32 bytes of all rows in order of position.");
  return [flags] { return logits(*flags, flags->out); };
}

}  // namespace lockstep
