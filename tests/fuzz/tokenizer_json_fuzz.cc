// Fuzz target: any bytes are a tokenizer.json that makes a tokenizer, or an Error in one line; and what a tokenizer
// says of any text holds, or is an Error in one line too. The seeds are small tokenizers of every kind, so what is
// changed is mostly a setting, a token or a merge.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fuzz/tokenizer_checks.h"
#include "text/text.h"

namespace {

using namespace lockstep;

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const auto special : {SpecialTokens::AsText, SpecialTokens::Parse}) check_encoding(tokenizer, text, special);
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
