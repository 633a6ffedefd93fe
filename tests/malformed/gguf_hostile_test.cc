// GGUF files made to hurt: cut anywhere, bytes changed at random, headers that ask for much memory. The parser works on
// a heap copy of the exact size, so that a sanitizer sees the first byte read beyond it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <iterator>
#include <ostream>
#include <random>

#include "base/error.h"
#include "checkpoint/gguf_file.h"
#include "malformed/folder.h"
#include "malformed/gguf_writer.h"
#include "malformed/whole_program.h"

namespace lockstep {
namespace {

// Whether the bytes were accepted. Every byte of every tensor and string is then read.
bool parses(std::string_view text) {
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(text.data()),
                                     reinterpret_cast<const std::byte*>(text.data()) + text.size());
  HeaderBudget budget;
  try {
    const auto file = parse_gguf(bytes, "test.gguf", budget);
    unsigned sum = 0;
    for (const auto& tensor : file.tensors) {
      for (const auto byte : tensor.parts.at(0).bytes) sum += std::to_integer<unsigned>(byte);
    }
    for (const auto& [key, value] : file.metadata.entries()) {
      if (const auto* list = std::get_if<std::vector<std::string_view>>(&value.value)) {
        for (const auto text : *list) sum += static_cast<unsigned>(std::count(text.begin(), text.end(), 'a'));
      }
    }
    return sum != UINT_MAX;
  } catch (const Error&) {
    return false;
  }
}

std::string fixture(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_FIXTURES) + "/gguf/" + name, std::ios::binary);
  EXPECT_TRUE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(HostileGguf, CutAtAnyByteIsRefused) {
  const auto whole = valid_gguf();
  ASSERT_TRUE(parses(whole));
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parses(whole.substr(0, size))) << size << " bytes";
}

TEST(HostileGguf, CutAtAnyByteOfAFileWithEveryTypeIsRefused) {
  const auto whole = fixture("types.gguf");
  const size_t end_of_data = whole.size() - 26;  // the last tensor, 102 bytes of Q8_0, and its padding to 128
  ASSERT_TRUE(parses(whole.substr(0, end_of_data)));
  for (size_t size = 0; size < end_of_data; ++size) EXPECT_FALSE(parses(whole.substr(0, size))) << size << " bytes";
}

TEST(HostileGguf, RandomChangesAreReadOrRefused) {
  std::mt19937 random(20240817);
  int accepted = 0;
  int refused = 0;
  for (const auto& original : {valid_gguf(), fixture("types.gguf"), fixture("align64.gguf")}) {
    for (int round = 0; round < 5'000; ++round) {
      auto bytes = original;
      for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
        // Ends of ranges are where mistakes are: prefer them to plain noise.
        constexpr uint8_t kValues[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
        const auto value = random() % 2 == 0 ? kValues[random() % 5] : static_cast<uint8_t>(random());
        bytes[random() % bytes.size()] = static_cast<char>(value);
      }
      ++(parses(bytes) ? accepted : refused);
    }
  }
  EXPECT_GT(accepted, 1'000);
  EXPECT_GT(refused, 1'000);
}

TEST(HostileGguf, EveryByteSetToEveryExtremeIsReadOrRefused) {
  const auto original = valid_gguf();
  int refused = 0;
  for (size_t at = 0; at < original.size(); ++at) {
    for (const char value : {'\x00', '\x01', '\x7f', '\x80', '\xff'}) {
      auto bytes = original;
      bytes[at] = value;
      if (!parses(bytes)) ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

// Files that are right item by item, with as many items as make the largest demand on memory.
std::string many_keys(uint64_t count) {
  GgufWriter file;
  file.header(0, count);
  for (uint64_t i = 0; i < count; ++i) file.key(fmt::format("{:08}", i), kU8).number(uint8_t{0});
  return file.bytes();
}

std::string many_tensors(uint64_t count) {
  GgufWriter file;
  file.header(count, 0);
  for (uint64_t i = 0; i < count; ++i) file.tensor(fmt::format("{:064}", i), {1, 1, 1, 1}, kTensorF32, 32 * i);
  return file.pad().zeros(32 * count).bytes();
}

std::string long_array(uint32_t type, uint64_t count, size_t bytes_each) {
  return GgufWriter().header(0, 1).array("k", type, count).zeros(count * bytes_each).bytes();
}

std::string many_arrays(uint64_t count) {
  GgufWriter file;
  file.header(0, count);
  for (uint64_t i = 0; i < count; ++i) file.array(fmt::format("{:08}", i), kU8, 100'000).zeros(100'000);
  return file.bytes();
}

struct Demand {
  const char* name;
  std::string (*make)();

  friend void PrintTo(const Demand& item, std::ostream* out) { *out << item.name; }
};

class GreedyGguf : public ::testing::TestWithParam<Demand> {};

TEST_P(GreedyGguf, IsRefusedBeforeItGrowsBy64Megabytes) {
  const Folder folder;
  const auto file = folder.write("greedy.gguf", GetParam().make()).string();
  EXPECT_EXIT(run_program({"inspect", "--model", file}), ::testing::ExitedWithCode(1),
              one_line_saying("its metadata and tensor table need more than the 50331648 bytes allowed"));
}

INSTANTIATE_TEST_SUITE_P(Demands, GreedyGguf,
                         ::testing::Values(Demand{"keys", [] { return many_keys(400'000); }},
                                           Demand{"tensors", [] { return many_tensors(200'000); }},
                                           Demand{"bytes", [] { return long_array(kU8, 20'000'000, 1); }},
                                           Demand{"integers", [] { return long_array(kI32, 10'000'000, 4); }},
                                           Demand{"strings", [] { return long_array(kString, 5'000'000, 8); }},
                                           Demand{"arrays", [] { return many_arrays(300); }}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace lockstep
