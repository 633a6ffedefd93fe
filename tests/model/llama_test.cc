// Reading Llama metadata and binding tensors: what is accepted, what is refused and how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "model/model.h"
#include "support/fake_checkpoint.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void(FakeCheckpoint&)>& damage, LlamaNumbers numbers = {}) {
  FakeCheckpoint file = fake_llama(numbers);
  damage(file);
  try {
    read_model(file);
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_THAT(message, HasSubstr("fake.gguf"));
    return message;
  }
  return "accepted";
}

// The same file with one metadata value in place of another.
std::string with_value(const std::string& key, MetadataScalar value) {
  return refusal([&](FakeCheckpoint& file) {
    Metadata changed("fake.gguf");
    for (const auto& [name, old] : file.meta.entries()) {
      if (name != key) changed.insert(name, old);
    }
    changed.insert(key, {value});
    file.meta = changed;
  });
}

TEST(Llama, ReadsItsNumbers) {
  const ModelSpec spec = read_model(fake_llama({}));
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(spec.hidden, 64);
  EXPECT_EQ(spec.vocab, 50);
  EXPECT_TRUE(spec.tied_head);
  ASSERT_EQ(spec.layers.size(), 2U);
  EXPECT_EQ(spec.layers[1].heads, 4);
  EXPECT_EQ(spec.layers[1].kv_heads, 2);
  EXPECT_FLOAT_EQ(spec.layers[0].score_scale, 0.25F);
  EXPECT_EQ(spec.layers[0].rope.rotary, 16);
  // Embedding, final norm; a layer: two norms, q and o, k and v, three of the feed-forward.
  EXPECT_EQ(spec.parameters(), 50 * 64 + 64 + 2 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64));
}

TEST(Llama, TakesAnOwnHeadAndBiases) {
  FakeCheckpoint file = fake_llama({});
  file.add("output.weight", DType::F32, {50, 64});
  for (const char* name : {"blk.0.attn_q.bias", "blk.1.attn_q.bias"}) file.add(name, DType::F32, {64});
  const ModelSpec spec = read_model(file);
  EXPECT_FALSE(spec.tied_head);
  EXPECT_NE(spec.find(Role::LmHead), nullptr);
  EXPECT_NE(spec.find(Role::AttnQBias, 1), nullptr);
  EXPECT_EQ(spec.find(Role::AttnKBias, 1), nullptr);
}

// What one layer has all layers have, wherever it is missing.
TEST(Llama, RefusesABiasOfSomeLayers) {
  for (const int layer : {0, 1, 2}) {
    const std::string message =
        refusal([&](FakeCheckpoint& file) { file.add(fmt::format("blk.{}.attn_q.bias", layer), DType::F32, {64}); },
                {.layers = 3});
    EXPECT_THAT(message, HasSubstr(fmt::format("'blk.{}.attn_q.bias' is missing", layer == 0 ? 1 : 0)));
  }
}

