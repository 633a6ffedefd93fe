// Reads the vocabularies that tests/oracle/tokenizer_oracle.py writes as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/text.h"

namespace lockstep {

// Owns what a GgufVocabulary only views. Tests change the fields before they call view().
struct VocabularyJson {
  explicit VocabularyJson(const nlohmann::json& json)
      : model(json.value("model", "gpt2")),
        pre(json.value("pre", "")),
        tokens(json.at("tokens")),
        merges(json.value("merges", std::vector<std::string>())),
        types(json.at("types")),
        scores(json.value("scores", std::vector<double>())),
        bos(id(json, "bos")),
        eos(id(json, "eos")),
        unknown(json.contains("unknown") ? id(json, "unknown") : std::nullopt) {
    if (json.contains("add_space_prefix")) add_space_prefix = json["add_space_prefix"];
  }

  static std::optional<int64_t> id(const nlohmann::json& json, const char* key) {
    return json.at(key).is_null() ? std::nullopt : std::optional<int64_t>(json.at(key));
  }

  GgufVocabulary view() {
    token_views.assign(tokens.begin(), tokens.end());
    merge_views.assign(merges.begin(), merges.end());
    GgufVocabulary v;
    v.file = "test.gguf";
    v.model = model;
    v.pre = pre;
    v.tokens = token_views;
    v.types = types;
    v.scores = scores;
    v.merges = merge_views;
    v.bos = bos;
    v.eos = eos;
    v.unknown = unknown;
    v.add_space_prefix = add_space_prefix;
    return v;
  }

  std::string model, pre;
  std::vector<std::string> tokens, merges;
  std::vector<int64_t> types;
  std::vector<double> scores;
  std::optional<int64_t> bos, eos, unknown;
  std::optional<bool> add_space_prefix;
  std::vector<std::string_view> token_views, merge_views;
};

}  // namespace lockstep
