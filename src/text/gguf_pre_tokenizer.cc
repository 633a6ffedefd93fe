// The table of patterns: those of the tokenizers' own definitions.
#include "text/gguf_pre_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/pre_tokenizer.h"

namespace lockstep {
namespace {

using namespace std::string_view_literals;

using pre_tokenize::kGpt2Words;

constexpr std::array kGpt2{kGpt2Words};
constexpr std::array kSmollm{R"(\p{N})"sv, kGpt2Words};
constexpr std::array kLlama3{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)"sv};
constexpr std::array kQwen2{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
                            R"(\s*[\r\n]+|\s+(?!\S)|\s+)"sv};
constexpr std::array kTekken{R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                             R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                             R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"sv};

// "default" is not here on purpose: it is what converters wrote when they did not know the tokenizer.
constexpr std::array<GgufPreTokenizer, 8> kRules{{
    // name        patterns nfc    ignore bos
    {"gpt-2", kGpt2, false, false, false},
    {"llama-bpe", kLlama3, false, true, true},
    {"llama-v3", kLlama3, false, true, true},
    {"llama3", kLlama3, false, true, true},
    {"qwen2", kQwen2, true, false, false},
    {"smollm", kSmollm, false, false, false},
    {"starcoder", kSmollm, false, false, false},
    {"tekken", kTekken, false, true, true},
}};

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  const auto* const found = std::ranges::find(kRules, name, &GgufPreTokenizer::name);
  return found == kRules.end() ? nullptr : found;
}

std::string known_gguf_pre_tokenizers() {
  std::string names;
  for (const GgufPreTokenizer& rule : kRules) names += fmt::format("{}{}", names.empty() ? "" : ", ", rule.name);
  return names;
}

}  // namespace lockstep
