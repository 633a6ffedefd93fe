// From the tokenizer files of a Hugging Face folder to a pipeline: everything they say is checked here and in the
// parts, and nowhere later.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "text/bpe.h"
#include "text/harmless_cuts.h"
#include "text/json_field.h"
#include "text/pipeline.h"
#include "text/tokenizer_json_events.h"
#include "text/tokenizer_json_parts.h"

namespace lockstep {
namespace {

using nlohmann::json;

constexpr size_t kMostTokens = size_t{1} << 22;  // four times the largest known
constexpr size_t kMostMerges = size_t{1} << 23;
constexpr int64_t kMostHoles = 65536;  // ids without a token

class Reader final : public TokenizerJsonVisitor {
 public:
  explicit Reader(const TokenizerFiles& files) : files_(files), name_(files.tokenizer.name) {}

  std::unique_ptr<const Pipeline> read() {
    json rest = read_tokenizer_json(files_.tokenizer, *this);
    if (merges_too_early_) {
      pass_ = Pass::MergesAlone;
      read_tokenizer_json(files_.tokenizer, *this);
    }
    const JsonField root(name_, "", rest);
    root.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                     "post_processor", "decoder", "model"});
    if (root.has("version") && root.string("version") != "1.0") root.at("version").unsupported("1.0");

    // A key that is missing is as one that is null.
    const json nothing;
    const auto part = [&](const char* key) { return root.has(key) ? root.at(key) : JsonField(name_, key, nothing); };
    p_->normalizer = Normalizer(read_normalizer(part("normalizer")));
    PreTokenizerSteps pre = read_pre_tokenizer(part("pre_tokenizer"));
    p_->decoder = read_decoder(part("decoder"));
    const PromptTokens prompt = read_post_processor(part("post_processor"));

    place_added_tokens();
    check_holes();
    const JsonField model = root.at("model");
    read_model(model, pre);
    p_->pre_tokenizer = PreTokenizer(std::move(pre.steps));
    for (const int64_t id : prompt.prefix) p_->prefix.push_back(checked_id(part("post_processor"), id));
    for (const int64_t id : prompt.suffix) p_->suffix.push_back(checked_id(part("post_processor"), id));
    read_named_tokens();
    find_stop_tokens();
    return std::move(p_);
  }

  void vocabulary(const std::string& key, const json& value) override {
    if (pass_ == Pass::MergesAlone) return;
    const size_t index = entries_++;
    if (entries_ > kMostTokens) bad("model.vocab has more than {} tokens", kMostTokens);
    if (value.is_array()) {
      if (value.size() != 2 || !value[0].is_string() || !value[1].is_number()) {
        bad("model.vocab[{}] must be a token and its score", index);
      }
      const double score = value[1].get<double>();
      if (!std::isfinite(score)) bad("model.vocab[{}] has the score {}", index, value[1].dump());
      scores_.push_back(score);
      add_to_vocabulary(value[0].get_ref<const std::string&>(), static_cast<int64_t>(index));
    } else {
      if (!value.is_number_integer()) bad("model.vocab gives {} the id {}", in_quotes(key), short_of(value));
      add_to_vocabulary(key, value.is_number_unsigned() && value.get<uint64_t>() > INT32_MAX
                                 ? std::numeric_limits<int64_t>::max()
                                 : value.get<int64_t>());
    }
  }

