// What families read where their files say the same thing in more than one way, or something that nobody knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "model/model.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
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

TEST(Families, RefuseLayersOfUnknownKinds) {
  for (const char* name : {"gemma3_text.bf16", "gemma4_text.mlx8", "qwen3_5.mlx4"}) {
    const ChangedModel model(
        name, [](std::string& config) { replace(config, "\"full_attention\",", "\"chunked_attention\","); });
    EXPECT_THAT(refusal(model), HasSubstr("layer_types holds 'chunked_attention'; known: full_attention, ")) << name;
  }
}

TEST(Gemma4, NeedsTheRopeOfEachKind) {
  const ChangedModel model("gemma4_text.mlx8", [](std::string& config) {
    replace(config, "\"rope_parameters\"", "\"rope_of_another_time\"");
  });
  EXPECT_THAT(refusal(model), HasSubstr("rope_parameters.sliding_attention.rope_theta"));
}

}  // namespace
}  // namespace lockstep
