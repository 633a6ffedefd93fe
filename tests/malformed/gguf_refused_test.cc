// Broken GGUF files, one fault each: every one is refused with an error that names the file, the thing and the value.
// The faults are those that broke other readers: counts and lengths that wrap, dimensions, offsets, types, alignments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <ostream>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "malformed/folder.h"
#include "malformed/gguf_writer.h"
#include "malformed/whole_program.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kTwo31 = uint64_t{1} << 31;
constexpr uint64_t kTwo62 = uint64_t{1} << 62;
constexpr uint64_t kTwo63 = uint64_t{1} << 63;
constexpr uint64_t kMax = UINT64_MAX;

void expect_refused(const std::filesystem::path& path, ErrorKind kind, const std::string& message) {
  try {
    Checkpoint::open(path);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path.string() + ": "), HasSubstr(message), Not(HasSubstr("\n"))));
  }
}

struct BadFile {
  std::string name;
  std::string bytes;
  std::string message;
  ErrorKind kind = ErrorKind::Malformed;

  friend void PrintTo(const BadFile& item, std::ostream* out) { *out << item.name; }
};

class BadGguf : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadGguf, IsRefusedByName) {
  const Folder folder;
  expect_refused(folder.write("bad.gguf", GetParam().bytes), GetParam().kind, GetParam().message);
}

TEST_P(BadGguf, EndsTheProgramInOneLine) {
  const Folder folder;
  const auto file = folder.write("bad.gguf", GetParam().bytes).string();
  EXPECT_EXIT(run_program({"inspect", "--model", file}), ::testing::ExitedWithCode(1),
              one_line_saying(GetParam().message));
}

auto param_name = [](const auto& param_info) { return param_info.param.name; };

GgufWriter one_key() {
  return GgufWriter().header(0, 1);
}
GgufWriter one_tensor() {
  return GgufWriter().header(1, 0);
}

TEST(GoodGguf, OpensWithoutAFault) {
  const Folder folder;
  const auto checkpoint = Checkpoint::open(folder.write("good.gguf", valid_gguf()));
  EXPECT_EQ(checkpoint->tensors().size(), 2U);
  EXPECT_EQ(checkpoint->metadata().require_string("general.architecture"), "llama");
}

std::vector<BadFile> bad_headers() {
  const std::string good = valid_gguf();
  const auto with = [&](size_t at, auto value) {
    std::string bytes = good;
    bytes.replace(at, sizeof(value), reinterpret_cast<const char*>(&value), sizeof(value));
    return bytes;
  };
  const auto unsupported = ErrorKind::Unsupported;
  return {
      {"empty", "", "it has 0 bytes"},
      {"three_bytes", "GGU", "begins with 'GGU'", unsupported},
      {"magic_alone", "GGUF", "4 bytes are wanted at byte 4, but the file ends at byte 4"},
      {"another_format", "PK\3\4" + good, "a GGUF file (or the first file of a split), a .safetensors", unsupported},
      {"version_0", with(4, uint32_t{0}), "GGUF v0; versions 2 and 3", unsupported},
      {"version_1", with(4, uint32_t{1}), "GGUF v1; versions 2 and 3", unsupported},
      {"version_4", with(4, uint32_t{4}), "GGUF v4; versions 2 and 3", unsupported},
      {"version_max", with(4, UINT32_MAX), "GGUF v4294967295; versions 2 and 3", unsupported},
      {"big_endian", with(4, uint32_t{0x03000000}), "big-endian", unsupported},
      {"tensors_2_31", with(8, kTwo31), "2147483648 tensors are announced"},
      {"tensors_2_63", with(8, kTwo63), "9223372036854775808 tensors are announced"},
      {"tensors_max", with(8, kMax), "18446744073709551615 tensors are announced"},
      {"tensors_one_more", with(8, uint64_t{3}), "tensor 3 of 3"},
      {"keys_0", with(16, uint64_t{0}), "tensor 'general.architecture': it has 8 dimensions"},
      {"keys_2_31", with(16, kTwo31), "2147483648 metadata keys are announced"},
      {"keys_2_63", with(16, kTwo63), "9223372036854775808 metadata keys are announced"},
      {"keys_max", with(16, kMax), "18446744073709551615 metadata keys are announced"},
      {"keys_one_more", with(16, uint64_t{4}), "tensor 1 of 2: the name '' has 0 bytes"},
  };
}
INSTANTIATE_TEST_SUITE_P(Header, BadGguf, ::testing::ValuesIn(bad_headers()), param_name);

