// Whole models whose metadata, vocabulary or weights lie, given to the program: one line, exit status 1, no large
// allocation. Under a sanitizer the child is instrumented as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>

#include "malformed/folder.h"
#include "malformed/tiny_llama.h"
#include "malformed/whole_program.h"

namespace lockstep {
namespace {

using ::testing::ExitedWithCode;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Lie {
  std::string name;
  std::function<void(TinyLlama&)> change;
  std::string message;

  friend void PrintTo(const Lie& item, std::ostream* out) { *out << item.name; }
};

class LyingModel : public ::testing::TestWithParam<Lie> {};

TEST_P(LyingModel, IsRefusedInOneLine) {
  TinyLlama model;
  GetParam().change(model);
  const Folder folder;
  const auto file = folder.write("lie.gguf", model.bytes()).string();
  EXPECT_EXIT(run_program({"generate", "--model", file, "--prompt", "ab", "--max-tokens", "1", "--quiet"}),
              ExitedWithCode(1), one_line_saying(GetParam().message));
}

auto param_name = [](const auto& param_info) { return param_info.param.name; };

// The model as it is runs inside the same limits, so a refusal is one of the lie.
TEST(TrueModel, Runs) {
  const Folder folder;
  const auto file = folder.write("true.gguf", TinyLlama().bytes()).string();
  EXPECT_EXIT(run_program({"generate", "--model", file, "--prompt", "ab", "--max-tokens", "1", "--quiet"}),
              ExitedWithCode(0), "");
}

Lie integer(const std::string& name, const std::string& key, int64_t value, const std::string& message) {
  constexpr uint32_t kI64 = 11;
  return {name, [=](TinyLlama& m) { m.set(key, kI64, value); }, message};
}

Lie real(const std::string& name, const std::string& key, double value, const std::string& message) {
  constexpr uint32_t kF64 = 12;
  return {name, [=](TinyLlama& m) { m.set(key, kF64, value); }, message};
}

const std::string kHeadCount = "llama.attention.head_count", kKvCount = "llama.attention.head_count_kv";

const std::vector<Lie> kShapes{
    integer("heads_0", kHeadCount, 0, "'llama.attention.head_count' is the integer 0; it must be an integer from 1"),
    integer("heads_negative", kHeadCount, -1, "'llama.attention.head_count' is the integer -1"),
    integer("heads_huge", kHeadCount, INT64_MAX, "'llama.attention.head_count' is the integer 9223372036854775807"),
    integer("heads_most", kHeadCount, 1 << 24,
            "tensor 'blk.0.attn_q.weight' has shape [32, 32], but the metadata says"),
    integer("heads_1_kv_2", kHeadCount, 1, "'llama.attention.head_count_kv' is the integer 2; it must be an integer"),
    integer("kv_0", kKvCount, 0, "'llama.attention.head_count_kv' is the integer 0"),
    integer("kv_negative", kKvCount, -2, "'llama.attention.head_count_kv' is the integer -2"),
    integer("kv_above_heads", kKvCount, 8,
            "'llama.attention.head_count_kv' is the integer 8; it must be an integer from"),
    integer("kv_no_divisor", kKvCount, 3, "llama.attention.head_count_kv is 3; it must divide the 4 query heads"),
    integer("head_dim_0", "llama.attention.key_length", 0, "'llama.attention.key_length' is the integer 0"),
    integer("head_dim_negative", "llama.attention.key_length", -8, "'llama.attention.key_length' is the integer -8"),
    integer("head_dim_odd", "llama.attention.key_length", 7, "the rotary width is 7"),
    integer("value_dim_other", "llama.attention.value_length", 4, "llama.attention.value_length is 4"),
    integer("hidden_0", "llama.embedding_length", 0, "'llama.embedding_length' is the integer 0"),
    integer("hidden_negative", "llama.embedding_length", INT64_MIN, "is the integer -9223372036854775808"),
    integer("hidden_other", "llama.embedding_length", 33, "tensor 'token_embd.weight' has shape [257, 32]"),
    {"hidden_no_multiple",
     [](TinyLlama& m) {
       m.keys.erase("llama.attention.key_length");
       m.set("llama.embedding_length", kU32, uint32_t{33});
     },
     "llama.embedding_length 33 is not a multiple of the 4 query heads"},
    integer("layers_0", "llama.block_count", 0, "'llama.block_count' is the integer 0"),
    integer("layers_negative", "llama.block_count", -1, "'llama.block_count' is the integer -1"),
    integer("layers_one_more", "llama.block_count", 2, "tensor 'blk.1.attn_norm.weight' is missing"),
    integer("layers_1e9", "llama.block_count", 1'000'000'000, "'llama.block_count' is the integer 1000000000"),
    integer("layers_max", "llama.block_count", INT64_MAX, "'llama.block_count' is the integer 9223372036854775807"),
    integer("ffn_0", "llama.feed_forward_length", 0, "'llama.feed_forward_length' is the integer 0"),
    integer("ffn_1e9", "llama.feed_forward_length", 1'000'000'000, "'llama.feed_forward_length' is the integer"),
    integer("context_0", "llama.context_length", 0, "'llama.context_length' is the integer 0"),
    integer("context_huge", "llama.context_length", int64_t{1} << 40, "'llama.context_length' is the integer 10995"),
    integer("experts", "llama.expert_count", 8, "llama.expert_count is 8"),
    {"heads_text", [](TinyLlama& m) { m.set(kHeadCount, "4"); }, "is the string '4'; it must be an integer"},
    {"heads_unsigned_max", [](TinyLlama& m) { m.set(kHeadCount, kU64, UINT64_MAX); }, "integer 18446744073709551615"},
    {"heads_array",
     [](TinyLlama& m) {
       m.set_raw(kHeadCount, kArray, GgufWriter().number(kI32).number(uint64_t{1}).number(4).bytes());
     },
     "is an array of 1 integers; it must be an integer"},
    {"heads_missing", [](TinyLlama& m) { m.keys.erase(kHeadCount); }, "'llama.attention.head_count' is missing"},
    {"architecture_missing", [](TinyLlama& m) { m.keys.erase("general.architecture"); }, "is missing"},
    {"architecture_empty", [](TinyLlama& m) { m.set("general.architecture", ""); }, "architecture '' is not known"},
    {"architecture_huge", [](TinyLlama& m) { m.set("general.architecture", std::string(16 << 20, '\n')); },
     "(16777216 bytes) is not known"},
};
INSTANTIATE_TEST_SUITE_P(Shapes, LyingModel, ::testing::ValuesIn(kShapes), param_name);

const std::string kTheta = "llama.rope.freq_base", kFactor = "llama.rope.scaling.factor";
const std::string kEpsilon = "llama.attention.layer_norm_rms_epsilon";

const std::vector<Lie> kNumbers{
    real("theta_nan", kTheta, kNan, "'llama.rope.freq_base' is the float nan; it must be a finite number"),
    real("theta_infinite", kTheta, kInfinity, "'llama.rope.freq_base' is the float inf; it must be a finite number"),
    real("theta_0", kTheta, 0, "llama.rope.freq_base is 0"),
    real("theta_negative", kTheta, -10000, "llama.rope.freq_base is -10000"),
    real("theta_1", kTheta, 1, "llama.rope.freq_base is 1"),
    real("theta_denormal", kTheta, 5e-324, "llama.rope.freq_base is 5e-324"),
    real("factor_nan", kFactor, kNan, "'llama.rope.scaling.factor' is the float nan"),
    real("factor_0", kFactor, 0, "llama.rope.scaling.factor is 0"),
    real("factor_denormal", kFactor, 5e-324, "llama.rope.scaling.factor is 5e-324"),
    real("epsilon_nan", kEpsilon, kNan, "'llama.attention.layer_norm_rms_epsilon' is the float nan"),
    real("epsilon_negative", kEpsilon, -1, "llama.attention.layer_norm_rms_epsilon is -1"),
    real("epsilon_beyond_float", kEpsilon, 1e300, "llama.attention.layer_norm_rms_epsilon is 1e+300"),
    integer("rotary_0", "llama.rope.dimension_count", 0, "'llama.rope.dimension_count' is the integer 0"),
    integer("rotary_odd", "llama.rope.dimension_count", 7, "the rotary width is 7"),
    integer("rotary_above_head", "llama.rope.dimension_count", 10, "'llama.rope.dimension_count' is the integer 10"),
    {"rope_kind", [](TinyLlama& m) { m.set("llama.rope.scaling.type", "spiral"); }, "'spiral'; known: none, linear"},
    {"weights_nan", [](TinyLlama& m) { m.weight = std::nanf(""); }, "at position 1 is not a number"},
    {"weights_infinite", [](TinyLlama& m) { m.weight = std::numeric_limits<float>::infinity(); }, "is not a number"},
};
INSTANTIATE_TEST_SUITE_P(Numbers, LyingModel, ::testing::ValuesIn(kNumbers), param_name);

const std::string kTokens = "tokenizer.ggml.tokens";

const std::vector<Lie> kVocabularies{
    {"fewer_embeddings_than_tokens", [](TinyLlama& m) { m.embeddings = 200; },
     "the tokenizer has 257 tokens, but the model has 200 token embeddings"},
    {"no_tokens", [](TinyLlama& m) { m.tokens.clear(), m.types.clear(); }, "tokenizer.ggml.tokens is empty"},
    {"empty_token", [](TinyLlama& m) { m.tokens[97] = ""; }, "tokenizer.ggml.tokens[97] is empty"},
    {"empty_control_token", [](TinyLlama& m) { m.tokens[256] = ""; }, "tokenizer.ggml.tokens[256] is empty"},
    {"huge_token", [](TinyLlama& m) { m.tokens[97] = std::string(16 << 20, 'a'); },
     "tokenizer.ggml.tokens[97] has 16777216 bytes; a token has at most 65536"},
    {"huge_control_token", [](TinyLlama& m) { m.tokens[256] = std::string(16 << 20, '<'); },
     "tokenizer.ggml.tokens[256] has 16777216 bytes"},
    {"token_twice", [](TinyLlama& m) { m.tokens[97] = m.tokens[98]; }, "tokenizer.ggml.tokens[98] is 'b', as"},
    {"fewer_types", [](TinyLlama& m) { m.types.pop_back(); }, "has 256 entries for the 257 of tokenizer.ggml.tokens"},
    {"type_negative", [](TinyLlama& m) { m.types[0] = -1; }, "tokenizer.ggml.token_type[0] is -1"},
    {"merge_of_unknown_tokens", [](TinyLlama& m) { m.merges = {"a bc"}; }, "'bc' is not in tokenizer.ggml.tokens"},
    {"merge_empty", [](TinyLlama& m) { m.merges = {""}; }, "tokenizer.ggml.merges[0] is ''"},
    {"merge_huge", [](TinyLlama& m) { m.merges = {std::string(16 << 20, 'a') + " b"}; }, "tokenizer.ggml.merges[0] is"},
    {"merge_with_itself", [](TinyLlama& m) { m.merges = {"a a"}; }, "but 'aa' is not in tokenizer.ggml.tokens"},
    integer("eos_outside", "tokenizer.ggml.eos_token_id", 257, "eos_token_id is 257; ids are 0 to 256"),
    integer("eos_negative", "tokenizer.ggml.eos_token_id", -1, "'tokenizer.ggml.eos_token_id' is the integer -1"),
    integer("bos_2_32", "tokenizer.ggml.bos_token_id", int64_t{1} << 32, "bos_token_id' is the integer 4294967296"),
    {"model_number", [](TinyLlama& m) { m.set("tokenizer.ggml.model", kU32, 7); },
     "is the integer 7; it must be a str"},
};
INSTANTIATE_TEST_SUITE_P(Vocabularies, LyingModel, ::testing::ValuesIn(kVocabularies), param_name);

}  // namespace
}  // namespace lockstep
