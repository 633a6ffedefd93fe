// Reading prompts, and turning them into tokens.
#include "cli/prompt.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/quoted.h"
#include "cli/engine_setup.h"

namespace lockstep {
namespace {

constexpr size_t kMostBytes = size_t{256} << 20;  // far beyond every context

}  // namespace

std::string read_text_file(std::string_view flag, const std::string& path) {
  const bool standard_input = path == "-";
  const std::string name = standard_input ? "standard input" : fmt::format("{} {}", flag, in_quotes(path));
  std::error_code ignored;  // what is wrong with the path shows when it is opened
  if (!standard_input && std::filesystem::is_directory(path, ignored)) {
    fail(ErrorKind::Io, "{} is a directory; it must be a file that holds text", name);
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> opened(standard_input ? nullptr : std::fopen(path.c_str(), "rb"),
                                                     std::fclose);
  FILE* const file = standard_input ? stdin : opened.get();
  if (file == nullptr) {
    fail(ErrorKind::NotFound, "{} cannot be opened: {}", name, std::generic_category().message(errno));
  }
  std::string text;
  std::array<char, 1 << 16> piece;
  while (const size_t size = std::fread(piece.data(), 1, piece.size(), file)) {
    text.append(piece.data(), size);
    if (text.size() > kMostBytes) {
      fail(ErrorKind::DoesNotFit, "{} is longer than {} bytes, the most that is read", name, kMostBytes);
    }
  }
  if (std::ferror(file) != 0)
    fail(ErrorKind::Io, "{} cannot be read: {}", name, std::generic_category().message(errno));
  return text;
}

Json read_json_file(std::string_view flag, const std::string& path, std::string_view only) {
  constexpr int kMostLevels = 64;
  const std::string text = read_text_file(flag, path);
  bool too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t event, Json& value) {
    too_deep |= depth > kMostLevels;
    const bool other = event == Json::parse_event_t::key && depth == 1 && !only.empty() && value != only;
    return !too_deep && !other;
  };
  Json json = Json::parse(text, keep, false);
  if (too_deep) fail(ErrorKind::Malformed, "{}: it nests more than {} levels", path, kMostLevels);
  if (json.is_discarded()) fail(ErrorKind::Malformed, "{}: it is no JSON", path);
  return json;
}

bool has_prompt(const Flags& flags) {
  return flags.prompt || flags.prompt_file || flags.tokens || flags.parse_special;
}

Prompt read_prompt(const Flags& flags, std::string_view offered) {
  const int given = int{flags.prompt.has_value()} + int{flags.prompt_file.has_value()} + int{flags.tokens.has_value()};
  if (given != 1) {
    fail(ErrorKind::Usage, "{} of {} are given; give exactly one", given == 0 ? "none" : "several", offered);
  }
  if (flags.tokens && flags.parse_special) {
    fail(ErrorKind::Usage, "--parse-special is about the text of --prompt or --file; with --tokens, leave it out");
  }
  Prompt prompt;
  prompt.parse_special = flags.parse_special;
  if (flags.prompt) prompt.text = *flags.prompt;
  if (flags.prompt_file) prompt.text = read_text_file("--file", *flags.prompt_file);
  if (flags.tokens) prompt.ids = *flags.tokens;
  return prompt;
}

std::vector<TokenId> encode_text(const Prompt& prompt, const Tokenizer& tokenizer, const std::string& file) {
  const std::string& text = *prompt.text;
  const auto special = prompt.parse_special ? SpecialTokens::Parse : SpecialTokens::AsText;
  if (const auto lost = tokenizer.first_lost_byte(text, special)) {
    fail(ErrorKind::Unsupported,
         "the text has the byte {:#04x} at offset {}, for which the vocabulary of {} has no token; "
         "leave it out",
         lost->byte, lost->offset, file);
  }
  return tokenizer.encode(text, special);
}

std::vector<TokenId> check_ids(const std::vector<int64_t>& ids, int64_t vocab) {
  std::vector<TokenId> tokens;
  for (const int64_t id : ids) {
    if (id < 0 || id >= vocab) {
      fail(ErrorKind::Usage, "--tokens: item {} is {}, which is outside the vocabulary; ids are 0 to {}",
           tokens.size() + 1, id, vocab - 1);
    }
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

std::vector<TokenId> encode_prompt(const Prompt& prompt, const Model& model, const Flags& flags) {
  if (!prompt.text) return check_ids(prompt.ids, model.spec.vocab);
  const Tokenizer& encoder = model.encoder("give token ids with --tokens");
  const int64_t most = most_positions(flags, model.spec);
  const auto least = static_cast<int64_t>(prompt.text->size() / encoder.most_bytes_per_token());
  if (least > most) {
    fail(ErrorKind::DoesNotFit, "the prompt has {} bytes, which are at least {} tokens, but {} holds {}",
         prompt.text->size(), least, flags.context ? "--ctx" : model.spec.file, most);
  }
  std::vector<TokenId> tokens = encode_text(prompt, encoder, model.spec.file);
  tokens.insert(tokens.begin(), encoder.prefix().begin(), encoder.prefix().end());
  // Special tokens may lie beyond the model's embeddings.
  const auto beyond = std::ranges::find_if(tokens, [&](TokenId token) { return token >= model.spec.vocab; });
  if (beyond != tokens.end()) {
    fail(ErrorKind::Unsupported, "the prompt has the token {} ({}), but {} has embeddings of ids below {} alone",
         *beyond, in_quotes(encoder.piece(*beyond)), model.spec.file, model.spec.vocab);
  }
  if (tokens.empty()) fail(ErrorKind::Usage, "the prompt is empty; this model needs at least one token");
  return tokens;
}

}  // namespace lockstep
