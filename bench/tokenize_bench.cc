// tokenize_bench TOKENIZER.json CORPUS: loads a tokenizer, encodes the texts of a file, which NULs divide, one after
// another with special tokens as text, and writes the seconds of loading, those of encoding and the number of tokens.
// For bench/compare/tokenizers_bench.py.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string_view>

#include "base/mapped_file.h"
#include "text/text.h"

namespace {

using namespace lockstep;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void run(const char* tokenizer_path, const char* corpus_path) {
  const MappedFile json(tokenizer_path), corpus(corpus_path);
  auto begin = std::chrono::steady_clock::now();
  TokenizerFiles files;
  files.tokenizer = {tokenizer_path, text_of(json)};
  const auto tokenizer = Tokenizer::from_files(files);
  const double load = seconds_since(begin);
  size_t tokens = 0;
  begin = std::chrono::steady_clock::now();
  for (std::string_view rest = text_of(corpus); !rest.empty();) {
    const std::string_view text = rest.substr(0, rest.find('\0'));
    tokens += tokenizer->encode(text, SpecialTokens::AsText).size();
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
  }
  fmt::print("{} {} {}\n", load, seconds_since(begin), tokens);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: tokenize_bench TOKENIZER.json CORPUS\n");
    return 2;
  }
  try {
    run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
