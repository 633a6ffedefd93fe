// Opening a model, and the keys under which a GGUF file keeps its vocabulary.
#include "cli/model_files.h"

#include <limits>

namespace lockstep {

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
  return Tokenizer::from_gguf(vocabulary);
}

Model open_model(const std::string& path) {
  Model model;
  model.checkpoint = Checkpoint::open(path);
  model.spec = read_model(*model.checkpoint);
  model.tokenizer = read_tokenizer(*model.checkpoint);
  return model;
}

}  // namespace lockstep
