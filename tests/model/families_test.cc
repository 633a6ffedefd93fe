// What families read where their files say the same thing in more than one way, or something that nobody knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "model/model.h"
#include "support/fake_checkpoint.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// A copy of a fixture's model with another config.json.
class ChangedModel {
 public:
  ChangedModel(const std::string& name, const std::function<void(std::string& config)>& change) {
    std::string folder = (fs::temp_directory_path() / "lockstep-family-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    const fs::path from = fs::path(LOCKSTEP_FIXTURES) / "families" / name;
    fs::copy(from / "model.safetensors", folder_);
    std::ifstream in(from / "config.json");
    std::string config((std::istreambuf_iterator<char>(in)), {});
    change(config);
    std::ofstream(folder_ / "config.json") << config;
  }
  ~ChangedModel() { fs::remove_all(folder_); }
  ChangedModel(const ChangedModel&) = delete;
  ChangedModel& operator=(const ChangedModel&) = delete;

  ModelSpec read() const { return read_model(*Checkpoint::open(folder_)); }

 private:
  fs::path folder_;
};

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

std::string refusal(const ChangedModel& model) {
  try {
    model.read();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

std::vector<double> bases(const ModelSpec& spec) {
  std::vector<double> found;
  for (const LayerSpec& layer : spec.layers) found.push_back(layer.rope.base);
  return found;
}

TEST(Gemma3, RopesInOneObjectAreThoseOfTheOldKeys) {
  const ChangedModel old("gemma3_text.bf16", [](std::string&) {});
  const ChangedModel newer("gemma3_text.bf16", [](std::string& config) {
    replace(config, "\"rope_theta\": 1000000.0", R"("rope_parameters": {
      "full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
      "sliding_attention": {"rope_theta": 1000.0, "rope_type": "default"}})");
    replace(config, "\"rope_local_base_freq\": 1000.0,", "");
  });
  const std::vector<double> expected{1e3, 1e3, 1e6, 1e3, 1e3, 1e6, 1e3};
  EXPECT_EQ(bases(old.read()), expected);
  EXPECT_EQ(bases(newer.read()), expected);
}

TEST(Gemma3, HasItsOwnBaseWhereTheFileSaysNone) {
  const ChangedModel model("gemma3_text.bf16",
                           [](std::string& config) { replace(config, "\"rope_theta\": 1000000.0,", ""); });
  EXPECT_EQ(bases(model.read())[2], 1e6);
}

// bfloat16 has eight bits of significand: 7.46875 and 7.5 about the root of 56, 5.8125 and 5.84375 about that of 34.
TEST(Gemma, ScalesEmbeddingsByRootsThatBfloat16Holds) {
  const auto unchanged = [](std::string&) {};
  EXPECT_EQ(ChangedModel("gemma3_text.bf16", unchanged).read().embedding_scale, 7.46875F);
  const ModelSpec gemma4 = ChangedModel("gemma4_text.bf16", unchanged).read();
  EXPECT_EQ(gemma4.embedding_scale, 7.46875F);
  EXPECT_EQ(gemma4.layer_embedding_scale, 5.84375F);
}

TEST(Gemma, ScalesEmbeddingsByRootsAsTheyAreInGguf) {
  const auto file = Checkpoint::open(fs::path(LOCKSTEP_FIXTURES) / "families" / "gemma3_text.q8_0" / "model.gguf");
  EXPECT_EQ(read_model(*file).embedding_scale, std::sqrt(96.0F));
}

TEST(Families, RefuseLayersOfUnknownKinds) {
  for (const char* name : {"gemma3_text.bf16", "gemma4_text.mlx8", "qwen3_5.mlx4"}) {
    const ChangedModel model(
        name, [](std::string& config) { replace(config, "\"full_attention\",", "\"chunked_attention\","); });
    EXPECT_THAT(refusal(model), HasSubstr("layer_types holds 'chunked_attention'; known: full_attention, ")) << name;
  }
}

std::vector<int64_t> windows(const ModelSpec& spec) {
  std::vector<int64_t> found;
  for (const LayerSpec& layer : spec.layers) found.push_back(layer.window);
  return found;
}

TEST(Qwen, HasWindowsInTheLayersThatTheFileSays) {
  const ChangedModel last("qwen2.mlx4", [](std::string& config) {
    replace(config, "\"use_sliding_window\": false", "\"use_sliding_window\": true");
    replace(config, "\"max_window_layers\": 3", "\"max_window_layers\": 1");
  });
  EXPECT_THAT(windows(last.read()), ElementsAre(0, 13, 13));
  const ChangedModel listed("qwen3.mlx4", [](std::string& config) {
    replace(config, "\"use_sliding_window\": false", R"("use_sliding_window": true,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention"])");
    replace(config, "\"sliding_window\": null", "\"sliding_window\": 7");
  });
  EXPECT_THAT(windows(listed.read()), ElementsAre(7, 0, 7));
  const ChangedModel none("qwen2.mlx4", [](std::string&) {});
  EXPECT_THAT(windows(none.read()), ElementsAre(0, 0, 0));
}

TEST(Qwen, RefusesWindowsThatContradict) {
  const ChangedModel unused("qwen2.mlx4", [](std::string& config) {
    replace(config, "\"use_sliding_window\": false", R"("use_sliding_window": false,
      "layer_types": ["full_attention", "full_attention", "sliding_attention"])");
  });
  EXPECT_THAT(refusal(unused), HasSubstr("layer_types holds sliding_attention, but use_sliding_window is not true"));
  const ChangedModel without("qwen3.mlx4", [](std::string& config) {
    replace(config, "\"use_sliding_window\": false", "\"use_sliding_window\": true");
  });
  EXPECT_THAT(refusal(without), HasSubstr("sliding_window"));
}

TEST(SmolLm3, HasWindowsInLayersWithoutRope) {
  const ChangedModel model("smollm3.bf16", [](std::string& config) {
    replace(config, "\"use_sliding_window\": false", R"("use_sliding_window": true, "sliding_window": 9)");
  });
  EXPECT_THAT(windows(model.read()), ElementsAre(0, 9, 0, 9));
}

TEST(Gemma4, NeedsTheRopeOfEachKind) {
  const ChangedModel model("gemma4_text.mlx8", [](std::string& config) {
    replace(config, "\"rope_parameters\"", "\"rope_of_another_time\"");
  });
  EXPECT_THAT(refusal(model), HasSubstr("rope_parameters.sliding_attention.rope_theta"));
}

// Numbers that GGUF gives layer by layer.
TEST(LayerLists, HaveOneEntryForEachLayer) {
  const auto refusal_of = [](const std::string& key, MetadataValue value) {
    const FakeCheckpoint usual = fake_llama({.layers = 2});
    FakeCheckpoint file = usual;
    file.meta = Metadata("fake.gguf");
    for (const auto& [name, old] : usual.meta.entries()) {
      if (name != key) file.meta.insert(name, old);
    }
    file.meta.insert(key, std::move(value));
    try {
      read_model(file);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  const auto ints = [](std::vector<int64_t> list) { return MetadataValue{std::move(list)}; };
  const std::string ffn = "llama.feed_forward_length", heads = "llama.attention.head_count_kv";
  EXPECT_EQ(refusal_of(ffn, ints({96, 96})), "nothing was refused");
  EXPECT_EQ(refusal_of(ffn, ints({96})), "fake.gguf: llama.feed_forward_length has 1 entries; the model has 2 layers");
  EXPECT_EQ(refusal_of(ffn, ints({})), "fake.gguf: llama.feed_forward_length has 0 entries; the model has 2 layers");
  EXPECT_THAT(refusal_of(ffn, ints({96, 0})), HasSubstr("llama.feed_forward_length holds 0; allowed are 1 to"));
  EXPECT_THAT(refusal_of(ffn, ints({96, 64})),
              HasSubstr("'blk.1.ffn_gate.weight' has shape [96, 64], but the metadata says [64, 64]"));
  EXPECT_THAT(refusal_of(ffn, {std::vector<double>{96, 96}}), HasSubstr("an array of 2 floats"));
  EXPECT_EQ(refusal_of(heads, ints({2, 2})), "nothing was refused");
  EXPECT_THAT(refusal_of(heads, ints({2, 3})), HasSubstr("head_count_kv is 3; it must divide the 4 query heads"));
  EXPECT_THAT(refusal_of(heads, ints({2, -1})), HasSubstr("head_count_kv holds -1; allowed are 1 to 4"));
}

}  // namespace
}  // namespace lockstep
