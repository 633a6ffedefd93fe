// Whole Hugging Face and MLX models whose index, config.json or quantisation lies, given to the program: one line, exit
// status 1, no large allocation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <ostream>

#include "malformed/folder.h"
#include "malformed/tiny_hf_llama.h"
#include "malformed/whole_program.h"

namespace lockstep {
namespace {

using ::testing::ExitedWithCode;

auto param_name = [](const auto& param_info) { return param_info.param.name; };

// The models as they are run inside the same limits, so a refusal is one of the lie.
TEST(TrueHfModel, Runs) {
  for (const bool quantised : {false, true}) {
    const Folder folder;
    const auto model = TinyHfLlama(quantised).write(folder);
    EXPECT_EXIT(run_program({"generate", "--model", model, "--tokens", "1,2", "--max-tokens", "1", "--quiet"}),
                ExitedWithCode(0), "");
  }
}

// ---- config.json and the tensors it speaks of ----

struct Lie {
  std::string name;
  std::function<void(TinyHfLlama&)> change;
  std::string message;

  friend void PrintTo(const Lie& item, std::ostream* out) { *out << item.name; }
};

class LyingConfig : public ::testing::TestWithParam<Lie> {};
TEST_P(LyingConfig, IsRefusedInOneLine) {
  TinyHfLlama model;
  GetParam().change(model);
  const Folder folder;
  EXPECT_EXIT(run_program({"inspect", "--model", model.write(folder)}), ExitedWithCode(1),
              one_line_saying(GetParam().message));
}

Lie value(const std::string& name, const std::string& key, const std::string& json, const std::string& message) {
  return {name, [=](TinyHfLlama& m) { m.config[key] = json; }, message};
}

// A JSON string of that many letters.
std::string quoted(size_t letters) {
  return fmt::format("\"{}\"", std::string(letters, 'x'));
}

const std::string kHeads = "num_attention_heads", kKvHeads = "num_key_value_heads";

const std::vector<Lie> kNumbers{
    value("heads_0", kHeads, "0", "'num_attention_heads' is the integer 0; it must be an integer from 1"),
    value("heads_negative", kHeads, "-4", "'num_attention_heads' is the integer -4"),
    value("heads_huge", kHeads, "18446744073709551615", "'num_attention_heads' is the integer 18446744073709551615"),
    value("heads_fraction", kHeads, "4.0", "'num_attention_heads' is the float 4; it must be an integer"),
    value("heads_text", kHeads, R"("4")", "'num_attention_heads' is the string '4'; it must be an integer"),
    value("heads_list", kHeads, "[4]", "'num_attention_heads' is an array of 1 integers"),
    value("heads_null", kHeads, "null", "'num_attention_heads' is missing"),
    value("heads_object", kHeads, R"({"a": 4})", "'num_attention_heads' is missing"),
    value("kv_0", kKvHeads, "0", "'num_key_value_heads' is the integer 0"),
    value("kv_above_heads", kKvHeads, "8", "'num_key_value_heads' is the integer 8; it must be an integer from 1 to 4"),
    value("kv_no_divisor", kKvHeads, "3", "num_key_value_heads is 3; it must divide the 4 query heads"),
    value("head_dim_0", "head_dim", "0", "'head_dim' is the integer 0"),
    value("head_dim_other", "head_dim", "32", "tensor 'model.layers.0.self_attn"),
    value("hidden_0", "hidden_size", "0", "'hidden_size' is the integer 0"),
    value("hidden_other", "hidden_size", "128", "has shape [40, 64], but the metadata says [40, 128]"),
    value("layers_0", "num_hidden_layers", "0", "'num_hidden_layers' is the integer 0"),
    value("layers_one_more", "num_hidden_layers", "2", "tensor 'model.layers.1."),
    value("layers_1e9", "num_hidden_layers", "1000000000", "'num_hidden_layers' is the integer 1000000000"),
    value("ffn_0", "intermediate_size", "0", "'intermediate_size' is the integer 0"),
    value("ffn_1e9", "intermediate_size", "1000000000", "'intermediate_size' is the integer 1000000000"),
    value("context_0", "max_position_embeddings", "0", "'max_position_embeddings' is the integer 0"),
    value("theta_0", "rope_theta", "0", "rope_theta is 0"),
    value("rope_kind", "rope_scaling", R"({"rope_type": "spiral"})",
          "rope_scaling.rope_type is 'spiral'; known: default, linear, llama3"),
    value("rope_variant", "rope_scaling",
          R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16, "mscale_all_dim": 1})",
          "rope_scaling.mscale_all_dim is given"),
    value("theta_nan", "rope_theta", "NaN", "config.json: it is no JSON that can be read"),
    value("theta_infinite", "rope_theta", "1e999", "config.json: it is no JSON that can be read"),
    value("eps_negative", "rms_norm_eps", "-1", "rms_norm_eps is -1"),
    value("model_type_unknown", "model_type", R"("gpt9")", "model_type 'gpt9' is not known"),
    value("model_type_huge", "model_type", quoted(1 << 20), "(1048576 bytes) is not known"),
    {"model_type_missing", [](TinyHfLlama& m) { m.config.erase("model_type"); }, "'model_type' is missing"},
    value("activation_unknown", "hidden_act", R"("swoosh")", "hidden_act is 'swoosh'"),
    value("same_key_by_dots", "a\": {\"b\": 1}, \"a.b", "2", "metadata key 'a.b' is there twice"),
    value("key_twice", "x\": 1, \"x", "2", "config.json: it has the key 'x' twice in one object"),
    value("not_utf8", "x", "\"\xff\"", "config.json: it is not UTF-8"),
    value("deep", "x", std::string(1'000'000, '['), "config.json: it nests more than 32 levels"),
    value(
        "deep_objects", "x",
        [] {
          std::string text;
          for (int i = 0; i < 1000; ++i) text += "{\"a\":";
          return text;
        }(),
        "config.json: it nests more than 32 levels"),
    value("long_string", "x", quoted((1 << 20) + 1), "a string of more than 1048576 bytes"),
    {"tensor_missing", [](TinyHfLlama& m) { m.tensors.erase("model.norm.weight"); },
     "tensor 'model.norm.weight' is missing"},
    {"tensor_unknown",
     [](TinyHfLlama& m) {
       m.tensors["model.extra.weight"] = {"F32", {1}};
     },
     "tensor 'model.extra.weight' is not part of a llama model"},
    {"tensor_unknown_and_unusable",
     [](TinyHfLlama& m) {
       m.tensors["model.extra"] = {"U32", {1}};
     },
     "tensor 'model.extra' is not part of a llama model"},
    {"weight_of_u8", [](TinyHfLlama& m) { m.tensors["model.norm.weight"].dtype = "U8"; },
     "tensor 'model.norm.weight' is U8; a weight may be F32, F16 or BF16"},
    {"weight_of_u32", [](TinyHfLlama& m) { m.tensors["model.layers.0.mlp.up_proj.weight"].dtype = "U32"; },
     "tensor 'model.layers.0.mlp.up_proj.weight' is U32; a weight may be F32, F16 or BF16, or U32 codes"},
};
INSTANTIATE_TEST_SUITE_P(Numbers, LyingConfig, ::testing::ValuesIn(kNumbers), param_name);