std::vector<BadFile> bad_metadata() {
  std::vector<BadFile> files = {
      {"type_13", one_key().key("k", 13).number(uint64_t{0}).bytes(),
       "key 'k': the value has type 13; types are 0 to 12"},
      {"type_negative", one_key().key("k", UINT32_MAX).number(uint64_t{0}).bytes(), "the value has type 4294967295"},
      {"bool_2", one_key().key("k", kBool).number(uint8_t{2}).bytes(), "a bool is 2; allowed are 0 and 1"},
      {"bool_array_2", one_key().array("k", kBool, 1).number(uint8_t{2}).bytes(), "a bool is 2; allowed are 0 and 1"},
      {"value_cut", one_key().key("k", kU64).number(uint32_t{0}).bytes(), "8 bytes are wanted"},
      {"key_empty", one_key().key("", kU32).number(uint32_t{0}).number(uint32_t{0}).bytes(), "allowed are 1 to 65535"},
      {"key_long", one_key().key(std::string(65536, 'k'), kU8).number(uint8_t{0}).bytes(), "has 65536 bytes; allowed"},
      {"key_not_utf8", one_key().key("k\xff", kU8).number(uint8_t{0}).bytes(), "is not UTF-8"},
      {"key_utf8_overlong", one_key().key("\xc0\x80", kU8).number(uint8_t{0}).bytes(), "is not UTF-8"},
      {"key_utf8_surrogate", one_key().key("\xed\xa0\x80", kU8).number(uint8_t{0}).bytes(), "is not UTF-8"},
      {"key_utf8_cut", one_key().key("\xe6\x97", kU8).number(uint8_t{0}).bytes(), "is not UTF-8"},
      {"key_twice",
       GgufWriter().header(0, 2).key("k", kU8).number(uint8_t{1}).key("k", kBool).number(uint8_t{1}).bytes(),
       "key 'k' is there twice"},
      {"array_of_arrays", one_key().array("k", kArray, 1).number(uint32_t{kU8}).number(uint64_t{0}).bytes(),
       "array of arrays", ErrorKind::Unsupported},
      {"array_type_99", one_key().array("k", 99, 1).zeros(8).bytes(), "has type 99; types are 0 to 12"},
      {"array_u64_beyond_int64", one_key().array("k", kU64, 1).number(kTwo63).bytes(),
       "an element is 9223372036854775808"},
      {"alignment_0", one_key().key("general.alignment", kU32).number(uint32_t{0}).bytes(),
       "'general.alignment' is the integer 0; it must be an integer from 8 to 1073741824"},
      {"alignment_4", one_key().key("general.alignment", kU32).number(uint32_t{4}).bytes(), "is the integer 4"},
      {"alignment_48", one_key().key("general.alignment", kU32).number(uint32_t{48}).bytes(), "a power of two"},
      {"alignment_2_31", one_key().key("general.alignment", kU32).number(uint32_t{kTwo31}).bytes(), "2147483648"},
      {"alignment_text", one_key().key("general.alignment", kString).string("32").bytes(), "is the string '32'"},
  };
  // Lengths that are larger than the file, or whose product with the size of an element wraps around 64 bits.
  for (const uint64_t length : {kTwo31, kTwo62, kTwo63, kMax}) {
    const auto suffix = "_" + std::to_string(length);
    const auto number = std::to_string(length);
    files.push_back({"key_length" + suffix, one_key().number(length).zeros(64).bytes(), number + " bytes are wanted"});
    files.push_back({"string_length" + suffix, one_key().key("k", kString).number(length).zeros(64).bytes(),
                     number + " bytes are wanted"});
    files.push_back({"element_length" + suffix, one_key().array("k", kString, 2).number(length).zeros(64).bytes(),
                     number + " bytes are wanted"});
    for (const uint32_t type : {kU8, kU64, kF32}) {
      files.push_back({fmt::format("array_of_{}_length{}", type, suffix),
                       one_key().array("k", type, length).zeros(64).bytes(), number + " numbers are announced"});
    }
    files.push_back({"bool_array_length" + suffix, one_key().array("k", kBool, length).zeros(64).bytes(),
                     number + " bools are announced"});
    files.push_back({"string_array_length" + suffix, one_key().array("k", kString, length).zeros(64).bytes(),
                     number + " strings are announced"});
  }
  // A length of 0 is allowed, but then what follows is no longer what it was.
  const auto rest = GgufWriter().string("text").zeros(16).bytes();
  files.push_back({"key_length_0", one_key().number(uint64_t{0}).raw(rest).bytes(), "has 0 bytes; allowed are 1"});
  files.push_back({"string_length_0",
                   GgufWriter().header(0, 2).key("k", kString).number(uint64_t{0}).raw("text").zeros(16).bytes(),
                   "key 2 of 2"});
  files.push_back({"array_length_0",
                   GgufWriter().header(0, 2).array("k", kI32, 0).number(int32_t{-1}).zeros(16).bytes(), "key 2 of 2"});
  return files;
}
INSTANTIATE_TEST_SUITE_P(Metadata, BadGguf, ::testing::ValuesIn(bad_metadata()), param_name);

