// tokenize_lines VOCABULARY.json parse|text: reads one text a line, as hexadecimal bytes, and writes one JSON object a
// line: its ids and, as hexadecimal bytes, what they decode to. For tests/parity/tokenizer_parity.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

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

void run(const std::string& file, SpecialTokens special) {
  std::ifstream stream(file);
  VocabularyJson vocabulary(nlohmann::json::parse(stream));
  const auto tokenizer = Tokenizer::from_gguf(vocabulary.view());
  for (std::string line; std::getline(std::cin, line);) {
    const auto ids = tokenizer->encode(from_hex(line), special);
    fmt::print("{{\"ids\": [{}], \"decoded\": \"{}\"}}\n", fmt::join(ids, ","), to_hex(tokenizer->decode(ids, true)));
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::string_view mode = argc == 3 ? argv[2] : "";
  if (mode != "parse" && mode != "text") {
    fmt::print(stderr, "usage: tokenize_lines VOCABULARY.json parse|text\n");
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
