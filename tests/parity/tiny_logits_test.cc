// Logits of the tiny models against the oracle's: tests/oracle/llama_numpy.py, a float64 forward pass over the weights
// as the `gguf` package dequantises them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "support/npy.h"
#include "support/tiny_models.h"

namespace lockstep {
namespace {

class TinyLogits : public testing::TestWithParam<std::string> {};

TEST_P(TinyLogits, AreTheOracles) {
  const TinyModel model(GetParam());
  const std::string base = std::string(LOCKSTEP_FIXTURES "/tiny/") + GetParam();
  const auto facts = nlohmann::json::parse(std::ifstream(base + ".json"));
  const std::vector<float> expected = read_npy(base + ".logits.npy");
  const double tolerance = facts.at("tolerance");
  EXPECT_LE(tolerance, 1e-4);
  for (const auto& [feature, moves] : facts.at("moves_in_tolerances").items()) EXPECT_GE(moves, 100) << feature;
  double largest = 0;
  for (const float value : expected) largest = std::max<double>(largest, std::abs(value));

  for (const int size : {1, 2, 3}) {
    EngineOptions options;
    options.plan.tp_size = size;
    options.context = 64;
    options.prefill_chunk = 16;
    options.kv_dtype = DType::F32;
    std::vector<float> found;
    Request request;
    request.tokens = facts.at("tokens").get<std::vector<int32_t>>();
    request.on_logits = [&](int64_t, std::span<const float> row) { found.insert(found.end(), row.begin(), row.end()); };
    Engine engine(*model.checkpoint, model.spec, options);
    engine.submit(std::move(request)).get();
    ASSERT_EQ(found.size(), expected.size());
    double worst = 0;
    for (size_t i = 0; i < found.size(); ++i) worst = std::max<double>(worst, std::abs(found[i] - expected[i]));
    EXPECT_LE(worst / largest, tolerance) << "tp size " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(TinyModels, TinyLogits, testing::ValuesIn(tiny_model_names()));

}  // namespace
}  // namespace lockstep
