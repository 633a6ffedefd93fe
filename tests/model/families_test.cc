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
#include "support/family_names.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
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

// A checkpoint without some of its tensors.
class Without final : public Checkpoint {
 public:
  Without(const std::string& model, const std::string& ending)
      : whole_(Checkpoint::open(family_model_path(fs::path(LOCKSTEP_FIXTURES) / "families" / model))) {
    for (const TensorInfo& tensor : whole_->tensors()) {
      if (!tensor.name.ends_with(ending)) kept_.push_back(tensor);
    }
    EXPECT_LT(kept_.size(), whole_->tensors().size()) << ending;
  }
  std::string_view format() const override { return whole_->format(); }
  Naming naming() const override { return whole_->naming(); }
  const Metadata& metadata() const override { return whole_->metadata(); }
  std::span<const TensorInfo> tensors() const override { return kept_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const TensorInfo& t) { return t.name == name; });
    return found == kept_.end() ? nullptr : &*found;
  }
  int64_t file_bytes() const override { return whole_->file_bytes(); }
  std::vector<fs::path> files() const override { return whole_->files(); }
  void read(std::span<const std::byte> bytes, std::byte* to) const override { whole_->read(bytes, to); }

 private:
  std::unique_ptr<Checkpoint> whole_;
  std::vector<TensorInfo> kept_;
};

TEST(Families, NeedEveryTensorOfTheirKind) {
  struct Case {
    std::string model, without;
  };
  for (const auto& [model, without] : std::vector<Case>{
           {"gemma4_text.q8_0", "blk.1.proj.weight"},
           {"gemma4_text.q8_0", "blk.1.post_norm.weight"},
           {"gemma4_text.q8_0", "blk.2.inp_gate.weight"},
           {"gemma4_text.q8_0", "per_layer_proj_norm.weight"},
           {"gemma4_text.q8_0", "per_layer_model_proj.weight"},
           {"gemma4_text.q8_0", "per_layer_token_embd.weight"},
           {"gemma4_text.q8_0", "blk.0.layer_output_scale.weight"},
           {"gemma4_text.bf16", "layers.2.per_layer_projection.weight"},
           {"gemma4_text.bf16", "layers.3.layer_scalar"},
           {"hunyuan_v1_dense.bf16", "layers.1.self_attn.query_layernorm.weight"},
           {"seed_oss.bf16", "layers.1.self_attn.v_proj.bias"},
           {"llama.bf16", "lm_head.weight"},
           {"qwen3_5.q8_0", "blk.0.ssm_a"},
       }) {
    try {
      read_model(Without(model, without));
      ADD_FAILURE() << model << " without " << without;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::NotFound);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(without + "' is missing"))) << model;
    }
  }
}

TEST(Gemma4, WithoutInputsOfLayersTheirTensorsAreUnknown) {
  const ChangedModel model("gemma4_text.bf16", [](std::string& config) {
    replace(config, "\"hidden_size_per_layer_input\": 34", "\"hidden_size_per_layer_input\": 0");
  });
  EXPECT_THAT(refusal(model), HasSubstr("' is not part of a gemma4_text model"));
}

// What config.json leaves out is what the family's class in transformers means by it.
TEST(Defaults, AreThoseOfTheFamilysClass) {
  const auto without = [](const std::string& model, const std::vector<std::string>& lines) {
    return ChangedModel(model, [&](std::string& config) {
      for (const std::string& line : lines) replace(config, line + ",", "");
    });
  };
  const LayerSpec gemma3 = without("gemma3_text.mlx4", {"\"query_pre_attn_scalar\": 24"}).read().layers[0];
  EXPECT_EQ(gemma3.score_scale, 0.0625F);
  EXPECT_EQ(without("gemma3_text.mlx4", {"\"max_position_embeddings\": 256"}).read().context, 131072);
  EXPECT_EQ(without("gemma3_text.mlx4", {"\"rms_norm_eps\": 1e-06"}).read().norm_eps, 1e-6F);
  EXPECT_EQ(without("gemma3_text.mlx4", {"\"sliding_window\": 13"}).read().layers[0].window, 4096);
  EXPECT_THAT(refusal(without("gemma3_text.mlx4", {"\"num_attention_heads\": 3", "\"num_key_value_heads\": 1"})),
              HasSubstr("but the metadata says [64, 256]"));  // eight heads of 32
  EXPECT_EQ(without("ernie4_5.bf16", {"\"rope_theta\": 500000.0"}).read().layers[0].rope.base, 5e5);
  EXPECT_EQ(without("smollm3.bf16", {"\"rope_theta\": 5000000.0"}).read().layers[0].rope.base, 2e6);
  EXPECT_EQ(without("granite.bf16", {"\"attention_multiplier\": 0.4"}).read().layers[0].score_scale, 1);
  EXPECT_EQ(without("llama.bf16", {"\"max_position_embeddings\": 256"}).read().context, 2048);
  const ChangedModel qwen("qwen3_5.bf16",
                          [](std::string& config) { replace(config, "\"partial_rotary_factor\": 0.25,", ""); });
  EXPECT_EQ(qwen.read().layers[2].rope.rotary, 4);  // of 16
}