TEST(Llama, RefusesWrongNumbers) {
  EXPECT_THAT(with_value("general.architecture", std::string_view("gemma9")),
              AllOf(HasSubstr("'gemma9'"), HasSubstr("llama")));
  EXPECT_THAT(with_value("llama.attention.head_count", int64_t{0}), HasSubstr("llama.attention.head_count"));
  EXPECT_THAT(with_value("llama.attention.head_count", int64_t{-3}), HasSubstr("llama.attention.head_count"));
  EXPECT_THAT(with_value("llama.attention.head_count_kv", int64_t{8}), HasSubstr("llama.attention.head_count_kv"));
  EXPECT_THAT(with_value("llama.attention.head_count_kv", int64_t{3}), HasSubstr("must divide the 4 query heads"));
  EXPECT_THAT(with_value("llama.attention.key_length", int64_t{0}), HasSubstr("llama.attention.key_length"));
  EXPECT_THAT(with_value("llama.attention.value_length", int64_t{8}), HasSubstr("value_length is 8"));
  EXPECT_THAT(with_value("llama.block_count", int64_t{1000000000}), HasSubstr("llama.block_count"));
  EXPECT_THAT(with_value("llama.block_count", int64_t{3}), HasSubstr("'blk.2.attn_norm.weight' is missing"));
  EXPECT_THAT(with_value("llama.block_count", int64_t{1}), HasSubstr("'blk.1.attn_norm.weight' is not part"));
  EXPECT_THAT(with_value("llama.feed_forward_length", int64_t{97}), HasSubstr("shape [96, 64]"));
  EXPECT_THAT(with_value("llama.expert_count", int64_t{8}), HasSubstr("mixture-of-experts"));
  EXPECT_THAT(with_value("llama.attention.layer_norm_rms_epsilon", -1.0), HasSubstr("epsilon"));
  EXPECT_THAT(with_value("llama.embedding_length", std::string_view("x")), HasSubstr("llama.embedding_length"));
  EXPECT_THAT(with_value("llama.rope.dimension_count", int64_t{17}), HasSubstr("llama.rope.dimension_count"));
  EXPECT_THAT(with_value("llama.rope.dimension_count", int64_t{7}), HasSubstr("must be even"));
  EXPECT_THAT(with_value("llama.rope.freq_base", 0.0), HasSubstr("llama.rope.freq_base"));
  EXPECT_THAT(with_value("llama.rope.scaling.type", std::string_view("spiral")),
              AllOf(HasSubstr("'spiral'"), HasSubstr("none, linear, yarn")));
  EXPECT_THAT(with_value("llama.rope.scaling.type", std::string_view("yarn")), HasSubstr("original_context_length"));
}

TEST(Llama, RefusesWrongTensors) {
  EXPECT_THAT(refusal([](FakeCheckpoint& f) { f.list.erase(f.list.begin() + 3); }),
              HasSubstr("tensor 'blk.0.attn_q.weight' is missing"));
  EXPECT_THAT(refusal([](FakeCheckpoint& f) { f.add("blk.0.attn_sinks.weight", DType::F32, {4}); }),
              HasSubstr("tensor 'blk.0.attn_sinks.weight' is not part of a llama model"));
  EXPECT_THAT(refusal([](FakeCheckpoint& f) { f.list[3].shape = {64, 64, 1}; }), HasSubstr("has shape [64, 64, 1]"));
  EXPECT_THAT(refusal([](FakeCheckpoint& f) { f.list[0].shape = {50}; }), HasSubstr("llama.vocab_size"));
  EXPECT_THAT(refusal([](FakeCheckpoint& f) { f.list[1].dtype = DType::Q8_0; }), HasSubstr("is a vector in Q8_0"));
}

// Frequencies of the kinds, against values worked out from the papers' formulas.
TEST(Rope, PlainAndLinear) {
  RopeSpec rope;
  rope.rotary = 4;
  rope.base = 100;
  EXPECT_THAT(rope_frequencies(rope), testing::Pointwise(testing::DoubleNear(1e-15), {1.0, 0.1}));
  rope.scaling = RopeSpec::Scaling::Linear;
  rope.factor = 4;
  EXPECT_THAT(rope_frequencies(rope), testing::Pointwise(testing::DoubleNear(1e-15), {0.25, 0.025}));
}

TEST(Rope, YarnKeepsFastPairsAndStretchesSlowOnes) {
  RopeSpec rope;
  rope.rotary = 64;
  rope.base = 10000;
  const auto plain = rope_frequencies(rope);
  rope.scaling = RopeSpec::Scaling::Yarn;
  rope.factor = 4;
  rope.original_context = 2048;
  const auto yarn = rope_frequencies(rope);
  EXPECT_DOUBLE_EQ(yarn.front(), plain.front());    // 326 turns over the original context
  EXPECT_DOUBLE_EQ(yarn.back(), plain.back() / 4);  // a 23rd of a turn
  for (size_t i = 1; i < yarn.size(); ++i) {
    EXPECT_GE(yarn[i], plain[i] / 4);
    EXPECT_LE(yarn[i], plain[i]);
  }
}

}  // namespace
}  // namespace lockstep