  void merge(const json& value) override {
    if (entries_ == 0) {
      merges_too_early_ = true;
      return;
    }
    if (pass_ == Pass::All && merges_too_early_) return;
    const size_t index = merges_.size();
    if (index == kMostMerges) bad("model.merges has more than {} entries", kMostMerges);
    std::string_view left, right;
    if (value.is_string()) {
      const std::string_view text = value.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == text.npos || text.rfind(' ') != space) bad_merge(index, value);
      left = text.substr(0, space), right = text.substr(space + 1);
    } else {
      if (!value.is_array() || value.size() != 2 || !value[0].is_string() || !value[1].is_string())
        bad_merge(index, value);
      left = value[0].get_ref<const std::string&>(), right = value[1].get_ref<const std::string&>();
    }
    if (left.empty() || right.empty()) bad_merge(index, value);
    merges_.emplace_back(merge_part(index, left), merge_part(index, right));
  }

  void added_token(const json& value) override {
    if (pass_ == Pass::MergesAlone) return;
    const JsonField token(name_, fmt::format("added_tokens[{}]", added_.size()), value);
    token.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken added;
    added.text = token.string("content");
    added.special = token.boolean_or("special", false);
    added.single_word = token.boolean_or("single_word", false);
    added.strips_left = token.boolean_or("lstrip", false);
    added.strips_right = token.boolean_or("rstrip", false);
    added.normalized = token.boolean_or("normalized", !added.special);
    if (added.text.empty()) token.at("content").malformed("is empty");
    if (added.text.size() > kMostAddedTokenBytes) {
      token.at("content").malformed("has {} bytes; an added token has at most {}", added.text.size(),
                                    kMostAddedTokenBytes);
    }
    added_bytes_ += added.text.size();
    if (added_bytes_ > kMostAddedBytes) {
      token.malformed("makes {} bytes of added tokens; all of them together have at most {}", added_bytes_,
                      kMostAddedBytes);
    }
    added.id = static_cast<TokenId>(token.at("id").integer(0, static_cast<int64_t>(kMostTokens) + kMostHoles));
    added_.push_back(std::move(added));
  }

 private:
  enum class Pass { All, MergesAlone };

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::Malformed, "{}: {}", name_, fmt::format(format, std::forward<Args>(args)...));
  }
  static std::string short_of(const json& value) {
    return value.is_structured() ? "that is no number" : in_quotes(value.dump());
  }
  [[noreturn]] void bad_merge(size_t index, const json& value) const {
    bad("model.merges[{}] is {}; a merge is two tokens: a pair, or a string with one space between them", index,
        value.is_string() ? in_quotes(value.get_ref<const std::string&>()) : "no such pair");
  }

  void add_to_vocabulary(std::string_view text, int64_t id) {
    if (text.size() > kMostTokenBytes) {
      bad("model.vocab has a token of {} bytes, {}; a token has at most {}", text.size(), in_quotes(text),
          kMostTokenBytes);
    }
    vocabulary_bytes_ += text.size();
    if (vocabulary_bytes_ > kMostVocabularyBytes)
      bad("model.vocab has more than {} bytes of tokens", kMostVocabularyBytes);
    if (id < 0 || id >= static_cast<int64_t>(kMostTokens) + kMostHoles) {
      bad("model.vocab gives {} the id {}; ids are 0 to {}", in_quotes(text), id,
          static_cast<int64_t>(kMostTokens) + kMostHoles - 1);
    }
    if (p_->tokens.contains(id)) {
      bad("model.vocab gives {} the id {}, which {} has too", in_quotes(text), id,
          in_quotes(p_->tokens.text(static_cast<TokenId>(id))));
    }
    if (p_->tokens.find(text) >= 0) bad("model.vocab has the token {} twice", in_quotes(text));
    p_->tokens.insert(text, static_cast<TokenId>(id));
  }

  TokenId merge_part(size_t index, std::string_view text) const {
    const TokenId id = p_->tokens.find(text);
    if (id < 0) bad("model.merges[{}] has {}, which is not in model.vocab", index, in_quotes(text));
    return id;
  }

  // Ids that no token has are allowed, but not so many that they would be most of the memory.
  void check_holes() const {
    const auto tokens = static_cast<int64_t>(entries_ + added_.size());
    if (p_->tokens.size() == 0) bad("model.vocab has no token");
    if (p_->tokens.size() > 2 * tokens + kMostHoles) {
      bad("the largest token id is {}, but there are only {} tokens", p_->tokens.size() - 1, tokens);
    }
  }

  void place_added_tokens() {
    for (size_t i = 0; i < added_.size(); ++i) {
      const AddedToken& token = added_[i];
      const TokenKind kind = token.special ? TokenKind::Special : TokenKind::UserDefined;
      const TokenId known = p_->tokens.find(token.text);
      if (known >= 0 && known != token.id) {
        bad("added_tokens[{}] gives {} the id {}, but model.vocab {}", i, in_quotes(token.text), token.id, known);
      }
      if (known < 0 && p_->tokens.contains(token.id)) {
        bad("added_tokens[{}] gives {} the id {}, which {} has", i, in_quotes(token.text), token.id,
            in_quotes(p_->tokens.text(token.id)));
      }
      if (known >= 0) {
        p_->tokens.set_kind(token.id, kind);
      } else {
        p_->tokens.insert_outside_model(token.text, token.id, kind);
      }
    }
    std::vector<AddedToken> found = added_;
    // Of tokens that are the same after normalising, special ones count before others.
    std::ranges::stable_sort(found, std::greater{}, &AddedToken::special);
    for (AddedToken& token : found) {
      if (!token.normalized || p_->normalizer.empty()) continue;
      token.text = p_->normalizer.apply(token.text).text;
      // As Hugging Face gives it back too.
      if (token.text != p_->tokens.text(token.id)) p_->decoded_as.emplace(token.id, token.text);
    }
    std::erase_if(found, [](const AddedToken& token) { return token.text.empty(); });
    p_->added = AddedTokens(std::move(found));
  }

  // ---- the model ----

  void read_model(const JsonField& model, PreTokenizerSteps& pre) {
    if (entries_ == 0) bad("model.vocab is missing or empty");
    // Old files do not name it.
    const std::string type = model.string_or("type", !merges_.empty() ? "BPE" : !scores_.empty() ? "Unigram" : "");
    const bool has_scores = !scores_.empty();
    if (has_scores != (type == "Unigram") || (has_scores && scores_.size() != entries_)) {
      bad("model.vocab must be {} for a model of type {}", type == "Unigram" ? "an array" : "an object",
          in_quotes(type));
    }
    if (type == "BPE") {
      read_bpe(model, pre);
    } else if (type == "Unigram") {
      read_unigram(model);
    } else if (type == "WordPiece") {
      read_word_piece(model);
    } else if (type == "WordLevel") {
      read_word_level(model);
    } else {
      model.at("type").unsupported("BPE, Unigram, WordPiece, WordLevel");
    }
    if (type != "BPE" && std::exchange(pre.byte_level, false)) pre.steps.emplace_back(pre_tokenize::ByteLevel());
  }

  // The id of a token that a member of the model names.
  std::optional<TokenId> named_token(const JsonField& model, std::string_view key) const {
    if (!model.has(key)) return std::nullopt;
    const TokenId id = p_->tokens.find(model.string(key));
    if (id < 0) model.at(key).malformed("is {}, which is not in model.vocab", in_quotes(model.string(key)));
    return id;
  }

  void read_bpe(const JsonField& model, PreTokenizerSteps& pre) {
    model.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                      "byte_fallback", "ignore_merges"});
    if (model.has("dropout") && model.at("dropout").value() != 0.0) model.at("dropout").unsupported("null and 0");
    BpeModel::Options options;
    options.unknown = named_token(model, "unk_token");
    options.fuse_unknown = model.boolean_or("fuse_unk", false);
    options.byte_fallback = model.boolean_or("byte_fallback", false);
    options.ignore_merges = model.boolean_or("ignore_merges", false);
    options.byte_level = std::exchange(pre.byte_level, false);
    options.continuing_subword_prefix = model.string_or("continuing_subword_prefix", "");
    options.end_of_word_suffix = model.string_or("end_of_word_suffix", "");
    p_->description = fmt::format("{}BPE (tokenizer.json)", options.byte_level ? "byte-level " : "");
    if (!options.byte_level && !options.ignore_merges && options.continuing_subword_prefix.empty() &&
        options.end_of_word_suffix.empty()) {
      if (auto cut = harmless_cut(p_->tokens, options.unknown)) pre.steps.emplace_back(std::move(*cut));
    }
    MergeTable merges = merge_table(options.continuing_subword_prefix);
    p_->model = std::make_unique<BpeModel>(p_->tokens, std::move(merges), std::move(options));
  }

  MergeTable merge_table(std::string_view continuing) {
    MergeTable table(merges_.size());
    for (size_t rank = 0; rank < merges_.size(); ++rank) {
      const auto [left, right] = merges_[rank];
      const std::string_view tail = p_->tokens.text(right);
      if (tail.size() < continuing.size()) {
        bad("model.merges[{}] has {} on its right, which is shorter than continuing_subword_prefix", rank,
            in_quotes(tail));
      }
      const std::string joined = std::string(p_->tokens.text(left)).append(tail.substr(continuing.size()));
      if (!table.insert(left, right, static_cast<uint32_t>(rank), merge_part(rank, joined))) {
        bad("model.merges[{}] joins {} and {}, which an earlier entry does too", rank, in_quotes(p_->tokens.text(left)),
            in_quotes(tail));
      }
    }
    merges_ = {};
    return table;
  }

  void read_unigram(const JsonField& model) {
    model.allow_only({"type", "unk_id", "byte_fallback"});
    check_trie_tokens();
    std::optional<TokenId> unknown;
    if (model.has("unk_id")) {
      unknown = static_cast<TokenId>(model.at("unk_id").integer(0, static_cast<int64_t>(entries_) - 1));
    }
    p_->description = "Unigram (tokenizer.json)";
    p_->model = std::make_unique<UnigramModel>(p_->tokens, std::move(scores_), unknown,
                                               model.boolean_or("byte_fallback", false));
  }

  void read_word_piece(const JsonField& model) {
    model.allow_only({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"});
    check_trie_tokens();
    const TokenId unknown = unknown_token(model);
    const int64_t most = model.at("max_input_chars_per_word").integer(0, int64_t{1} << 30);
    p_->description = "WordPiece (tokenizer.json)";
    p_->model = std::make_unique<WordPieceModel>(p_->tokens, unknown, model.string_or("continuing_subword_prefix", ""),
                                                 static_cast<size_t>(most));
  }

  void read_word_level(const JsonField& model) {
    model.allow_only({"type", "unk_token"});
    p_->description = "WordLevel (tokenizer.json)";
    p_->model = std::make_unique<WordLevelModel>(p_->tokens, unknown_token(model));
  }

  // Of a model that cannot do without.
  TokenId unknown_token(const JsonField& model) const {
    const auto unknown = named_token(model, "unk_token");
    if (!unknown) bad("model.unk_token is missing");
    return *unknown;
  }

  void check_trie_tokens() const {
    for (TokenId id = 0; id < p_->tokens.size(); ++id) {
      const size_t bytes = p_->tokens.text(id).size();
      if (bytes <= Trie::kLongestToken || p_->tokens.find(p_->tokens.text(id)) != id) continue;
      bad("model.vocab has {}, of {} bytes; a token of such a model has at most {}", in_quotes(p_->tokens.text(id)),
          bytes, Trie::kLongestToken);
    }
  }

  // ---- what the other files say ----

  TokenId checked_id(const JsonField& field, int64_t id) const {
    if (!p_->tokens.contains(id)) field.malformed("names the id {}, which no token has", id);
    return static_cast<TokenId>(id);
  }

  // Of added tokens too.
  std::optional<TokenId> find_any(std::string_view text) const {
    const auto added = std::ranges::find_if(added_, [&](const AddedToken& token) { return token.text == text; });
    if (added != added_.end()) return added->id;
    const TokenId id = p_->tokens.find(text);
    return id < 0 ? std::nullopt : std::optional(id);
  }

  // Members "..._token" of a small file: a string, or an object with "content".
  void read_names(const JsonField& file) {
    for (const auto& [key, value] : file.value().items()) {
      if (!key.ends_with("_token")) continue;
      const bool is_object = value.is_object() && value.contains("content") && value["content"].is_string();
      if (is_object) p_->named_tokens.emplace(key, value["content"].get<std::string>());
      if (value.is_string()) p_->named_tokens.emplace(key, value.get<std::string>());
    }
  }

  void read_named_tokens() {
    std::optional<bool> add_bos;
    if (!files_.config.text.empty()) {
      const json config = read_small_json(files_.config);
      const JsonField field(files_.config.name, "", config);
      read_names(field);
      if (field.has("extra_special_tokens") && config["extra_special_tokens"].is_object()) {
        read_names(field.at("extra_special_tokens"));
      }
      if (field.has("add_bos_token")) add_bos = field.boolean("add_bos_token");
    }
    if (!files_.special_tokens.text.empty()) {
      const json names = read_small_json(files_.special_tokens);
      read_names(JsonField(files_.special_tokens.name, "", names));
    }
    if (const auto named = p_->named_tokens.find("bos_token"); named != p_->named_tokens.end()) {
      p_->bos = find_any(named->second);
    } else if (p_->prefix.size() == 1 && files_.config.text.empty()) {
      p_->bos = p_->prefix.front();
    }
    if (!add_bos || !p_->bos) return;
    // It overrules the post-processor, as in transformers.
    const auto begins = !p_->prefix.empty() && p_->prefix.front() == *p_->bos;
    if (*add_bos && !begins) p_->prefix.insert(p_->prefix.begin(), *p_->bos);
    if (!*add_bos && begins) p_->prefix.erase(p_->prefix.begin());
  }

  void find_stop_tokens() {
    std::vector<TokenId> named;
    if (const auto eos = p_->named_tokens.find("eos_token"); eos != p_->named_tokens.end()) {
      if (const auto id = find_any(eos->second)) named.push_back(*id);
    }
    for (const int64_t id : files_.end_ids) {
      if (p_->tokens.contains(id)) named.push_back(static_cast<TokenId>(id));
    }
    p_->stop_tokens = stop_tokens_of(p_->tokens, named);
  }

  const TokenizerFiles& files_;
  const std::string& name_;
  std::unique_ptr<Pipeline> p_ = std::make_unique<Pipeline>();
  Pass pass_ = Pass::All;
  bool merges_too_early_ = false;  // they came before the vocabulary
  size_t entries_ = 0;             // of model.vocab
  size_t vocabulary_bytes_ = 0, added_bytes_ = 0;
  std::vector<double> scores_;  // of a Unigram model, [id]
  std::vector<std::pair<TokenId, TokenId>> merges_;
  std::vector<AddedToken> added_;
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_files(const TokenizerFiles& files) {
  return std::make_unique<Tokenizer>(Reader(files).read());
}

}  // namespace lockstep
