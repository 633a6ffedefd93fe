// Fuzz target: any bytes are a tokenizer.json that makes a tokenizer, or an Error in one line; and what a tokenizer
// says of any text holds, or is an Error in one line too. The seeds are small tokenizers of every kind, so what is
// changed is mostly a setting, a token or a merge.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/text.h"

namespace {

using namespace lockstep;

void require(bool held, std::string_view what) {
  if (held) return;
  fmt::print(stderr, "does not hold: {}\n", what);
  std::abort();
}

void check_line(const Error& error) {
  const std::string_view message = error.what();
  require(message.find('\n') == std::string_view::npos && message.size() < 2000, "an error is one short line");
}

// As a stream gives it.
std::string repaired(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto [kind, length] = next_utf8(bytes);
    text += kind == Utf8Kind::Character ? bytes.substr(0, length) : "\xEF\xBF\xBD";
    bytes.remove_prefix(length);
  }
  return text;
}

void check_stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (const bool show_special : {false, true}) {
    StreamDecoder decoder(tokenizer, show_special);
    std::string text;
    for (const TokenId id : ids) {
      const auto piece = decoder.push(id);
      require(is_utf8(piece), "a stream gives whole characters");
      text += piece;
    }
    text += decoder.finish();
    require(text == repaired(tokenizer.decode(ids, show_special)), "a stream gives the decode of the whole");
  }
}

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const auto special : {SpecialTokens::AsText, SpecialTokens::Parse}) {
    const auto ids = tokenizer.encode(text, special);
    for (const TokenId id : ids) require(id >= 0 && id < tokenizer.vocab_size(), "ids lie in the vocabulary");
    if (!tokenizer.first_lost_byte(text, special)) {
      require(text.size() / tokenizer.most_bytes_per_token() <= ids.size(), "a token stands for no more than it may");
    }
    check_stream(tokenizer, ids);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  TokenizerFiles files;
  files.tokenizer = {"fuzz.json", json};
  // The same bytes as a small file: most are none.
  if (size < 200) files.config = {"config.json", json};
  try {
    const auto tokenizer = Tokenizer::from_files(files);
    std::vector<TokenId> ids;
    for (size_t i = 0; i < std::min<size_t>(size, 40); ++i) {
      ids.push_back(static_cast<TokenId>((data[size - 1 - i] * 2654435761u + i) % tokenizer->vocab_size()));
    }
    check_stream(*tokenizer, ids);
    for (const TokenId id : ids) (void)tokenizer->piece(id);
    check_text(*tokenizer, json.substr(0, 300));
    check_text(*tokenizer, json.substr(size - std::min<size_t>(size, 300)));
    check_text(*tokenizer,
               "  Hello\u2581 w\u00F6rld <s> </s>\n\n \u65E5\u672C e\u0301\u0316 \xF0\x9F\x98 don't 123 \xFF<0x41>\t");
  } catch (const Error& error) {
    check_line(error);
  }
  return 0;
}
