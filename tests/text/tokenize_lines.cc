// tokenize_lines FILE parse|text: reads lines and writes one JSON object for each. FILE is a tokenizer.json, or a
// vocabulary as tests/oracle/tokenizer_oracle.py writes it. A line is a text, as hexadecimal bytes: its ids, and what
// they decode to; or ids, "[1,2]": their text with special tokens shown and hidden, and the same by StreamDecoder.
// Texts are written as hexadecimal bytes. For tests/parity/tokenizer_parity.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "text/vocabulary_json.h"

namespace lockstep {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(&hex[i], &hex[i] + 2, byte, 16);
    if (error != std::errc() || end != &hex[i] + 2) throw std::runtime_error("the input is not hexadecimal");
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) fmt::format_to(std::back_inserter(hex), "{:02x}", static_cast<uint8_t>(byte));
  return hex;
}

std::unique_ptr<Tokenizer> read(const std::string& file) {
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!text.starts_with("{\"vocabulary\"")) {
    TokenizerFiles files;
    files.tokenizer = {file, text};
    return Tokenizer::from_files(files);
  }
  VocabularyJson vocabulary(nlohmann::json::parse(text).at("vocabulary"));
  return Tokenizer::from_gguf(vocabulary.view());
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool show_special) {
  StreamDecoder decoder(tokenizer, show_special);
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = decoder.push(id);
    if (!is_utf8(piece)) throw std::runtime_error("a piece of a stream is no UTF-8");
    text += piece;
  }
  return text + decoder.finish();
}

void run(const std::string& file, SpecialTokens special) {
  const auto tokenizer = read(file);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.starts_with('[')) {
      const std::vector<TokenId> ids = nlohmann::json::parse(line);
      const auto decoded = [&](bool show) { return to_hex(tokenizer->decode(ids, show)); };
      const auto stream = [&](bool show) { return to_hex(streamed(*tokenizer, ids, show)); };
      fmt::print("{{\"shown\": \"{}\", \"hidden\": \"{}\", \"shown_stream\": \"{}\", \"hidden_stream\": \"{}\"}}\n",
                 decoded(true), decoded(false), stream(true), stream(false));
      continue;
    }
    const auto ids = tokenizer->encode(from_hex(line), special);
    fmt::print("{{\"ids\": [{}], \"decoded\": \"{}\"}}\n", fmt::join(ids, ","), to_hex(tokenizer->decode(ids, true)));
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::string_view mode = argc == 3 ? argv[2] : "";
  if (mode != "parse" && mode != "text") {
    fmt::print(stderr, "usage: tokenize_lines FILE parse|text\n");
    return 2;
  }
  try {
    lockstep::run(argv[1], mode == "parse" ? lockstep::SpecialTokens::Parse : lockstep::SpecialTokens::AsText);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
