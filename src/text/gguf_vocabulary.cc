// From the tokenizer.ggml.* keys of a GGUF file to a tokenizer: everything the file says is checked here, and nowhere
// later.
#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/pre_tokenizer.h"
#include "text/text.h"

namespace lockstep {
namespace {

// Control tokens with one of these texts end a generation, beside eos and end of turn: many files name only one of the
// tokens their model ends an answer with.
constexpr std::array<std::string_view, 5> kStopTexts{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
                                                     "<|endoftext|>"};

// Bytes of a token's text. Encoding keeps to linear time and memory whatever these are; they bound what one entry of a
// crafted file can cost. The longest known tokens are a few hundred bytes, special ones below a hundred.
constexpr size_t kMaxToken = size_t{64} << 10;
constexpr size_t kMaxSpecialToken = 1024;
// Of all special tokens together: the automaton that finds them takes about a hundred bytes for each of theirs. Audio
// vocabularies, the largest users, have some tens of thousands of 20 bytes.
constexpr size_t kMaxSpecialTokens = size_t{4} << 20;

// One file's vocabulary under examination.
class VocabularyReader {
 public:
  explicit VocabularyReader(const GgufVocabulary& vocabulary) : v_(vocabulary) {}

  BpeTokenizer::Parts read() {
    BpeTokenizer::Parts parts;
    parts.rule = check_pre();
    index_tokens();
    check_types();
    check_special_tokens();
    parts.tokens = read_tokens();
    parts.byte_tokens = find_byte_tokens();
    parts.merges = read_merges(parts.tokens);
    parts.bos = read_id("bos_token_id", v_.bos);
    read_id("unknown_token_id", v_.unknown);
    read_id("padding_token_id", v_.padding);
    parts.add_bos = v_.add_bos.value_or(parts.rule->add_bos && parts.bos);
    if (parts.add_bos && !parts.bos) {
      bad("tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is missing");
    }
    parts.stop_tokens = read_stop_tokens();
    return parts;
  }

 private:
  enum GgufType : int64_t { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::Malformed, "{}: {}", v_.file, fmt::format(format, std::forward<Args>(args)...));
  }

  const PreTokenizerRule* check_pre() const {
    if (v_.model != "gpt2") {
      fail(ErrorKind::Unsupported, "{}: tokenizer.ggml.model is {}; the known one is gpt2 (byte-level BPE)", v_.file,
           in_quotes(v_.model));
    }
    const PreTokenizerRule* const rule = find_pre_tokenizer(v_.pre);
    if (rule == nullptr) {
      fail(ErrorKind::Unsupported,
           "{}: tokenizer.ggml.pre is {}; the known ones are {}: convert the model again with a converter that knows "
           "its "
           "tokenizer",
           v_.file, v_.pre.empty() ? "missing" : in_quotes(v_.pre), known_pre_tokenizers());
    }
    return rule;
  }

  void index_tokens() {
    if (v_.tokens.empty()) bad("tokenizer.ggml.tokens is empty");
    if (v_.tokens.size() > static_cast<size_t>(std::numeric_limits<TokenId>::max())) {
      bad("tokenizer.ggml.tokens has {} tokens; at most {} can be numbered", v_.tokens.size(),
          std::numeric_limits<TokenId>::max());
    }
    ids_.reserve(v_.tokens.size());
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      if (v_.tokens[i].empty()) bad("tokenizer.ggml.tokens[{}] is empty", i);
      if (v_.tokens[i].size() > kMaxToken) {
        bad("tokenizer.ggml.tokens[{}] has {} bytes; a token has at most {}", i, v_.tokens[i].size(), kMaxToken);
      }
      const auto [first, added] = ids_.emplace(v_.tokens[i], static_cast<TokenId>(i));
      if (!added) {
        bad("tokenizer.ggml.tokens[{}] is {}, as tokenizer.ggml.tokens[{}] is: every token may be there once", i,
            in_quotes(v_.tokens[i]), first->second);
      }
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
      if (kind(i) == BpeTokenizer::Kind::Normal) continue;
      const size_t size = v_.tokens[i].size();
      if (size > kMaxSpecialToken) {
        bad("tokenizer.ggml.tokens[{}] is of type {} and has {} bytes; a control or user-defined token has at most {}",
            i, v_.types[i], size, kMaxSpecialToken);
      }
      total += size;
      if (total > kMaxSpecialTokens) {
        bad("the control and user-defined ones of tokenizer.ggml.tokens, up to [{}], have {} bytes; all of them "
            "together have at most {}",
            i, total, kMaxSpecialTokens);
      }
    }
  }

  BpeTokenizer::Kind kind(size_t id) const {
    if (v_.types.empty()) return BpeTokenizer::Kind::Normal;
    if (v_.types[id] == Control || v_.types[id] == Unknown) return BpeTokenizer::Kind::Control;
    if (v_.types[id] == UserDefined) return BpeTokenizer::Kind::UserDefined;
    return BpeTokenizer::Kind::Normal;
  }

