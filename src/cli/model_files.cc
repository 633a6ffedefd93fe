// Opening a model, and the keys under which a GGUF file keeps its vocabulary.
#include "cli/model_files.h"

#include <spdlog/spdlog.h>

#include <limits>

#include "base/error.h"
#include "cli/output.h"

namespace lockstep {

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& path) {
  if (path.empty()) fail(ErrorKind::Usage, "--model is ''; it must name a file");
  auto checkpoint = Checkpoint::open(path);
  spdlog::debug("{}: {}, {} tensors, {}", path, checkpoint->format(), checkpoint->tensors().size(),
                human_bytes(checkpoint->file_bytes()));
  return checkpoint;
}

std::unique_ptr<Tokenizer> read_tokenizer(const Checkpoint& checkpoint) {
  const Metadata& metadata = checkpoint.metadata();
  const auto model = metadata.get_string("tokenizer.ggml.model");
  if (!model || *model == "none" || *model == "no_vocab") return nullptr;
  const auto id = [&](const char* key) { return metadata.get_int(key, 0, std::numeric_limits<TokenId>::max()); };
  GgufVocabulary vocabulary;
  vocabulary.file = metadata.file();
  vocabulary.model = *model;
  vocabulary.pre = metadata.get_string("tokenizer.ggml.pre").value_or("");
  vocabulary.tokens = metadata.get_strings("tokenizer.ggml.tokens");
  vocabulary.types = metadata.get_ints("tokenizer.ggml.token_type");
  vocabulary.merges = metadata.get_strings("tokenizer.ggml.merges");
  vocabulary.bos = id("tokenizer.ggml.bos_token_id");
  vocabulary.eos = id("tokenizer.ggml.eos_token_id");
  vocabulary.unknown = id("tokenizer.ggml.unknown_token_id");
  vocabulary.padding = id("tokenizer.ggml.padding_token_id");
  vocabulary.end_of_turn = id("tokenizer.ggml.eot_token_id");
  vocabulary.add_bos = metadata.get_bool("tokenizer.ggml.add_bos_token");
  auto tokenizer = Tokenizer::from_gguf(vocabulary);
  spdlog::debug("{}: {}, {} tokens", vocabulary.file, tokenizer->description(), tokenizer->vocab_size());
  return tokenizer;
}

std::string lack_of_tokenizer(const Checkpoint& checkpoint) {
  return fmt::format(
      "{}: {}", checkpoint.metadata().file(),
      checkpoint.naming() == Naming::Gguf ? "holds no tokenizer" : "the tokenizer.json beside it cannot be read yet");
}

std::unique_ptr<Tokenizer> need_tokenizer(const Checkpoint& checkpoint) {
  auto tokenizer = read_tokenizer(checkpoint);
  if (tokenizer == nullptr) {
    fail(ErrorKind::Unsupported, "{}; name a GGUF model that has one", lack_of_tokenizer(checkpoint));
  }
  return tokenizer;
}

const Tokenizer& Model::encoder() const {
  if (tokenizer == nullptr) fail(ErrorKind::Unsupported, "{}; or give token ids with --tokens", no_tokenizer);
  if (tokenizer->vocab_size() > spec.vocab) {
    fail(ErrorKind::Malformed,
         "{}: tokenizer.ggml.tokens has {} entries, but the model has {} token embeddings; give ids below {} with "
         "--tokens",
         spec.file, tokenizer->vocab_size(), spec.vocab, spec.vocab);
  }
  return *tokenizer;
}

Model open_model(const std::string& path) {
  Model model;
  model.checkpoint = open_checkpoint(path);
  model.spec = read_model(*model.checkpoint);
  try {
    model.tokenizer = read_tokenizer(*model.checkpoint);
    if (model.tokenizer == nullptr) model.no_tokenizer = lack_of_tokenizer(*model.checkpoint);
  } catch (const Error& error) {
    model.no_tokenizer = error.what();
  }
  return model;
}

}  // namespace lockstep
