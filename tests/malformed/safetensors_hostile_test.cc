// safetensors files made to hurt: cut anywhere, bytes changed at random, headers that ask for much memory. The parser
// works on a heap copy of the exact size, so that a sanitizer sees the first byte read beyond it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <fstream>
#include <iterator>
#include <ostream>
#include <random>

#include "base/error.h"
#include "checkpoint/safetensors_file.h"
#include "malformed/folder.h"
#include "malformed/tiny_hf_llama.h"
#include "malformed/whole_program.h"

namespace lockstep {
namespace {

// Whether the bytes were accepted. Every byte of every tensor is then read.
bool parses(std::string_view text) {
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(text.data()),
                                     reinterpret_cast<const std::byte*>(text.data()) + text.size());
  HeaderBudget budget;
  try {
    unsigned sum = 0;
    for (const auto& tensor : parse_safetensors(bytes, "test.safetensors", budget)) {
      for (const auto byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
    }
    return sum != UINT_MAX;
  } catch (const Error&) {
    return false;
  }
}

std::string fixture(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_FIXTURES) + "/safetensors/" + name, std::ios::binary);
  EXPECT_TRUE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(HostileSafetensors, CutAtAnyByteIsRefused) {
  for (const auto& whole : {good_safetensors(), fixture("plain/model.safetensors")}) {
    ASSERT_TRUE(parses(whole));
    for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parses(whole.substr(0, size))) << size << " bytes";
  }
}

TEST(HostileSafetensors, RandomChangesAreReadOrRefused) {
  std::mt19937 random(20240817);
  int accepted = 0;
  int refused = 0;
  for (const auto& original : {good_safetensors(), fixture("plain/model.safetensors")}) {
    for (int round = 0; round < 5'000; ++round) {
      auto bytes = original;
      for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
        constexpr char kValues[] = {'\0', '"', '{', '}', '[', ']', ',', '9', '-', '\x7f', '\x80', '\xff'};
        const auto value = random() % 2 == 0 ? kValues[random() % sizeof(kValues)] : static_cast<char>(random());
        bytes[random() % bytes.size()] = value;
      }
      ++(parses(bytes) ? accepted : refused);
    }
  }
  EXPECT_GT(accepted, 1'000);
  EXPECT_GT(refused, 1'000);
}

// Files that are right item by item, with as many items as make the largest demand on memory.
std::string many_tensors(uint64_t count) {
  std::string header;
  for (uint64_t i = 0; i < count; ++i) {
    header +=
        fmt::format(R"({}"{:x}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i == 0 ? "{" : ",", i, i, i + 1);
  }
  return safetensors(header + "}", count);
}

std::string many_notes(uint64_t count) {
  std::string header = R"({"__metadata__":{"":"")";
  for (uint64_t i = 0; i < count; ++i) header += fmt::format(R"(,"{:x}":"")", i);
  return safetensors(header + "}}", 0);
}

std::string long_notes(uint64_t count) {
  std::string header = R"({"__metadata__":{"":"")";
  for (uint64_t i = 0; i < count; ++i) header += fmt::format(R"(,"{:x}":"{}")", i, std::string(1 << 20, 'x'));
  return safetensors(header + "}}", 0);
}

std::string long_names(uint64_t count) {
  std::string header;
  for (uint64_t i = 0; i < count; ++i) {
    header += fmt::format(R"({}"{:x}{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "{" : ",", i,
                          std::string(1'000'000, 'x'));
  }
  return safetensors(header + "}", 0);
}

struct Demand {
  const char* name;
  std::string (*make)();

  friend void PrintTo(const Demand& item, std::ostream* out) { *out << item.name; }
};

class GreedySafetensors : public ::testing::TestWithParam<Demand> {};

TEST_P(GreedySafetensors, IsRefusedBeforeItGrowsBy64Megabytes) {
  const Folder folder;
  folder.write("config.json", "{}");
  const auto file = folder.write("model.safetensors", GetParam().make()).string();
  EXPECT_EXIT(run_program({"inspect", "--model", file}), ::testing::ExitedWithCode(1),
              one_line_saying("its metadata and tensor table need more than the 50331648 bytes allowed"));
}

INSTANTIATE_TEST_SUITE_P(Demands, GreedySafetensors,
                         ::testing::Values(Demand{"tensors", [] { return many_tensors(200'000); }},
                                           Demand{"notes", [] { return many_notes(1'000'000); }},
                                           Demand{"long_notes", [] { return long_notes(60); }},
                                           Demand{"long_names", [] { return long_names(40); }}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

// About as many tensors as the budget allows; the address sanitizer keeps as much again around each allocation.
#ifdef __SANITIZE_ADDRESS__
constexpr int kAllowed = 20'000;
#else
constexpr int kAllowed = 60'000;
#endif

// They are read within the same bound.
TEST(LargeSafetensors, WhatIsAllowedIsReadWithinTheBound) {
  const Folder folder;
  folder.write("config.json", R"({"model_type": "llama"})");
  const auto file = folder.write("model.safetensors", many_tensors(kAllowed)).string();
  EXPECT_EXIT(run_program({"inspect", "--model", file}), ::testing::ExitedWithCode(1),
              one_line_saying("no tensor ends in 'embed_tokens.weight'"));
}

}  // namespace
}  // namespace lockstep