  // Only normal tokens are written in the byte-level alphabet; one that leaves it is taken literally.
  std::vector<BpeTokenizer::Token> read_tokens() const {
    std::vector<BpeTokenizer::Token> tokens;
    tokens.reserve(v_.tokens.size());
    for (size_t i = 0; i < v_.tokens.size(); ++i) {
      const std::string_view text = v_.tokens[i];
      std::optional<std::string> bytes;
      if (kind(i) == BpeTokenizer::Kind::Normal) bytes = alphabet_.bytes(text);
      tokens.push_back({bytes ? std::move(*bytes) : std::string(text), kind(i)});
    }
    return tokens;
  }

  std::array<TokenId, 256> find_byte_tokens() const {
    std::array<TokenId, 256> byte_tokens;
    byte_tokens.fill(-1);
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = ids_.find(alphabet_.character(static_cast<uint8_t>(byte)));
      if (found == ids_.end() || kind(static_cast<size_t>(found->second)) != BpeTokenizer::Kind::Normal) continue;
      byte_tokens[static_cast<size_t>(byte)] = found->second;
    }
    if (std::ranges::all_of(byte_tokens, [](TokenId id) { return id < 0; })) {
      bad("tokenizer.ggml.tokens has no token of a single byte: this is no byte-level vocabulary");
    }
    return byte_tokens;
  }

  std::vector<Merge> read_merges(const std::vector<BpeTokenizer::Token>& tokens) const {
    std::vector<Merge> merges;
    std::unordered_set<uint64_t> seen;
    merges.reserve(v_.merges.size());
    seen.reserve(v_.merges.size());
    for (size_t i = 0; i < v_.merges.size(); ++i) {
      const std::string_view merge = v_.merges[i];
      const size_t space = merge.find(' ');
      if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() || merge.rfind(' ') != space) {
        bad("tokenizer.ggml.merges[{}] is {}; a merge is two tokens with one space between them", i, in_quotes(merge));
      }
      const std::string_view left = merge.substr(0, space);
      const std::string_view right = merge.substr(space + 1);
      const Merge m{merge_part(i, left), merge_part(i, right), merge_part(i, std::string(left).append(right))};
      if (!seen.insert(uint64_t{static_cast<uint32_t>(m.left)} << 32 | static_cast<uint32_t>(m.right)).second) {
        bad("tokenizer.ggml.merges[{}] is {}, which an earlier entry is too", i, in_quotes(merge));
      }
      check_bytes(i, m, tokens);
      merges.push_back(m);
    }
    return merges;
  }

  // A control or user-defined token stands for its text, a normal one for what the byte-level alphabet makes of it:
  // where they differ, merging would change the text.
  void check_bytes(size_t merge, const Merge& m, const std::vector<BpeTokenizer::Token>& tokens) const {
    const auto bytes = [&](TokenId id) -> std::string_view { return tokens[static_cast<size_t>(id)].bytes; };
    if (bytes(m.result).size() == bytes(m.left).size() + bytes(m.right).size() &&
        bytes(m.result).starts_with(bytes(m.left)) && bytes(m.result).ends_with(bytes(m.right))) {
      return;
    }
    bad("tokenizer.ggml.merges[{}] is {}, but tokenizer.ggml.tokens[{}] stands for other bytes than its two parts [{}] "
        "and [{}]: only tokens of type 1, 5 and 6 are written in the byte-level alphabet",
        merge, in_quotes(v_.merges[merge]), m.result, m.left, m.right);
  }

  TokenId merge_part(size_t merge, std::string_view text) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) {
      bad("tokenizer.ggml.merges[{}] is {}, but {} is not in tokenizer.ggml.tokens", merge, in_quotes(v_.merges[merge]),
          in_quotes(text));
    }
    return found->second;
  }

  std::optional<TokenId> read_id(std::string_view key, std::optional<int64_t> id) const {
    if (!id) return std::nullopt;
    if (*id < 0 || *id >= static_cast<int64_t>(v_.tokens.size())) {
      bad("tokenizer.ggml.{} is {}; ids are 0 to {}", key, *id, v_.tokens.size() - 1);
    }
    return static_cast<TokenId>(*id);
  }

  std::vector<TokenId> read_stop_tokens() const {
    std::vector<TokenId> stop;
    const auto add = [&](TokenId id) {
      if (std::ranges::find(stop, id) == stop.end()) stop.push_back(id);
    };
    if (const auto id = read_id("eos_token_id", v_.eos)) add(*id);
    if (const auto id = read_id("eot_token_id", v_.end_of_turn)) add(*id);
    for (const std::string_view text : kStopTexts) {
      const auto found = ids_.find(text);
      if (found == ids_.end() || kind(static_cast<size_t>(found->second)) != BpeTokenizer::Kind::Control) continue;
      add(found->second);
    }
    return stop;
  }

  const GgufVocabulary& v_;
  const ByteAlphabet alphabet_;
  std::unordered_map<std::string_view, TokenId> ids_;  // by text as the file has it
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  return std::make_unique<BpeTokenizer>(VocabularyReader(vocabulary).read());
}

}  // namespace lockstep