Lie method(const std::string& name) {
  return value(name, "quantization_config",
               fmt::format(R"({{"quant_method": "{}", "bits": 4, "group_size": 128}})", name),
               fmt::format("quantization_config has quant_method '{}', which cannot be run", name));
}
const std::vector<Lie> kMethods{
    method("gptq"),
    method("awq"),
    method("fp8"),
    method("bitsandbytes"),
    method("mxfp4"),
    value("none", "quantization_config", R"({"group_size": 64})", "quantization_config has quant_method ''"),
    value("inside_text_config", "text_config", R"({"quantization_config": {"quant_method": "fp8"}})",
          "text_config.quantization_config has quant_method 'fp8'"),
};
INSTANTIATE_TEST_SUITE_P(Methods, LyingConfig, ::testing::ValuesIn(kMethods), param_name);

TEST(GreedyConfig, IsRefusedBeforeItGrowsBy64Megabytes) {
  const std::function<std::string()> demands[] = {
      [] {
        std::string text = "[0";
        for (int i = 0; i < 20'000'000; ++i) text += ",0";
        return text += "]";
      },
      [] {
        std::string text = "{\"\":0";
        for (int i = 0; i < 1'000'000; ++i) text += fmt::format(",\"{:07}\":0", i);
        return text + "}";
      },
      [] {
        std::string text = "[[]";
        for (int i = 0; i < 20'000'000; ++i) text += ",[]";
        return text + "]";
      },
  };
  for (const auto& make : demands) {
    TinyHfLlama model;
    model.config["x"] = make();
    const Folder folder;
    EXPECT_EXIT(run_program({"inspect", "--model", model.write(folder)}), ExitedWithCode(1),
                ::testing::AnyOf(one_line_saying("more than the 50331648 bytes allowed"),
                                 one_line_saying("an array of more than 65536 elements")));
  }
}

