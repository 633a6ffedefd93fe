// The way from text to tokens and back.
#include "text/bpe.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/normalizer.h"

namespace lockstep {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;  // bytes of one encode(); ICU counts in 32 bits

std::vector<SpecialTokenFinder::Token> special_tokens(const std::vector<BpeTokenizer::Token>& tokens) {
  std::vector<SpecialTokenFinder::Token> special;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].kind == BpeTokenizer::Kind::Normal) continue;
    special.push_back({tokens[id].bytes, static_cast<TokenId>(id)});
  }
  return special;
}

}  // namespace

struct BpeTokenizer::Encoding {
  MergeModel::Scratch scratch;
  std::vector<TokenId> tokens;
  std::optional<LostByte> first_lost;
};

BpeTokenizer::BpeTokenizer(Parts parts)
    : rule_(parts.rule),
      description_(fmt::format("byte-level BPE ({})", rule_->name)),
      tokens_(std::move(parts.tokens)),
      special_tokens_(special_tokens(tokens_)),
      pre_tokenizer_(*rule_),
      merges_(parts.byte_tokens, std::move(parts.merges)),
      bos_(parts.bos),
      add_bos_(parts.add_bos),
      stop_tokens_(std::move(parts.stop_tokens)),
      every_byte_has_token_(std::ranges::all_of(parts.byte_tokens, [](TokenId id) { return id >= 0; })),
      longest_token_(
          std::ranges::max(tokens_, {}, [](const Token& token) { return token.bytes.size(); }).bytes.size()) {
  if (!rule_->whole_pieces) return;
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].kind == Kind::Normal) whole_pieces_.emplace(tokens_[id].bytes, static_cast<TokenId>(id));
  }
}

const BpeTokenizer::Token& BpeTokenizer::at(TokenId token) const {
  if (token < 0 || token >= vocab_size()) {
    fail(ErrorKind::Usage, "token {} is outside the vocabulary: ids are 0 to {}", token, vocab_size() - 1);
  }
  return tokens_[static_cast<size_t>(token)];
}

// With AsText the control tokens found are text; they still hide what lies inside them, as in Hugging Face's
// encode_special_tokens.
BpeTokenizer::Encoding BpeTokenizer::encode_all(std::string_view text, SpecialTokens special) const {
  if (text.size() > kMaxText) {
    fail(ErrorKind::DoesNotFit, "text of {} bytes cannot be tokenized: at most {} at once", text.size(), kMaxText);
  }
  Encoding encoding;
  size_t begin = 0;
  for (const auto& match : special_tokens_.find(text)) {
    if (special == SpecialTokens::AsText && is_special(match.id)) continue;
    encode_bytes(text.substr(begin, match.begin - begin), begin, encoding);
    encoding.tokens.push_back(match.id);
    begin = match.begin + match.length;
  }
  encode_bytes(text.substr(begin), begin, encoding);
  return encoding;
}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text, SpecialTokens special) const {
  return encode_all(text, special).tokens;
}

// Only NFC brings bytes that the text does not have.
std::optional<LostByte> BpeTokenizer::first_lost_byte(std::string_view text, SpecialTokens special) const {
  const bool nothing_lost = every_byte_has_token_ ||
                            (!rule_->nfc && std::ranges::all_of(text, [this](char byte) { return has_token(byte); }));
  return nothing_lost ? std::nullopt : encode_all(text, special).first_lost;
}

// NFC shrinks a text to no less than a quarter (the most it does is 7 bytes to 2, for U+0390).
size_t BpeTokenizer::most_bytes_per_token() const {
  constexpr size_t kMostShrinking = 4;
  return longest_token_ * (rule_->nfc ? kMostShrinking : 1);
}

void BpeTokenizer::note_lost(std::string_view bytes, size_t offset, Encoding& encoding) const {
  if (every_byte_has_token_ || encoding.first_lost) return;
  const auto lost = std::ranges::find_if_not(bytes, [this](char byte) { return has_token(byte); });
  if (lost == bytes.end()) return;
  encoding.first_lost = LostByte{offset + static_cast<size_t>(lost - bytes.begin()), static_cast<uint8_t>(*lost)};
}

// Bytes that are no UTF-8 become a token each; the text between them is encoded as if it stood alone.
void BpeTokenizer::encode_bytes(std::string_view bytes, size_t offset, Encoding& encoding) const {
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const auto [kind, length] = next_utf8(bytes.substr(i));
    if (kind != Utf8Kind::Character) {
      encode_characters(bytes.substr(begin, i - begin), offset + begin, encoding);
      note_lost(bytes.substr(i, length), offset + i, encoding);
      for (const char byte : bytes.substr(i, length)) {
        const TokenId token = merges_.byte_token(static_cast<uint8_t>(byte));
        if (token >= 0) encoding.tokens.push_back(token);
      }
      begin = i + length;
    }
    i += length;
  }
  encode_characters(bytes.substr(begin), offset + begin, encoding);
}

void BpeTokenizer::encode_characters(std::string_view text, size_t offset, Encoding& encoding) const {
  std::string normalised;
  if (rule_->nfc) text = normalised = to_nfc(text);
  for (const std::string_view piece : pre_tokenizer_.split(text)) {
    if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
      encoding.tokens.push_back(whole->second);
    } else {
      note_lost(piece, offset + static_cast<size_t>(piece.data() - text.data()), encoding);
      merges_.encode(piece, encoding.scratch, encoding.tokens);
    }
  }
}

std::string BpeTokenizer::decode(std::span<const TokenId> tokens, bool show_special) const {
  std::string bytes;
  for (const TokenId token : tokens) {
    const auto& [token_bytes, kind] = at(token);
    if (show_special || kind != Kind::Control) bytes += token_bytes;
  }
  return bytes;
}

}  // namespace lockstep
