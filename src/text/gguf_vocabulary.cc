// From the tokenizer.ggml.* keys of a GGUF file to a pipeline: everything the file says is checked here, and nowhere
// later.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/gguf_pre_tokenizer.h"
#include "text/harmless_cuts.h"
#include "text/pipeline.h"
#include "text/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581, a space in SentencePiece vocabularies

std::string with_marks(std::string_view text) {
  std::string out;
  for (const char byte : text) out += byte == ' ' ? kMark : std::string_view(&byte, 1);
  return out;
}

// One file's vocabulary under examination.
class VocabularyReader {
 public:
  explicit VocabularyReader(const GgufVocabulary& vocabulary) : v_(vocabulary) {}

  std::unique_ptr<const Pipeline> read() {
    if (v_.model != "gpt2" && v_.model != "llama") {
      fail(ErrorKind::Unsupported,
           "{}: tokenizer.ggml.model is {}; the known ones are gpt2 (byte-level BPE) and llama (SentencePiece BPE)",
           v_.file, in_quotes(v_.model));
    }
    const bool byte_level = v_.model == "gpt2";
    const GgufPreTokenizer* const rule = byte_level ? check_pre() : nullptr;
    check_tokens();
    check_types();
    check_special_tokens();
    p_->bos = read_id("bos_token_id", v_.bos);
    unknown_ = read_id("unknown_token_id", v_.unknown);
    if (byte_level) {
      make_byte_level(*rule);
    } else {
      make_sentence_piece();
    }
    const bool family_adds_bos = byte_level ? rule->add_bos : true;
    if (v_.add_bos.value_or(family_adds_bos && p_->bos)) {
      if (!p_->bos) bad("tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is missing");
      p_->prefix.push_back(*p_->bos);
    }
    find_stop_tokens();
    name_tokens();
    return std::move(p_);
  }