// ---- MLX's quantisation ----

class LyingQuantisation : public ::testing::TestWithParam<Lie> {};
TEST_P(LyingQuantisation, IsRefusedInOneLine) {
  TinyHfLlama model(true);
  GetParam().change(model);
  const Folder folder;
  EXPECT_EXIT(run_program({"inspect", "--model", model.write(folder)}), ExitedWithCode(1),
              one_line_saying(GetParam().message));
}

Lie block(const std::string& name, const std::string& json, const std::string& message) {
  return value(name, "quantization", json, message);
}

const std::string kUp = "model.layers.0.mlp.up_proj";

const std::vector<Lie> kQuantisation{
    block("bits_1", R"({"group_size": 32, "bits": 1})",
          "'quantization' says 1 bits in groups of 32; affine has 2, 3, 4, 5, 6, 8 bits in groups of 32, 64, 128"),
    block("bits_7", R"({"group_size": 32, "bits": 7})", "'quantization' says 7 bits in groups of 32"),
    block("bits_0", R"({"group_size": 32, "bits": 0})", "'quantization.bits' is the integer 0"),
    block("bits_negative", R"({"group_size": 32, "bits": -4})", "'quantization.bits' is the integer -4"),
    block("bits_huge", R"({"group_size": 32, "bits": 4294967300})", "'quantization.bits' is the integer 4294967300"),
    block("bits_text", R"({"group_size": 32, "bits": "4"})", "'quantization.bits' is the string '4'"),
    block("bits_other", R"({"group_size": 32, "bits": 8})",
          "has shape [40, 2]; codes of shape [40, 8], quantised as config.json says, need [40, 1]"),
    block("bits_3", R"({"group_size": 32, "bits": 3})",
          "its rows are 8 words of 32 bits, which are no whole groups of 32 codes of 3 bits"),
    block("group_0", R"({"group_size": 0, "bits": 4})", "'quantization.group_size' is the integer 0"),
    block("group_48", R"({"group_size": 48, "bits": 4})", "'quantization' says 4 bits in groups of 48"),
    block("group_other", R"({"group_size": 64, "bits": 4})", "need [40, 1]"),
    block("group_too_large", R"({"group_size": 128, "bits": 4})", "no whole groups of 128 codes of 4 bits"),
    block("mode_unknown", R"({"group_size": 32, "bits": 4, "mode": "int4"})",
          "quantization.mode is 'int4'; known are affine, mxfp4, mxfp8 and nvfp4"),
    block("mode_number", R"({"group_size": 32, "bits": 4, "mode": 4})", "'quantization.mode' is the integer 4"),
    block("mode_mxfp4_group", R"({"group_size": 64, "bits": 4, "mode": "mxfp4"})",
          "'quantization' says 4 bits in groups of 64; mxfp4 has 4 bits in groups of 32"),
    block("mode_mxfp4_scales", R"({"group_size": 32, "bits": 4, "mode": "mxfp4"})",
          "its dtype is F16; scales of mode mxfp4 are U8"),
    block("override_bits", R"({"group_size": 32, "bits": 4, "model.layers.0.mlp.up_proj": {"bits": 9}})",
          "'quantization.model.layers.0.mlp.up_proj' says 9 bits in groups of 64"),
    block("override_other",
          R"({"group_size": 32, "bits": 4, "model.layers.0.mlp.up_proj": {"group_size": 64, "bits": 4}})",
          "tensor 'model.layers.0.mlp.up_proj.scales': it has shape [96, 2]"),
    block("override_false", R"({"group_size": 32, "bits": 4, "model.layers.0.mlp.up_proj": false})",
          "tensor 'model.layers.0.mlp.up_proj.weight' is U32"),
    block("override_text", R"({"group_size": 32, "bits": 4, "model.layers.0.mlp.up_proj": "no"})",
          "'quantization.model.layers.0.mlp.up_proj' is the string 'no'; it must be a bool"),
    block("global_scale", R"({"group_size": 32, "bits": 4, "global_scale": true})",
          "quantization.global_scale is true"),
    {"no_block", [](TinyHfLlama& m) { m.config.erase("quantization"); },
     "tensor 'model.embed_tokens.weight' is U32; a weight may be F32, F16 or BF16, or U32 codes as MLX's"},
    {"scales_missing", [](TinyHfLlama& m) { m.tensors.erase(kUp + ".scales"); },
     "there is no tensor 'model.layers.0.mlp.up_proj.scales'"},
    {"biases_missing", [](TinyHfLlama& m) { m.tensors.erase(kUp + ".biases"); },
     "there is no tensor 'model.layers.0.mlp.up_proj.biases'"},
    {"scales_too_few",
     [](TinyHfLlama& m) {
       m.tensors[kUp + ".scales"].shape = {96, 1};
     },
     "tensor 'model.layers.0.mlp.up_proj.scales': it has shape [96, 1]; codes of shape [96, 8]"},
    {"scales_rows",
     [](TinyHfLlama& m) {
       m.tensors[kUp + ".scales"].shape = {95, 2};
     },
     "it has shape [95, 2]"},
    {"scales_sides", [](TinyHfLlama& m) { m.tensors[kUp + ".scales"].shape = {192}; }, "it has shape [192]"},
    {"biases_too_many",
     [](TinyHfLlama& m) {
       m.tensors[kUp + ".biases"].shape = {96, 3};
     },
     "tensor 'model.layers.0.mlp.up_proj.biases': it has shape [96, 3]"},
    {"scales_dtype", [](TinyHfLlama& m) { m.tensors[kUp + ".scales"].dtype = "U8"; },
     "its dtype is U8; scales of mode affine are F16, BF16 or F32"},
    {"biases_dtype", [](TinyHfLlama& m) { m.tensors[kUp + ".biases"].dtype = "BF16"; },
     "its dtype is BF16; it must be that of the scales, F16"},
    {"codes_dtype", [](TinyHfLlama& m) { m.tensors[kUp + ".weight"].dtype = "F16"; },
     "tensor 'model.layers.0.mlp.up_proj."},
    {"codes_vector", [](TinyHfLlama& m) { m.tensors[kUp + ".weight"].shape = {768}; },
     "its shape is [768]; packed codes are a matrix"},
    {"codes_rows",
     [](TinyHfLlama& m) {
       m.tensors[kUp + ".weight"].shape = {97, 8};
     },
     "need [97, 2]"},
};
INSTANTIATE_TEST_SUITE_P(Blocks, LyingQuantisation, ::testing::ValuesIn(kQuantisation), param_name);