TEST(Rope, IsReadWhereNewAndOldFilesHaveIt) {
  // YaRN that someone adds to a file of the newer kind, as model cards say.
  const ChangedModel both("qwen3.bf16", [](std::string& config) {
    replace(config, "\"rope_scaling\": null", R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 64}, "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0})");
    replace(config, "\"rope_theta\": 1000000.0,", "");
  });
  const RopeSpec rope = both.read().layers[0].rope;
  EXPECT_EQ(rope.scaling, RopeSpec::Scaling::Yarn);
  EXPECT_EQ(rope.factor, 4);
  EXPECT_EQ(rope.base, 5000);
  const ChangedModel narrow("qwen3.bf16", [](std::string& config) {
    replace(config, "\"rope_theta\"", "\"partial_rotary_factor\": 0.01, \"rope_theta\"");
  });
  EXPECT_THAT(refusal(narrow), HasSubstr("partial_rotary_factor is 0.01"));
  for (const char* word : {"true", "false"}) {
    const ChangedModel truncated("qwen3.bf16", [&](std::string& config) {
      replace(config, "\"rope_scaling\": null",
              std::string(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0,
        "original_max_position_embeddings": 64, "truncate": )") +
                  word + "}");
    });
    if (std::string(word) == "true") {
      EXPECT_EQ(truncated.read().layers[0].rope.scaling, RopeSpec::Scaling::Yarn);
    } else {
      EXPECT_THAT(refusal(truncated), HasSubstr("truncate is given"));
    }
  }
}

// GGUF: a factor is linear where no type is named, and has an old name.
TEST(Rope, OfGgufIsLinearByDefault) {
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    FakeCheckpoint file = fake_llama({});
    file.set(key, 4.0);
    const RopeSpec rope = read_model(file).layers[0].rope;
    EXPECT_EQ(rope.scaling, RopeSpec::Scaling::Linear) << key;
    EXPECT_EQ(rope.factor, 4) << key;
    file.set("llama.rope.scaling.type", std::string_view("none"));
    EXPECT_EQ(read_model(file).layers[0].rope.scaling, RopeSpec::Scaling::None) << key;
  }
}

// The same numbers under another architecture, whose norms are added.
FakeCheckpoint fake_gemma3(int64_t layers) {
  FakeCheckpoint file = fake_llama({.hidden = 96, .heads = 4, .kv_heads = 2, .head_dim = 16, .layers = layers});
  const FakeCheckpoint llama = file;
  file.meta = Metadata("fake.gguf");
  file.set("general.architecture", std::string_view("gemma3"));
  for (const auto& [key, value] : llama.meta.entries()) {
    if (key.starts_with("llama.")) file.meta.insert("gemma3." + key.substr(6), value);
  }
  file.set("gemma3.attention.sliding_window", int64_t{13});
  for (int64_t i = 0; i < layers; ++i) {
    const std::string at = "blk." + std::to_string(i) + ".";
    for (const char* norm : {"attn_q_norm.weight", "attn_k_norm.weight"}) file.add(at + norm, DType::F32, {16});
    for (const char* norm : {"post_attention_norm.weight", "post_ffw_norm.weight"})
      file.add(at + norm, DType::F32, {96});
  }
  return file;
}

// Of the GGUF sizes of Gemma 3, the one of 62 layers scales scores by the width of the model over its heads.
TEST(Gemma3, OfTheLargestSizeHasItsOwnScaleOfScores) {
  EXPECT_FLOAT_EQ(read_model(fake_gemma3(61)).layers[0].score_scale, 0.25F);
  EXPECT_FLOAT_EQ(read_model(fake_gemma3(62)).layers[0].score_scale, 1 / std::sqrt(24.0F));
}

