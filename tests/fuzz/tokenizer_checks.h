// What holds of every tokenizer, for the fuzz targets that make them.
#pragma once

#include <unicode/unistr.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/text.h"

namespace lockstep {

inline void require(bool held, std::string_view what) {
  if (held) return;
  fmt::print(stderr, "does not hold: {}\n", what);
  std::abort();
}

inline void check_line(const Error& error) {
  const std::string_view message = error.what();
  require(message.find('\n') == std::string_view::npos && message.size() < 2000, "an error is one short line");
}

// As Unicode has it, U+FFFD for each maximal subpart that is no character.
inline std::string characters_of(std::string_view bytes) {
  std::string text;
  icu::UnicodeString::fromUTF8({bytes.data(), static_cast<int32_t>(bytes.size())}).toUTF8String(text);
  return text;
}

inline void check_stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (const bool show_special : {false, true}) {
    StreamDecoder decoder(tokenizer, show_special);
    std::string text;
    for (const TokenId id : ids) {
      const auto piece = decoder.push(id);
      require(characters_of(piece) == piece, "a stream gives whole characters");
      text += piece;
    }
    text += decoder.finish();
    require(text == characters_of(tokenizer.decode(ids, show_special)), "a stream gives the decode of the whole");
  }
}

// Where the text may come back changed.
inline void check_encoding(const Tokenizer& tokenizer, std::string_view text, SpecialTokens special) {
  const auto [ids, lost] = tokenizer.encode_and_check(text, special);
  for (const TokenId id : ids) require(id >= 0 && id < tokenizer.vocab_size(), "ids lie in the vocabulary");
  if (!lost) {
    require(text.size() / tokenizer.most_bytes_per_token() <= ids.size(), "a token stands for no more than it may");
  }
  check_stream(tokenizer, ids);
}

}  // namespace lockstep
