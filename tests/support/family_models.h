// The models of tests/fixtures/families, one folder a family and format, with what the oracle says of them: see
// tests/oracle/make_family_fixtures.py.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "support/family_names.h"
#include "support/npy.h"
#include "support/tiny_models.h"

namespace lockstep {

struct FamilyModel : TinyModel {
  explicit FamilyModel(const std::string& name)
      : FamilyModel(std::filesystem::path(LOCKSTEP_FIXTURES "/families") / name) {}
  explicit FamilyModel(const std::filesystem::path& folder)
      : TinyModel(Checkpoint::open(family_model_path(folder))),
        facts(nlohmann::json::parse(std::ifstream(folder / "oracle.json"))),
        logits(read_npy(folder / "logits.npy")) {
    const auto tokens = facts.at("tokens").get<std::vector<int32_t>>();
    const auto end = tokens.begin() + facts.at("prompt").get<int64_t>();
    prompt.assign(tokens.begin(), end);
    decoded.assign(end, tokens.end());
  }

  // Reads the prompt and then decodes the oracle's tokens, whatever the logits say: each has a bias above all others
  // that come later, and a penalty once it was drawn. (They differ from one another and from those of the prompt.)
  Request request() const {
    Request request;
    request.tokens = prompt;
    request.max_tokens = static_cast<int64_t>(decoded.size()) + 1;  // the last is drawn and never read
    request.sampling.repeat_penalty = 1000;
    for (const int32_t token : decoded) {
      request.sampling.logit_bias.push_back(
          {token, 1e6 - 1e3 * static_cast<double>(request.sampling.logit_bias.size())});
    }
    return request;
  }
  int64_t context() const { return static_cast<int64_t>(prompt.size() + decoded.size()) + 1; }

  nlohmann::json facts;
  std::vector<float> logits;  // [prompt + decoded, vocab]: the oracle's
  std::vector<int32_t> prompt, decoded;
};

}  // namespace lockstep
