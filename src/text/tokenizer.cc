// The way from text to tokens and back.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/pipeline.h"
#include "text/text.h"

namespace lockstep {
namespace {

constexpr size_t kMostText = size_t{1} << 30;  // bytes of one encode(); ICU counts in 32 bits

constexpr std::array<std::string_view, 7> kEndsAnswers{"<|im_end|>",
                                                       "<|eot_id|>",
                                                       "<|eom_id|>",
                                                       "<|end_of_text|>",
                                                       "<|endoftext|>",
                                                       "<end_of_turn>",
                                                       "<\xEF\xBD\x9C"
                                                       "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

// The tokens of short words met before in one call of encode(): most words of a long text are few. A slot is a line of
// the processor's cache; a word overwrites what was in its slot.
class WordCache {
 public:
  // Little text repeats little.
  explicit WordCache(size_t text_bytes)
      : slots_(text_bytes < 4096 ? 0 : std::bit_ceil(std::min<size_t>(text_bytes / 8, 1 << 14))) {}

  // The tokens of the word, or nothing.
  bool append(std::string_view word, std::vector<TokenId>& out) const {
    if (slots_.empty() || word.size() > kWord) return false;
    const Slot& slot = slots_[index(word)];
    if (slot.size != word.size() || std::memcmp(slot.word.data(), word.data(), word.size()) != 0) return false;
    out.insert(out.end(), slot.tokens.begin(), slot.tokens.begin() + slot.count);
    return true;
  }
  void keep(std::string_view word, std::span<const TokenId> tokens) {
    if (slots_.empty() || word.size() > kWord || tokens.size() > kTokens) return;
    Slot& slot = slots_[index(word)];
    slot.size = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(tokens.size());
    std::ranges::copy(word, slot.word.begin());
    std::ranges::copy(tokens, slot.tokens.begin());
  }

 private:
  static constexpr size_t kWord = 26, kTokens = 9;
  struct Slot {
    std::array<char, kWord> word;
    uint8_t size = 0, count = 0;  // size 0: free
    std::array<TokenId, kTokens> tokens;
  };
  static_assert(sizeof(Slot) == 64);
  size_t index(std::string_view word) const { return std::hash<std::string_view>()(word) & (slots_.size() - 1); }

  std::vector<Slot> slots_;
};

// One call of encode().
class Encoding {
 public:
  Encoding(const Pipeline& pipeline, std::string_view text, SpecialTokens special,
           std::span<const TextRange> written = {})
      : p_(pipeline), text_(text), special_(special), written_(written), cache_(text.size()) {}

  void run() {
    if (text_.size() > kMostText) {
      fail(ErrorKind::DoesNotFit, "text of {} bytes cannot be tokenized: at most {} at once", text_.size(), kMostText);
    }
    tokens_.reserve(text_.size() / 4);
    for (const auto& segment : p_.added.find(text_, false, special_, written_)) {
      if (segment.id >= 0) {
        tokens_.push_back(segment.id);
      } else {
        bytes(segment.begin, segment.end);
      }
    }
  }

  std::vector<TokenId> take_tokens() { return std::move(tokens_); }
  std::optional<LostByte> first_lost() const { return first_lost_; }

 private:
  void lose(size_t offset, char byte) {
    if (!first_lost_) first_lost_ = LostByte{offset, static_cast<uint8_t>(byte)};
  }

  // Bytes that are no UTF-8 become a token each; the text between them is encoded as if it stood alone.
  void bytes(size_t begin, size_t end) {
    size_t done = begin;
    for (size_t i = begin; i < end;) {
      if (static_cast<unsigned char>(text_[i]) < 0x80) {
        ++i;
        continue;
      }
      const auto [kind, length] = next_utf8(text_.substr(i, end - i));
      if (kind != Utf8Kind::Character) {
        characters(done, i);
        for (size_t k = i; k < i + length; ++k) {
          const TokenId token = p_.model->byte_token(static_cast<uint8_t>(text_[k]));
          if (token >= 0) {
            tokens_.push_back(token);
          } else {
            lose(k, text_[k]);
          }
        }
        done = i + length;
      }
      i += length;
    }
    characters(done, end);
  }

  // Valid UTF-8 between added tokens.
  void characters(size_t begin, size_t end) {
    if (begin == end) return;
    Normalizer::Text normalised{std::string(), 1};
    if (!p_.normalizer.empty()) normalised = p_.normalizer.apply(text_.substr(begin, end - begin));
    const std::string_view text = p_.normalizer.empty() ? text_.substr(begin, end - begin) : normalised.text;
    for (const auto& segment : p_.added.find(text, true, special_, {})) {
      if (segment.id >= 0) {
        tokens_.push_back(segment.id);
        continue;
      }
      const bool begins_text = begin == 0 && segment.begin < normalised.front;
      words(text.substr(segment.begin, segment.end - segment.begin), begin + segment.begin, begins_text);
    }
  }

  // `offset`: of the text in the whole, for what is lost.
  void words(std::string_view text, size_t offset, bool begins_text) {
    Words words{std::string(text), {{0, text.size()}}, begins_text};
    p_.pre_tokenizer.apply(words);
    for (const auto& range : words.ranges) {
      const std::string_view word = std::string_view(words.text).substr(range.begin, range.end - range.begin);
      if (cache_.append(word, tokens_)) continue;
      const size_t before = tokens_.size();
      p_.model->encode(word, scratch_, tokens_);
      if (scratch_.lost) {
        lose(offset + range.begin + *scratch_.lost, word[*scratch_.lost]);
      } else {
        cache_.keep(word, std::span(tokens_).subspan(before));
      }
    }
  }

  const Pipeline& p_;
  const std::string_view text_;
  const SpecialTokens special_;
  const std::span<const TextRange> written_;
  WordCache cache_;
  ModelScratch scratch_;
  std::vector<TokenId> tokens_;
  std::optional<LostByte> first_lost_;
};

}  // namespace

bool ends_answers(std::string_view text) {
  return std::ranges::find(kEndsAnswers, text) != kEndsAnswers.end();
}

Tokenizer::Tokenizer(std::unique_ptr<const Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens special,
                                       std::span<const TextRange> written) const {
  if (pipeline_->added.normalizes_special() && !written.empty()) return encode_apart(text, special, written);
  Encoding encoding(*pipeline_, text, special, written);
  encoding.run();
  return encoding.take_tokens();
}

// What was written and what stands between is encoded piece by piece.
std::vector<TokenId> Tokenizer::encode_apart(std::string_view text, SpecialTokens special,
                                             std::span<const TextRange> written) const {
  std::vector<TokenId> tokens;
  const auto add = [&](size_t begin, size_t end, SpecialTokens how) {
    const std::vector<TokenId> more = encode(text.substr(begin, end - begin), how);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  size_t done = 0;
  for (const TextRange& range : written) {
    const size_t end = std::min(range.end, text.size());
    add(done, range.begin, special);
    add(range.begin, end, SpecialTokens::AsText);
    done = end;
  }
  add(done, text.size(), special);
  return tokens;
}

std::optional<LostByte> Tokenizer::first_lost_byte(std::string_view text, SpecialTokens special) const {
  const TokenModel& model = *pipeline_->model;
  const auto has_token = [&](char byte) { return model.byte_token(static_cast<uint8_t>(byte)) >= 0; };
  // Without a normaliser no bytes come in that the text does not have.
  if (pipeline_->normalizer.empty() && model.byte_tokens_suffice() && std::ranges::all_of(text, has_token)) {
    return std::nullopt;
  }
  Encoding encoding(*pipeline_, text, special);
  encoding.run();
  return encoding.first_lost();
}

size_t Tokenizer::most_bytes_per_token() const {
  const auto shrinking = pipeline_->normalizer.most_shrinking();
  if (!pipeline_->is_bounded() || !shrinking) return std::numeric_limits<size_t>::max();
  return pipeline_->tokens.longest() * *shrinking;
}

void Tokenizer::decode(std::span<const TokenId> tokens, bool show_special, TokenDecoding& decoding) const {
  const TokenTable& table = pipeline_->tokens;
  for (const TokenId token : tokens) {
    if (token < 0 || token >= table.size()) {
      fail(ErrorKind::Usage, "token {} is outside the vocabulary: ids are 0 to {}", token, table.size() - 1);
    }
    const TokenKind kind = table.kind(token);
    if (kind == TokenKind::Missing || (kind == TokenKind::Special && !show_special)) continue;
    const auto other = pipeline_->decoded_as.find(token);
    decoding.put(other == pipeline_->decoded_as.end() ? table.text(token) : other->second, table.is_literal(token));
  }
}

std::string Tokenizer::decode(std::span<const TokenId> tokens, bool show_special) const {
  TokenDecoding decoding(pipeline_->decoder, TokenDecoding::Mode::Whole);
  decode(tokens, show_special, decoding);
  decoding.finish();
  return decoding.take();
}

std::string Tokenizer::piece(TokenId token) const {
  TokenDecoding decoding(pipeline_->decoder, TokenDecoding::Mode::Inside);
  decode({&token, 1}, true, decoding);
  decoding.finish();
  return decoding.take();
}

int64_t Tokenizer::vocab_size() const {
  return pipeline_->tokens.size();
}
std::string_view Tokenizer::description() const {
  return pipeline_->description;
}
bool Tokenizer::is_special(TokenId token) const {
  if (token < 0 || token >= vocab_size()) {
    fail(ErrorKind::Usage, "token {} is outside the vocabulary: ids are 0 to {}", token, vocab_size() - 1);
  }
  return pipeline_->tokens.kind(token) == TokenKind::Special;
}
std::optional<TokenId> Tokenizer::bos() const {
  return pipeline_->bos;
}
std::span<const TokenId> Tokenizer::prefix() const {
  return pipeline_->prefix;
}
std::span<const TokenId> Tokenizer::suffix() const {
  return pipeline_->suffix;
}
std::span<const TokenId> Tokenizer::stop_tokens() const {
  return pipeline_->stop_tokens;
}
const std::map<std::string, std::string>& Tokenizer::named_tokens() const {
  return pipeline_->named_tokens;
}

}  // namespace lockstep