TEST(Gemma3, ReadsBothSoftCaps) {
  const ChangedModel model("gemma3_text.bf16", [](std::string& config) {
    replace(config, "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 50.0");
    replace(config, "\"final_logit_softcapping\": null", "\"final_logit_softcapping\": 30.0");
  });
  const ModelSpec spec = model.read();
  EXPECT_EQ(spec.layers[0].score_cap, 50);
  EXPECT_EQ(spec.logit_cap, 30);
  FakeCheckpoint file = fake_gemma3(2);
  file.set("gemma3.final_logit_softcapping", 30.0);
  EXPECT_EQ(read_model(file).logit_cap, 30);
}

TEST(Families, RefuseWhatTheyDoNotCompute) {
  const auto with = [](const std::string& model, const std::string& line) {
    return refusal(
        ChangedModel(model, [&](std::string& config) { config.replace(config.find('{'), 1, "{" + line + ","); }));
  };
  EXPECT_THAT(with("gemma3_text.bf16", "\"use_bidirectional_attention\": true"),
              HasSubstr("use_bidirectional_attention is true"));
  EXPECT_THAT(with("gemma4_31b.bf16", "\"use_bidirectional_attention\": \"all\""),
              HasSubstr("use_bidirectional_attention is true"));
  EXPECT_EQ(with("gemma4_31b.bf16", "\"use_bidirectional_attention\": \"vision\""), "nothing was refused");
  EXPECT_THAT(with("gemma4_31b.bf16", "\"enable_moe_block\": true"), HasSubstr("enable_moe_block is true; mixture"));
  EXPECT_THAT(with("llama.bf16", "\"num_local_experts\": 8"), HasSubstr("num_local_experts is 8; mixture"));
  FakeCheckpoint file = fake_llama({});
  file.set("llama.attention.causal", false);
  EXPECT_THROW(read_model(file), Error);
}

TEST(Families, AListWithNullInItIsNotAListThatIsMissing) {
  const ChangedModel model("gemma3_text.bf16",
                           [](std::string& config) { replace(config, "\"full_attention\",", "null,"); });
  EXPECT_THAT(refusal(model), HasSubstr("layer_types' is an array or object of several kinds of values"));
}

TEST(Gemma4, LayersThatBorrowKeysHaveAsManyHeadsOfThem) {
  const auto whole = Checkpoint::open(fs::path(LOCKSTEP_FIXTURES) / "families" / "gemma4_text.q8_0" / "model.gguf");
  FakeCheckpoint file;
  file.list.assign(whole->tensors().begin(), whole->tensors().end());
  for (const auto& [key, value] : whole->metadata().entries()) {
    if (key == "gemma4.attention.head_count_kv") {
      file.meta.insert(key, {std::vector<int64_t>{1, 1, 1, 1, 1, 1, 3, 3}});
    } else {
      file.meta.insert(key, value);
    }
  }
  try {
    read_model(file);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("layer 6 reads the keys of layer 3, but has 3 heads of them, and not 1"));
  }
}

// Blocks that predict more tokens than one stand behind the layers, and are counted with them.
TEST(Qwen35, LeavesItsPredictingBlockAside) {
  const auto whole = Checkpoint::open(fs::path(LOCKSTEP_FIXTURES) / "families" / "qwen3_5.q8_0" / "model.gguf");
  FakeCheckpoint file;
  file.list.assign(whole->tensors().begin(), whole->tensors().end());
  for (const auto& [key, value] : whole->metadata().entries()) {
    file.meta.insert(key, key == "qwen35.block_count" ? MetadataValue{MetadataScalar{int64_t{7}}} : value);
  }
  file.add("blk.6.nextn.eh_proj.weight", DType::F32, {64, 128});
  file.add("blk.6.attn_q.weight", DType::F32, {192, 64});
  EXPECT_THROW(read_model(file), Error);
  file.set("qwen35.nextn_predict_layers", int64_t{1});
  EXPECT_EQ(read_model(file).layers.size(), 6U);
  file.add("blk.5.nextn.eh_proj.weight", DType::F32, {64, 128});
  EXPECT_THROW(read_model(file), Error);
}

}  // namespace
}  // namespace lockstep