// ---- the index ----

struct BadIndex {
  std::string name;
  std::string index;
  std::string message;

  friend void PrintTo(const BadIndex& item, std::ostream* out) { *out << item.name; }
};

class LyingIndex : public ::testing::TestWithParam<BadIndex> {
 protected:
  LyingIndex() {
    folder_.write("config.json", TinyHfLlama().config_text());
    folder_.write("one.safetensors", good_safetensors());
    folder_.write("two.safetensors", safetensors(R"({"c":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
    folder_.write("again.safetensors", safetensors(R"({"c":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
    std::filesystem::create_symlink("loop.safetensors", folder_.path() / "loop.safetensors");
    std::filesystem::create_directory(folder_.path() / "folder.safetensors");
  }
  // A weight_map with the entries.
  std::string write(const std::string& text) {
    folder_.write("model.safetensors.index.json", text);
    return folder_.path().string();
  }
  Folder folder_;
};

TEST_P(LyingIndex, IsRefusedInOneLine) {
  EXPECT_EXIT(run_program({"inspect", "--model", write(GetParam().index)}), ExitedWithCode(1),
              one_line_saying(GetParam().message));
}

std::string map_of(const std::string& entries) {
  return fmt::format(R"({{"metadata": {{"total_size": 30}}, "weight_map": {{{}}}}})", entries);
}

const std::vector<BadIndex> kIndexes{
    // As it should be: then it is the tensors that are not a model's.
    {"good", map_of(R"("a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors")"),
     "embed_tokens.weight"},
    {"empty_file", "", "index.json: it is no JSON that can be read"},
    {"no_json", "weights", "index.json: it is no JSON that can be read"},
    {"array", "[1]", "index.json: it is an array; it must be an object"},
    {"number", "1", "index.json: it is a single value; it must be an object"},
    {"null", "null", "index.json: it is a single value; it must be an object"},
    {"no_map", R"({"metadata": {}})", "it has no weight_map, or an empty one"},
    {"map_empty", map_of(""), "its weight_map is no object of strings"},
    {"map_list", R"({"weight_map": ["a"]})", "its weight_map is no object of strings"},
    {"map_of_numbers", map_of(R"("a": 1)"), "its weight_map is no object of strings"},
    {"map_deep", map_of(R"("a": {"b": "one.safetensors"})"), "its weight_map is no object of strings"},
    {"tensor_twice", map_of(R"("a": "one.safetensors", "a": "two.safetensors")"),
     "has the key 'a' twice in one object"},
    {"shard_missing", map_of(R"("a": "three.safetensors")"), "three.safetensors: cannot open: No such file"},
    {"shard_above", map_of(R"("a": "../one.safetensors")"),
     "tensor 'a' is in '../one.safetensors'; a shard is named by"},
    {"shard_absolute", map_of(R"("a": "/etc/one.safetensors")"), "tensor 'a' is in '/etc/one.safetensors'"},
    {"shard_below", map_of(R"("a": "sub/one.safetensors")"), "tensor 'a' is in 'sub/one.safetensors'"},
    {"shard_nul", map_of(R"("a": "config.json\u0000.safetensors")"), "config.json"},
    {"shard_empty", map_of(R"("a": "")"), "tensor 'a' is in ''"},
    {"shard_other_kind", map_of(R"("a": "config.json")"), "tensor 'a' is in 'config.json'"},
    {"shard_loop", map_of(R"("a": "loop.safetensors")"), "loop.safetensors: cannot open: Too many levels of symbolic"},
    {"shard_folder", map_of(R"("a": "folder.safetensors")"), "folder.safetensors: is a directory"},
    {"tensor_not_there", map_of(R"("x": "one.safetensors")"), "tensor 'x' is in 'one.safetensors', where it is not"},
    {"tensor_elsewhere", map_of(R"("c": "one.safetensors", "a": "two.safetensors")"),
     "tensor 'c' is in 'one.safetensors', where it is not"},
    {"tensor_in_two_shards", map_of(R"("c": "again.safetensors", "a": "two.safetensors")"),
     "two.safetensors: tensor 'c' is also in"},
};
INSTANTIATE_TEST_SUITE_P(Indexes, LyingIndex, ::testing::ValuesIn(kIndexes), param_name);

TEST(BadFolder, IsRefusedByName) {
  const Folder folder;
  const auto refused = [&](const std::string& message) {
    EXPECT_EXIT(run_program({"inspect", "--model", folder.path().string()}), ExitedWithCode(1),
                one_line_saying(message));
  };
  refused(
      "it is a folder without model.safetensors and model.safetensors.index.json; to open a GGUF file, name the file");
  folder.write("model.safetensors", good_safetensors());
  refused("model.safetensors: there is no config.json beside it");
  std::filesystem::create_symlink("config.json", folder.path() / "config.json");
  refused("config.json: cannot open: Too many levels of symbolic links");
  std::filesystem::remove(folder.path() / "config.json");
  folder.write("config.json", "{}");
  folder.write("generation_config.json", "[]");
  refused("generation_config.json: it is an array; it must be an object");
}

}  // namespace
}  // namespace lockstep