 private:
  enum GgufType : int64_t { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::Malformed, "{}: {}", v_.file, fmt::format(format, std::forward<Args>(args)...));
  }

  const GgufPreTokenizer* check_pre() const {
    const GgufPreTokenizer* const rule = find_gguf_pre_tokenizer(v_.pre);
    if (rule == nullptr) {
      fail(ErrorKind::Unsupported,
           "{}: tokenizer.ggml.pre is {}; the known ones are {}: convert the model again with a converter that knows "
           "its "
           "tokenizer",
           v_.file, v_.pre.empty() ? "missing" : in_quotes(v_.pre), known_gguf_pre_tokenizers());
    }
    return rule;
  }

  void check_tokens() {
    if (v_.tokens.empty()) bad("tokenizer.ggml.tokens is empty");
    if (v_.tokens.size() > static_cast<size_t>(std::numeric_limits<TokenId>::max())) {
      bad("tokenizer.ggml.tokens has {} tokens; at most {} can be numbered", v_.tokens.size(),
          std::numeric_limits<TokenId>::max());
    }
    size_t total = 0;
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      if (v_.tokens[i].empty()) bad("tokenizer.ggml.tokens[{}] is empty", i);
      if (v_.tokens[i].size() > kMostTokenBytes) {
        bad("tokenizer.ggml.tokens[{}] has {} bytes; a token has at most {}", i, v_.tokens[i].size(), kMostTokenBytes);
      }
      total += v_.tokens[i].size();
      if (total > kMostVocabularyBytes) bad("tokenizer.ggml.tokens has more than {} bytes", kMostVocabularyBytes);
    }
  }

  void check_types() const {
    if (!v_.types.empty() && v_.types.size() != v_.tokens.size()) {
      bad("tokenizer.ggml.token_type has {} entries for the {} of tokenizer.ggml.tokens", v_.types.size(),
          v_.tokens.size());
    }
    for (size_t i = 0; i < v_.types.size(); ++i) {
      if (v_.types[i] < Normal || v_.types[i] > Byte) {
        bad("tokenizer.ggml.token_type[{}] is {}; the types are 1 to 6", i, v_.types[i]);
      }
    }
  }

  void check_special_tokens() const {
    size_t total = 0;
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      if (kind(i) == TokenKind::Normal) continue;
      const size_t size = v_.tokens[i].size();
      if (size > kMostAddedTokenBytes) {
        bad("tokenizer.ggml.tokens[{}] is a control or user-defined token and has {} bytes; such a one has at most {}",
            i, size, kMostAddedTokenBytes);
      }
      total += size;
      if (total > kMostAddedBytes) {
        bad("the control and user-defined ones of tokenizer.ggml.tokens, up to [{}], have {} bytes; all of them "
            "together have at most {}",
            i, total, kMostAddedBytes);
      }
    }
  }

  // Some converters write no types, or wrong ones for what ends an answer, which llama.cpp mends in the same way.
  TokenKind kind(size_t id) const {
    if (ends_answers(v_.tokens[id])) return TokenKind::Special;
    if (v_.types.empty()) return is_named(id) ? TokenKind::Special : TokenKind::Normal;
    if (v_.types[id] == Control || v_.types[id] == Unknown) return TokenKind::Special;
    return v_.types[id] == UserDefined ? TokenKind::UserDefined : TokenKind::Normal;
  }

  // By a tokenizer.ggml.*_token_id. A single character is ordinary text: 0 often stands for no padding at all.
  bool is_named(size_t id) const {
    if (next_utf8(v_.tokens[id]).length == v_.tokens[id].size()) return false;
    const std::array ids{v_.bos, v_.eos, v_.unknown, v_.padding, v_.end_of_turn};
    return std::ranges::find(ids, std::optional(static_cast<int64_t>(id))) != ids.end();
  }

  void insert(std::string_view text, size_t id) {
    if (const TokenId first = p_->tokens.find(text); first >= 0) {
      bad("tokenizer.ggml.tokens[{}] is {}, as tokenizer.ggml.tokens[{}] is: every token may be there once", id,
          in_quotes(v_.tokens[id]), first);
    }
    p_->tokens.insert(text, static_cast<TokenId>(id), kind(id));
  }

  // ---- gpt2: byte-level BPE ----

  // Only normal tokens are written in the byte alphabet; one that leaves it is taken literally.
  void make_byte_level(const GgufPreTokenizer& rule) {
    std::vector<AddedToken> added;
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      insert(v_.tokens[i], i);
      if (kind(i) == TokenKind::Normal) continue;
      p_->tokens.set_literal(static_cast<TokenId>(i));
      add(v_.tokens[i], i, false, added);
    }
    p_->added = AddedTokens(std::move(added));
    p_->description = fmt::format("byte-level BPE ({})", rule.name);
    if (rule.nfc) p_->normalizer = Normalizer(steps<normalize::Step>(NormalForm::C));
    std::vector<pre_tokenize::Step> pre;
    for (const std::string_view pattern : rule.patterns) {
      pre.emplace_back(pre_tokenize::Split{Pattern::regex(pattern, v_.file), pre_tokenize::Behavior::Isolated, false});
    }
    p_->pre_tokenizer = PreTokenizer(std::move(pre));
    p_->decoder = steps<decode::Step>(decode::ByteLevel());
    BpeModel::Options options;
    options.byte_level = true;
    options.ignore_merges = rule.ignore_merges;
    auto model = std::make_unique<BpeModel>(p_->tokens, read_merges(), options);
    bool any_byte = false;
    for (int byte = 0; byte < 256; ++byte) any_byte |= model->byte_token(static_cast<uint8_t>(byte)) >= 0;
    if (!any_byte) bad("tokenizer.ggml.tokens has no token of a single byte: this is no byte-level vocabulary");
    p_->model = std::move(model);
  }

  MergeTable read_merges() const {
    MergeTable merges(v_.merges.size());
    for (size_t i = 0; i < v_.merges.size(); ++i) {
      const std::string_view merge = v_.merges[i];
      const size_t space = merge.find(' ');
      if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() || merge.rfind(' ') != space) {
        bad("tokenizer.ggml.merges[{}] is {}; a merge is two tokens with one space between them", i, in_quotes(merge));
      }
      const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
      const TokenId l = merge_part(i, left), r = merge_part(i, right);
      const TokenId result = merge_part(i, std::string(left).append(right));
      if (!merges.insert(l, r, static_cast<uint32_t>(i), result)) {
        bad("tokenizer.ggml.merges[{}] is {}, which an earlier entry is too", i, in_quotes(merge));
      }
      check_bytes(i, l, r, result);
    }
    return merges;
  }

  std::string bytes_of(TokenId id) const {
    const std::string_view text = p_->tokens.text(id);
    auto bytes = p_->tokens.is_literal(id) ? std::nullopt : alphabet_.bytes(text);
    return bytes ? std::move(*bytes) : std::string(text);
  }

  // A control or user-defined token stands for its text, a normal one for what the byte alphabet makes of it: where
  // they differ, merging would change the text.
  void check_bytes(size_t merge, TokenId left, TokenId right, TokenId result) const {
    if (bytes_of(result) == bytes_of(left) + bytes_of(right)) return;
    bad("tokenizer.ggml.merges[{}] is {}, but tokenizer.ggml.tokens[{}] stands for other bytes than its two parts [{}] "
        "and [{}]: only tokens of type 1, 5 and 6 are written in the byte-level alphabet",
        merge, in_quotes(v_.merges[merge]), result, left, right);
  }

  TokenId merge_part(size_t merge, std::string_view text) const {
    const TokenId id = p_->tokens.find(text);
    if (id < 0) {
      bad("tokenizer.ggml.merges[{}] is {}, but {} is not in tokenizer.ggml.tokens", merge, in_quotes(v_.merges[merge]),
          in_quotes(text));
    }
    return id;
  }

  // ---- llama: BPE over characters by the scores of SentencePiece ----

  void make_sentence_piece() {
    if (v_.scores.size() != v_.tokens.size()) {
      bad("tokenizer.ggml.scores has {} entries for the {} of tokenizer.ggml.tokens", v_.scores.size(),
          v_.tokens.size());
    }
    std::vector<AddedToken> added;
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      if (!std::isfinite(v_.scores[i])) bad("tokenizer.ggml.scores[{}] is {}", i, v_.scores[i]);
      // Converters write spaces into user-defined tokens, which the vocabulary has as marks.
      const bool is_user_defined = kind(i) == TokenKind::UserDefined;
      const std::string text = is_user_defined ? with_marks(v_.tokens[i]) : std::string(v_.tokens[i]);
      insert(text, i);
      if (kind(i) == TokenKind::Normal) continue;
      add(text, i, false, added);
      // With its marks it is found where the text has spaces.
      if (is_user_defined && text.find(kMark) != text.npos) add(text, i, true, added);
    }
    const bool prefix = v_.add_space_prefix.value_or(true);
    p_->added = AddedTokens(std::move(added));
    p_->description = "SentencePiece BPE (llama)";
    std::vector<normalize::Step> normalizer;
    if (prefix) normalizer.emplace_back(normalize::Prepend{std::string(kMark)});
    normalizer.emplace_back(normalize::Replace{Pattern::literal(" "), std::string(kMark), 1});
    p_->normalizer = Normalizer(std::move(normalizer));
    if (auto cut = harmless_cut(p_->tokens, unknown_)) {
      p_->pre_tokenizer = PreTokenizer(steps<pre_tokenize::Step>(std::move(*cut)));
    }
    p_->decoder = steps<decode::Step>(
        decode::Replace{std::make_shared<const Pattern>(Pattern::literal(kMark)), std::string(kMark), " "},
        decode::ByteFallback(), decode::Fuse());
    if (prefix) p_->decoder.emplace_back(decode::Strip{" ", 1, 0});
    BpeModel::Options options;
    options.unknown = unknown_;
    options.fuse_unknown = true;
    options.byte_fallback = true;
    p_->model = std::make_unique<BpeModel>(p_->tokens, merges_by_score(), options);
  }

  // Any two tokens join whose texts together are a token; the one with the largest score first, and of equal scores
  // the leftmost.
  MergeTable merges_by_score() const {
    std::vector<double> scores;  // of tokens that merges make
    const auto is_made = [&](size_t id) {
      return kind(id) == TokenKind::Normal && (v_.types.empty() || v_.types[id] != Byte);
    };
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      if (is_made(i)) scores.push_back(v_.scores[i]);
    }
    std::ranges::sort(scores, std::greater{});
    scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
    MergeTable merges(v_.tokens.size());
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      const std::string_view text = v_.tokens[i];
      if (!is_made(i) || text.size() > kMostSplitBytes || !is_utf8(text)) continue;
      const auto rank =
          static_cast<uint32_t>(std::ranges::lower_bound(scores, v_.scores[i], std::greater{}) - scores.begin());
      for (size_t cut = first_character(text).length; cut < text.size();
           cut += first_character(text.substr(cut)).length) {
        const TokenId left = p_->tokens.find(text.substr(0, cut)), right = p_->tokens.find(text.substr(cut));
        if (left >= 0 && right >= 0) merges.insert(left, right, rank, static_cast<TokenId>(i));
      }
    }
    return merges;
  }

  // ---- both ----

  template <class Step, class... Made>
  static std::vector<Step> steps(Made&&... made) {
    std::vector<Step> all;
    (all.emplace_back(std::forward<Made>(made)), ...);
    return all;
  }

  void add(std::string_view text, size_t id, bool normalized, std::vector<AddedToken>& added) const {
    AddedToken token;
    token.text = text;
    token.id = static_cast<TokenId>(id);
    token.special = kind(id) == TokenKind::Special;
    token.normalized = normalized;
    added.push_back(std::move(token));
  }

  std::optional<TokenId> read_id(std::string_view key, std::optional<int64_t> id) const {
    if (!id) return std::nullopt;
    if (*id < 0 || *id >= static_cast<int64_t>(v_.tokens.size())) {
      bad("tokenizer.ggml.{} is {}; ids are 0 to {}", key, *id, v_.tokens.size() - 1);
    }
    return static_cast<TokenId>(*id);
  }

  void find_stop_tokens() {
    std::vector<TokenId> named;
    if (const auto id = read_id("eos_token_id", v_.eos)) named.push_back(*id);
    if (const auto id = read_id("eot_token_id", v_.end_of_turn)) named.push_back(*id);
    p_->stop_tokens = stop_tokens_of(p_->tokens, named);
  }

  void name_tokens() {
    const auto name = [&](const char* name, std::string_view key, std::optional<int64_t> given) {
      if (const auto id = read_id(key, given)) p_->named_tokens.emplace(name, p_->tokens.text(*id));
    };
    name("bos_token", "bos_token_id", v_.bos);
    name("eos_token", "eos_token_id", v_.eos);
    name("unk_token", "unknown_token_id", v_.unknown);
    name("pad_token", "padding_token_id", v_.padding);
  }

  static constexpr size_t kMostSplitBytes = 1024;  // of a token that merges make: each place in it is looked up

  const GgufVocabulary& v_;
  const ByteAlphabet alphabet_;
  std::unique_ptr<Pipeline> p_ = std::make_unique<Pipeline>();
  std::optional<TokenId> unknown_;
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  return std::make_unique<Tokenizer>(VocabularyReader(vocabulary).read());
}

}  // namespace lockstep