std::vector<BadFile> bad_tensors() {
  const std::vector<uint64_t> row = {32};
  const auto data = [](GgufWriter writer, size_t bytes = 128) { return writer.pad().zeros(bytes).bytes(); };
  const auto with_dimensions = [&](uint32_t count, uint32_t written) {
    auto writer = one_tensor().string("t").number(count);
    for (uint32_t i = 0; i < written; ++i) writer.number(uint64_t{1});
    return data(writer.number(uint32_t{kTensorF32}).number(uint64_t{0}));
  };
  std::vector<BadFile> files = {
      {"dimensions_0", with_dimensions(0, 0), "tensor 't': it has 0 dimensions; allowed are 1 to 4"},
      {"dimensions_5", with_dimensions(5, 5), "tensor 't': it has 5 dimensions; allowed are 1 to 4"},
      {"dimensions_255", with_dimensions(255, 4), "it has 255 dimensions"},
      {"dimensions_max", with_dimensions(UINT32_MAX, 4), "it has 4294967295 dimensions"},
      {"extent_0", data(one_tensor().tensor("t", {32, 0}, kTensorF32, 0)), "dimension 1 is 0; it must be at least 1"},
      {"extent_wraps", data(one_tensor().tensor("t", {kTwo31, kTwo31, 4, 1}, kTensorF32, 0)), "passes 2^63 - 1"},
      {"extent_wraps_to_1", data(one_tensor().tensor("t", {kMax, kMax}, kTensorF32, 0)), "passes 2^63 - 1"},
      {"extent_negative", data(one_tensor().tensor("t", {kTwo63}, kTensorF32, 0)), "passes 2^63 - 1"},
      {"bytes_wrap", data(one_tensor().tensor("t", {kTwo62}, kTensorF32, 0)), "need more than 2^64 - 1 bytes"},
      {"bytes_huge", data(one_tensor().tensor("t", {kTwo62 / 2}, kTensorF32, 0)),
       "9223372036854775808 bytes at offset 0"},
      {"half_block", data(one_tensor().tensor("t", {48}, kTensorQ8_0, 0)),
       "rows have 48 elements; Q8_0 needs a multiple"},
      {"half_block_rows", data(one_tensor().tensor("t", {16, 2}, kTensorQ8_0, 0)), "rows have 16 elements"},
      {"type_negative", data(one_tensor().tensor("t", row, UINT32_MAX, 0)), "its type is 4294967295, which names no"},
      {"type_unknown", data(one_tensor().tensor("t", row, 30'000, 0)), "its type is 30000, which names no"},
      {"type_foreign", data(one_tensor().tensor("t", {256}, kTensorIQ2_XXS, 0)),
       "'t': its type is IQ2_XXS, which cannot", ErrorKind::Unsupported},
      {"name_empty", data(one_tensor().tensor("", row, kTensorF32, 0)), "has 0 bytes; allowed are 1 to 64"},
      {"name_65", data(one_tensor().tensor(std::string(65, 't'), row, kTensorF32, 0)),
       "has 65 bytes; allowed are 1 to 64"},
      {"name_not_utf8", data(one_tensor().tensor("t\x80", row, kTensorF32, 0)), "is not UTF-8"},
      {"name_twice",
       data(GgufWriter().header(2, 0).tensor("a\nb", row, kTensorF32, 0).tensor("a\nb", row, kTensorF32, 128), 256),
       "tensor 'a\\nb' is there twice"},
      {"offset_unaligned", data(one_tensor().tensor("t", row, kTensorF32, 8), 256),
       "offset is 8; it must be a multiple of 32"},
      {"offset_past_end", data(one_tensor().tensor("t", row, kTensorF32, 160)), "128 bytes at offset 160 of the data"},
      {"offset_wraps", data(one_tensor().tensor("t", row, kTensorF32, kMax - 31)), "offset 18446744073709551584"},
      {"end_wraps", data(one_tensor().tensor("t", {kTwo62 - 1}, kTensorF32, 32)),
       "18446744073709551612 bytes at offset 32"},
      {"size_past_end", data(one_tensor().tensor("t", {33}, kTensorF32, 0)),
       "132 bytes at offset 0 of the data, but only 128"},
      {"one_byte_short", data(one_tensor().tensor("t", row, kTensorF32, 0), 127), "but only 127 bytes"},
      {"no_data", one_tensor().tensor("t", row, kTensorF32, 0).bytes(), "but only 0 bytes"},
      {"alignment_past_end",
       GgufWriter()
           .header(1, 1)
           .key("general.alignment", kU32)
           .number(uint32_t{1} << 30)
           .tensor("t", row, kTensorF32, 0)
           .zeros(256)
           .bytes(),
       "but only 0 bytes"},
      {"same_place", data(GgufWriter().header(2, 0).tensor("a", row, kTensorF32, 0).tensor("b", row, kTensorF32, 0)),
       "inside tensor"},
      {"overlap_by_one_block",
       data(GgufWriter().header(2, 0).tensor("late", row, kTensorF32, 96).tensor("early", row, kTensorF32, 0), 256),
       "tensor 'late': it begins at offset 96 of the data, inside tensor 'early' of 128 bytes at 0"},
  };
  // Sizes that are each below 2^64 and whose sum wraps around to a few bytes.
  GgufWriter many;
  many.header(8, 0);
  for (int i = 0; i < 8; ++i) many.tensor("t" + std::to_string(i), {kTwo62 / 4 + 8}, kTensorF32, i * (kTwo62 + 32));
  files.push_back({"sizes_wrap_together", data(many), "bytes at offset 0 of the data, but only 128"});
  return files;
}
INSTANTIATE_TEST_SUITE_P(Tensors, BadGguf, ::testing::ValuesIn(bad_tensors()), param_name);

// The rules above, at their limits: what is still allowed.
TEST(GoodGguf, LimitsAreInclusive) {
  const Folder folder;
  const auto file = GgufWriter()
                        .header(2, 2)
                        .key(std::string(65535, 'k'), kString)
                        .string("any bytes: \xff")
                        .key("general.alignment", kU32)
                        .number(uint32_t{8})
                        .tensor(std::string(64, 't'), {1, 1, 1, 2}, kTensorF32, 8)
                        .tensor("first", {2}, kTensorF32, 0)
                        .pad(8)
                        .zeros(16)
                        .bytes();
  const auto checkpoint = Checkpoint::open(folder.write("limits.gguf", file));
  EXPECT_EQ(checkpoint->tensors().size(), 2U);
}

TEST(GoodGguf, AVocabularyMayComeWithoutTensors) {
  const Folder folder;
  auto bytes = valid_gguf();
  bytes.replace(8, 8, 8, '\0');
  EXPECT_TRUE(Checkpoint::open(folder.write("vocabulary.gguf", bytes))->tensors().empty());
}

TEST(BadPath, IsRefusedByName) {
  const Folder folder;
  expect_refused(folder.path(), ErrorKind::NotFound, "it is a folder without model.safetensors");
  expect_refused(folder.path() / "absent.gguf", ErrorKind::NotFound, "No such file");
  std::filesystem::create_symlink("loop.gguf", folder.path() / "loop.gguf");
  expect_refused(folder.path() / "loop.gguf", ErrorKind::Io, "symbolic links");
}

// One part of a split, with one tensor.
std::string part(uint16_t number, uint16_t count, int32_t tensors, const std::string& name) {
  constexpr uint32_t kU16 = 2;
  return GgufWriter()
      .header(1, 3)
      .key("split.no", kU16)
      .number(number)
      .key("split.count", kU16)
      .number(count)
      .key("split.tensors.count", kI32)
      .number(tensors)
      .tensor(name, {8}, kTensorF32, 0)
      .pad()
      .zeros(32)
      .bytes();
}

TEST(BadSplit, IsRefusedByName) {
  const Folder folder;
  const auto first = folder.write("m-00001-of-00002.gguf", part(0, 2, 2, "a"));
  const auto second = folder.path() / "m-00002-of-00002.gguf";
  expect_refused(second, ErrorKind::NotFound, "No such file");
  EXPECT_THROW(Checkpoint::open(first), Error);  // its neighbour is absent

  folder.write("m-00002-of-00002.gguf", part(1, 2, 2, "b"));
  EXPECT_EQ(Checkpoint::open(first)->tensors().size(), 2U);

  const auto refused = [&](const std::string& bytes, const std::filesystem::path& named, const std::string& message) {
    folder.write("m-00002-of-00002.gguf", bytes);
    try {
      Checkpoint::open(first);
      FAIL() << "opened";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Malformed);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(named.string() + ": "), HasSubstr(message)));
    }
  };
  refused(part(0, 2, 2, "b"), second, "its metadata says part 1 of 2; its name says part 2 of 2");
  refused(part(1, 3, 2, "b"), second, "its metadata says part 2 of 3; its name says part 2 of 2");
  refused(part(2, 2, 2, "b"), second, "'split.no' is the integer 2; it must be an integer from 0 to 1");
  refused(part(1, 2, 2, "a"), second, "tensor 'a' is there twice");
  refused(part(1, 2, 2, "b").substr(0, 100), second, "cut short");
  folder.write("m-00001-of-00002.gguf", part(0, 2, 3, "a"));
  refused(part(1, 2, 3, "b"), first, "split.tensors.count is 3, but its 2 parts hold 2 tensors");
  expect_refused(folder.write("renamed.gguf", part(0, 2, 2, "a")), ErrorKind::Malformed, "-00001-of-00002.gguf");
}

}  // namespace
}  // namespace lockstep
