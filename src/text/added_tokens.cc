// What a match means, by the flags of its token.
#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "text/unicode.h"

namespace lockstep {
namespace {

// The text may be any bytes; only characters count.
bool begins_with_word(std::string_view text) {
  if (text.empty()) return false;
  const auto [kind, length] = next_utf8(text);
  return kind == Utf8Kind::Character && is_word(decode_utf8(text.substr(0, length)));
}

// The last character, or nothing where the text ends with something else.
std::string_view character_at_end(std::string_view text) {
  for (size_t length = 1; length <= 4 && length <= text.size(); ++length) {
    const std::string_view end = text.substr(text.size() - length);
    const auto step = next_utf8(end);
    if (step.kind == Utf8Kind::Character && step.length == length) return end;
  }
  return {};
}

bool ends_with_word(std::string_view text) {
  const std::string_view last = character_at_end(text);
  return !last.empty() && is_word(decode_utf8(last));
}

// Bytes of white space at the end of a text, at the beginning of one.
size_t white_space_at_end(std::string_view text) {
  const size_t size = text.size();
  for (;;) {
    const std::string_view last = character_at_end(text);
    if (last.empty() || !is_white_space(decode_utf8(last))) return size - text.size();
    text.remove_suffix(last.size());
  }
}
size_t white_space_at_begin(std::string_view text) {
  const size_t size = text.size();
  while (!text.empty()) {
    const auto [kind, length] = next_utf8(text);
    if (kind != Utf8Kind::Character || !is_white_space(decode_utf8(text.substr(0, length)))) break;
    text.remove_prefix(length);
  }
  return size - text.size();
}

// Whether one of the ranges, which are ascending, has a byte of [begin, end).
bool touches(std::span<const TextRange> ranges, size_t begin, size_t end) {
  const auto first = std::ranges::upper_bound(ranges, begin, {}, &TextRange::end);
  return first != ranges.end() && first->begin < end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)),
      raw_(finder(false)),
      normalized_(finder(true)),
      drops_text_(std::ranges::any_of(tokens_, [](const AddedToken& t) { return t.strips_left || t.strips_right; })),
      normalizes_special_(std::ranges::any_of(tokens_, [](const AddedToken& t) { return t.special && t.normalized; })) {
}

TokenFinder AddedTokens::finder(bool normalized) const {
  std::vector<TokenFinder::Token> wanted;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].normalized == normalized) wanted.push_back({tokens_[i].text, static_cast<uint32_t>(i)});
  }
  return TokenFinder(wanted);
}

std::vector<AddedTokens::Segment> AddedTokens::find(std::string_view text, bool normalized, SpecialTokens special,
                                                    std::span<const TextRange> written) const {
  std::vector<Segment> segments;
  size_t done = 0;             // goes back to the end of a token that stands in white space which the last one took
  size_t white_space_end = 0;  // of the white space that was looked at last
  for (const auto& match : (normalized ? normalized_ : raw_).find(text)) {
    const AddedToken& token = tokens_[match.index];
    size_t begin = match.begin, end = match.begin + match.length;
    if (token.special && (special == SpecialTokens::AsText || touches(written, begin, end))) continue;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) continue;
    if (token.strips_left) begin = begin < done ? done : begin - white_space_at_end(text.substr(done, begin - done));
    if (token.strips_right) {
      if (end >= white_space_end) white_space_end = end + white_space_at_begin(text.substr(end));
      end = white_space_end;
    }
    if (begin > done) segments.push_back({done, begin, -1});
    if (begin < end) segments.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({done, text.size(), -1});
  return segments;
}

}  // namespace lockstep
