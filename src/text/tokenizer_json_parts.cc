// One function a kind of part. `type` names a step; its other members are its settings.
#include "text/tokenizer_json_parts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "text/unicode.h"

namespace lockstep {
namespace {

// The words of GPT-2, which a ByteLevel step cuts into.
constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct PatternField {
  Pattern pattern;
  std::string literal;  // empty for a regular expression
};

// {"String": ...} or {"Regex": ...}.
PatternField read_pattern(const JsonField& step) {
  const JsonField field = step.at("pattern");
  field.allow_only({"String", "Regex"});
  if (field.has("Regex")) {
    const JsonField regex = field.at("Regex");
    return {Pattern::regex(regex.string(), regex.where()), ""};
  }
  std::string literal = field.string("String");
  if (literal.empty()) field.malformed("is empty");
  Pattern pattern = Pattern::literal(literal);
  return {std::move(pattern), std::move(literal)};
}

std::string read_one_character(const JsonField& field) {
  std::string text = field.string();
  if (text.empty() || first_character(text).length != text.size()) field.malformed("must be one character");
  return text;
}

// Calls use(step) for the step, or for each of a Sequence.
template <class Use>
void for_each_step(const JsonField& field, std::string_view members, Use use) {
  if (field.value().is_null()) return;
  if (field.type() != "Sequence") return use(field);
  field.allow_only({"type", members});
  for (const JsonField& item : field.at(members).items()) for_each_step(item, members, use);
}

normalize::Step read_normalizer_step(const JsonField& step) {
  const std::string type = step.type();
  const auto form = [&](NormalForm form) {
    step.allow_only({"type"});
    return form;
  };
  if (type == "NFC") return form(NormalForm::C);
  if (type == "NFD") return form(NormalForm::D);
  if (type == "NFKC") return form(NormalForm::KC);
  if (type == "NFKD") return form(NormalForm::KD);
  if (type == "Lowercase") return step.allow_only({"type"}), normalize::LowerCase();
  if (type == "StripAccents") return step.allow_only({"type"}), normalize::StripAccents();
  if (type == "ByteLevel") return step.allow_only({"type"}), normalize::ByteLevel();
  if (type == "Nmt") return step.allow_only({"type"}), normalize::Nmt();
  if (type == "Precompiled") {
    step.allow_only({"type", "precompiled_charsmap"});
    const JsonField table = step.at("precompiled_charsmap");
    return PrecompiledCharsmap::from_base64(table.string(), table.where());
  }
  if (type == "Strip") {
    step.allow_only({"type", "strip_left", "strip_right"});
    return normalize::Strip{step.boolean("strip_left"), step.boolean("strip_right")};
  }
  if (type == "Prepend") {
    step.allow_only({"type", "prepend"});
    return normalize::Prepend{step.string("prepend")};
  }
  if (type == "Replace") {
    step.allow_only({"type", "pattern", "content"});
    auto [pattern, literal] = read_pattern(step);
    const auto bytes = literal.empty() ? std::nullopt : std::optional(literal.size());
    return normalize::Replace{std::move(pattern), step.string("content"), bytes};
  }
  if (type == "BertNormalizer") {
    step.allow_only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
    const bool lower_case = step.boolean("lowercase");
    return normalize::Bert{step.boolean("clean_text"), step.boolean("handle_chinese_chars"),
                           step.boolean_or("strip_accents", lower_case), lower_case};
  }
  step.at("type").unsupported(
      "NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Lowercase, Strip, StripAccents, Replace, Prepend, BertNormalizer, "
      "ByteLevel, Sequence");
}

pre_tokenize::Behavior read_behavior(const JsonField& step, std::string_view otherwise) {
  using enum pre_tokenize::Behavior;
  constexpr std::array<std::pair<std::string_view, pre_tokenize::Behavior>, 5> kBehaviors{{
      {"Removed", Removed},
      {"Isolated", Isolated},
      {"MergedWithPrevious", MergedWithPrevious},
      {"MergedWithNext", MergedWithNext},
      {"Contiguous", Contiguous},
  }};
  const std::string name = step.string_or("behavior", otherwise);
  const auto* const found =
      std::ranges::find(kBehaviors, name, &std::pair<std::string_view, pre_tokenize::Behavior>::first);
  if (found == kBehaviors.end()) {
    step.at("behavior").unsupported("Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  }
  return found->second;
}

pre_tokenize::Metaspace read_metaspace(const JsonField& step) {
  using enum pre_tokenize::Prepend;
  step.allow_only({"type", "replacement", "add_prefix_space", "str_rep", "prepend_scheme", "split"});
  // Files from before there was a scheme say only whether.
  const std::string scheme =
      step.string_or("prepend_scheme", step.boolean_or("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    step.at("prepend_scheme").unsupported("always, first, never");
  }
  return {read_one_character(step.at("replacement")),
          scheme == "always"  ? Always
          : scheme == "first" ? First
                              : Never,
          step.boolean_or("split", true)};
}

void read_pre_tokenizer_step(const JsonField& step, PreTokenizerSteps& out) {
  using namespace pre_tokenize;
  // What follows a ByteLevel step sees the byte alphabet.
  if (std::exchange(out.byte_level, false)) out.steps.emplace_back(ByteLevel());
  const auto add = [&](Step made) { out.steps.push_back(std::move(made)); };
  const std::string type = step.type();
  if (type == "ByteLevel") {
    step.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (step.boolean("add_prefix_space")) add(PrefixSpace());
    if (step.boolean_or("use_regex", true)) {
      add(Split{Pattern::regex(kGpt2Words, step.where()), Behavior::Isolated, false});
    }
    out.byte_level = true;
  } else if (type == "Split") {
    step.allow_only({"type", "pattern", "behavior", "invert"});
    add(Split{read_pattern(step).pattern, read_behavior(step, ""), step.boolean("invert")});
  } else if (type == "Metaspace") {
    add(read_metaspace(step));
  } else if (type == "Digits") {
    step.allow_only({"type", "individual_digits"});
    const bool single = step.boolean("individual_digits");
    add(SplitAtClass{Class::Numeric, single ? Behavior::Isolated : Behavior::Contiguous});
  } else if (type == "Punctuation") {
    step.allow_only({"type", "behavior"});
    add(SplitAtClass{Class::Punctuation, read_behavior(step, "Isolated")});
  } else if (type == "Whitespace") {
    step.allow_only({"type"});
    add(WordsAndSymbols());
  } else if (type == "WhitespaceSplit") {
    step.allow_only({"type"});
    add(SplitAtClass{Class::WhiteSpace, Behavior::Removed});
  } else if (type == "BertPreTokenizer") {
    step.allow_only({"type"});
    add(SplitAtClass{Class::WhiteSpace, Behavior::Removed});
    add(SplitAtClass{Class::Punctuation, Behavior::Isolated});
  } else if (type == "CharDelimiterSplit") {
    step.allow_only({"type", "delimiter"});
    const char32_t delimiter = first_character(read_one_character(step.at("delimiter"))).code;
    add(SplitAtClass{Class::Delimiter, Behavior::Removed, delimiter});
  } else if (type == "FixedLength") {
    step.allow_only({"type", "length"});
    add(FixedLength{static_cast<size_t>(step.has("length") ? step.at("length").integer(1, INT64_MAX) : 5)});
  } else if (type == "UnicodeScripts") {
    step.allow_only({"type"});
    add(Scripts());
  } else {
    step.at("type").unsupported(
        "ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, "
        "CharDelimiterSplit, FixedLength, UnicodeScripts, Sequence");
  }
}

decode::Step read_decoder_step(const JsonField& step) {
  using namespace decode;
  const std::string type = step.type();
  if (type == "ByteLevel") {
    step.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return ByteLevel();
  }
  if (type == "ByteFallback") return step.allow_only({"type"}), ByteFallback();
  if (type == "Fuse") return step.allow_only({"type"}), Fuse();
  if (type == "Strip") {
    step.allow_only({"type", "content", "start", "stop"});
    const auto count = [&](std::string_view key) { return static_cast<size_t>(step.at(key).integer(0, 1024)); };
    return Strip{read_one_character(step.at("content")), count("start"), count("stop")};
  }
  if (type == "Replace") {
    step.allow_only({"type", "pattern", "content"});
    auto [pattern, literal] = read_pattern(step);
    return Replace{std::make_shared<const Pattern>(std::move(pattern)), std::move(literal), step.string("content")};
  }
  if (type == "Metaspace") {
    auto [replacement, prepend, split] = read_metaspace(step);
    return Metaspace{std::move(replacement), prepend != pre_tokenize::Prepend::Never};
  }
  if (type == "WordPiece") {
    step.allow_only({"type", "prefix", "cleanup"});
    return WordPiece{step.string("prefix"), step.boolean("cleanup")};
  }
  if (type == "BPEDecoder") {
    step.allow_only({"type", "suffix"});
    if (step.string("suffix").empty()) step.at("suffix").malformed("is empty");
    return WordEnds{step.string("suffix")};
  }
  if (type == "CTC") {
    step.allow_only({"type", "pad_token", "word_delimiter_token", "cleanup"});
    for (const auto* const key : {"pad_token", "word_delimiter_token"}) {
      if (step.string(key).empty()) step.at(key).malformed("is empty");
    }
    return Ctc{step.string("pad_token"), step.string("word_delimiter_token"), step.boolean("cleanup")};
  }
  step.at("type").unsupported(
      "ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, WordPiece, BPEDecoder, CTC, Sequence");
}

void append_ids(const JsonField& list, std::vector<int64_t>& ids) {
  for (const JsonField& id : list.items()) ids.push_back(id.integer(0, INT32_MAX));
}

// ["[CLS]", 101]
int64_t read_named_id(const JsonField& pair) {
  const auto items = pair.items();
  if (items.size() != 2) pair.malformed("must be a token and its id");
  return items[1].integer(0, INT32_MAX);
}

void read_template(const JsonField& step, PromptTokens& out) {
  step.allow_only({"type", "single", "pair", "special_tokens"});
  PromptTokens tokens;
  bool text_seen = false;
  for (const JsonField& piece : step.at("single").items()) {
    piece.allow_only({"SpecialToken", "Sequence"});
    if (piece.has("Sequence")) {
      if (piece.at("Sequence").string("id") != "A") piece.at("Sequence").at("id").unsupported("A");
      if (std::exchange(text_seen, true)) piece.malformed("is the text a second time");
    } else {
      const JsonField named = step.at("special_tokens").at(piece.at("SpecialToken").string("id"));
      append_ids(named.at("ids"), text_seen ? tokens.suffix : tokens.prefix);
    }
  }
  if (!text_seen) step.at("single").malformed("has no text: {{\"Sequence\": {{\"id\": \"A\"}}}} is missing");
  out.prefix.insert(out.prefix.begin(), tokens.prefix.begin(), tokens.prefix.end());
  out.suffix.insert(out.suffix.end(), tokens.suffix.begin(), tokens.suffix.end());
}

}  // namespace

std::vector<normalize::Step> read_normalizer(const JsonField& field) {
  std::vector<normalize::Step> steps;
  for_each_step(field, "normalizers", [&](const JsonField& step) { steps.push_back(read_normalizer_step(step)); });
  return steps;
}

PreTokenizerSteps read_pre_tokenizer(const JsonField& field) {
  PreTokenizerSteps out;
  for_each_step(field, "pretokenizers", [&](const JsonField& step) { read_pre_tokenizer_step(step, out); });
  return out;
}

std::vector<decode::Step> read_decoder(const JsonField& field) {
  std::vector<decode::Step> steps;
  if (field.value().is_null()) steps.emplace_back(decode::JoinBySpaces());
  for_each_step(field, "decoders", [&](const JsonField& step) { steps.push_back(read_decoder_step(step)); });
  return steps;
}

PromptTokens read_post_processor(const JsonField& field) {
  PromptTokens out;
  for_each_step(field, "processors", [&](const JsonField& step) {
    const std::string type = step.type();
    if (type == "TemplateProcessing") {
      read_template(step, out);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      step.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
      out.prefix.insert(out.prefix.begin(), read_named_id(step.at("cls")));
      out.suffix.push_back(read_named_id(step.at("sep")));
    } else if (type != "ByteLevel") {  // which moves offsets alone
      step.at("type").unsupported("TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence");
    }
  });
  return out;
}

}  // namespace lockstep
