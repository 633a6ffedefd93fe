// Opening a model, and where its tokenizer is: under which keys of a GGUF file, in which files of a folder.
#include "cli/model_files.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/output.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerJson = "tokenizer.json";

std::unique_ptr<Tokenizer> logged(std::unique_ptr<Tokenizer> tokenizer, const std::string& file) {
  spdlog::debug("{}: {}, {} tokens", file, tokenizer->description(), tokenizer->vocab_size());
  return tokenizer;
}

std::unique_ptr<Tokenizer> read_gguf_tokenizer(const Metadata& metadata) {
  const auto model = metadata.get_string("tokenizer.ggml.model");
  if (!model || *model == "none" || *model == "no_vocab") return nullptr;
  const auto id = [&](const char* key) { return metadata.get_int(key, 0, std::numeric_limits<TokenId>::max()); };
  GgufVocabulary vocabulary;
  vocabulary.file = metadata.file();
  vocabulary.model = *model;
  vocabulary.pre = metadata.get_string("tokenizer.ggml.pre").value_or("");
  vocabulary.tokens = metadata.get_strings("tokenizer.ggml.tokens");
  vocabulary.types = metadata.get_ints("tokenizer.ggml.token_type");
  vocabulary.scores = metadata.get_floats("tokenizer.ggml.scores");
  vocabulary.merges = metadata.get_strings("tokenizer.ggml.merges");
  vocabulary.bos = id("tokenizer.ggml.bos_token_id");
  vocabulary.eos = id("tokenizer.ggml.eos_token_id");
  vocabulary.unknown = id("tokenizer.ggml.unknown_token_id");
  vocabulary.padding = id("tokenizer.ggml.padding_token_id");
  vocabulary.end_of_turn = id("tokenizer.ggml.eot_token_id");
  vocabulary.add_bos = metadata.get_bool("tokenizer.ggml.add_bos_token");
  vocabulary.add_space_prefix = metadata.get_bool("tokenizer.ggml.add_space_prefix");
  return logged(Tokenizer::from_gguf(vocabulary), vocabulary.file);
}

// The token ids under a key that holds one or several.
void append_ids(const Metadata& metadata, const std::string& key, std::vector<int64_t>& ids) {
  const MetadataValue* const found = metadata.find(key);
  if (found == nullptr) return;
  if (std::holds_alternative<std::vector<int64_t>>(found->value)) {
    const auto list = metadata.get_ints(key);
    ids.insert(ids.end(), list.begin(), list.end());
  } else {
    ids.push_back(*metadata.get_int(key, 0, std::numeric_limits<TokenId>::max()));
  }
}

// A file that a tokenizer is read from, for as long as that takes; empty where it is not there.
class OptionalFile {
 public:
  explicit OptionalFile(const fs::path& path) {
    if (is_file(path)) mapped_.emplace(path);
  }
  JsonFile view() const {
    if (!mapped_) return {};
    return {mapped_->path(), {reinterpret_cast<const char*>(mapped_->bytes().data()), mapped_->bytes().size()}};
  }

 private:
  std::optional<MappedFile> mapped_;
};

// `json`: the tokenizer.json; what belongs to it lies beside it.
std::unique_ptr<Tokenizer> read_tokenizer_json(const fs::path& json, std::vector<int64_t> end_ids) {
  const fs::path folder = json.parent_path();
  const OptionalFile tokenizer(json), config(folder / "tokenizer_config.json"),
      special(folder / "special_tokens_map.json");
  TokenizerFiles files{tokenizer.view(), config.view(), special.view(), std::move(end_ids)};
  files.tokenizer.name = json.string();
  return logged(Tokenizer::from_files(files), files.tokenizer.name);
}

// nullptr when the folder has no tokenizer.
std::unique_ptr<Tokenizer> read_folder_tokenizer(const fs::path& folder, std::vector<int64_t> end_ids) {
  const fs::path json = folder / kTokenizerJson;
  if (is_file(json)) return read_tokenizer_json(json, std::move(end_ids));
  if (!is_file(folder / "tokenizer.model")) return nullptr;
  fail(ErrorKind::Unsupported,
       "{}: it is a SentencePiece model, which cannot be read; put the {} beside it that transformers writes: "
       "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
       (folder / "tokenizer.model").string(), kTokenizerJson);
}

std::string lack_of_tokenizer(const Checkpoint& checkpoint) {
  return fmt::format(
      "{}: {}", checkpoint.metadata().file(),
      checkpoint.naming() == Naming::Gguf ? "holds no tokenizer" : "there is no tokenizer.json beside it");
}

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is not there
  return fs::is_regular_file(path, ignored);
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& path) {
  if (path.empty()) fail(ErrorKind::Usage, "--model is ''; it must name a file");
  auto checkpoint = Checkpoint::open(path);
  spdlog::debug("{}: {}, {} tensors, {}", path, checkpoint->format(), checkpoint->tensors().size(),
                human_bytes(checkpoint->file_bytes()));
  return checkpoint;
}

std::unique_ptr<Tokenizer> read_tokenizer(const Checkpoint& checkpoint) {
  const Metadata& metadata = checkpoint.metadata();
  if (checkpoint.naming() == Naming::Gguf) return read_gguf_tokenizer(metadata);
  std::vector<int64_t> end_ids;
  for (const char* key : {"generation.eos_token_id", "eos_token_id", "text_config.eos_token_id"}) {
    append_ids(metadata, key, end_ids);
  }
  return read_folder_tokenizer(fs::path(metadata.file()).parent_path(), std::move(end_ids));
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  if (path.empty()) fail(ErrorKind::Usage, "--model is ''; it must name a file");
  const bool is_tokenizer_json = path.ends_with(".json") && !path.ends_with(".index.json") && is_file(path);
  if (is_tokenizer_json) return read_tokenizer_json(path, {});
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (auto tokenizer = read_folder_tokenizer(path, {})) return tokenizer;
  }
  const auto checkpoint = open_checkpoint(path);
  auto tokenizer = read_tokenizer(*checkpoint);
  if (tokenizer == nullptr) {
    fail(ErrorKind::Unsupported, "{}; name a model that has one", lack_of_tokenizer(*checkpoint));
  }
  return tokenizer;
}

const Tokenizer& Model::encoder(std::string_view way_out) const {
  if (tokenizer == nullptr) fail(ErrorKind::Unsupported, "{}; {}", no_tokenizer, way_out);
  int64_t ids = tokenizer->vocab_size();
  const auto is_beyond_text = [&](TokenId id) { return tokenizer->is_special(id) || tokenizer->piece(id).empty(); };
  if (checkpoint->naming() == Naming::HuggingFace) {
    while (ids > spec.vocab && is_beyond_text(static_cast<TokenId>(ids - 1))) --ids;
  }
  if (ids > spec.vocab) {
    fail(ErrorKind::Malformed, "{}: the tokenizer has {} tokens, but the model has {} token embeddings; {}", spec.file,
         tokenizer->vocab_size(), spec.vocab, way_out);
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
