// Broken safetensors files, one fault each: every one is refused with an error that names the file, the thing and the
// value. The faults are those of headers that lie about lengths, offsets, shapes and types.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "malformed/folder.h"
#include "malformed/tiny_hf_llama.h"
#include "malformed/whole_program.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct BadFile {
  std::string name;
  std::string bytes;
  std::string message;
  ErrorKind kind = ErrorKind::Malformed;

  friend void PrintTo(const BadFile& item, std::ostream* out) { *out << item.name; }
};

class BadSafetensors : public ::testing::TestWithParam<BadFile> {
 protected:
  BadSafetensors() {
    folder_.write("config.json", "{}");
    path_ = folder_.write("model.safetensors", GetParam().bytes);
  }
  Folder folder_;
  std::filesystem::path path_;
};

TEST_P(BadSafetensors, IsRefusedByName) {
  try {
    Checkpoint::open(folder_.path());
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), GetParam().kind) << error.what();
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr(path_.string() + ": "), HasSubstr(GetParam().message), Not(HasSubstr("\n"))));
  }
}

TEST_P(BadSafetensors, EndsTheProgramInOneLine) {
  EXPECT_EXIT(run_program({"inspect", "--model", path_.string()}), ::testing::ExitedWithCode(1),
              one_line_saying(GetParam().message));
}

auto param_name = [](const auto& param_info) { return param_info.param.name; };

TEST(GoodSafetensors, OpensWithoutAFault) {
  const Folder folder;
  folder.write("config.json", "{}");
  const auto checkpoint = Checkpoint::open(folder.write("model.safetensors", good_safetensors()));
  EXPECT_EQ(checkpoint->tensors().size(), 2U);
}

// What a reader may be tempted to refuse: no tensors, no bytes in a tensor, one element without sides, blanks at the
// end of the header, 8 dimensions, entries in any order.
TEST(GoodSafetensors, LimitsAreInclusive) {
  const Folder folder;
  folder.write("config.json", "{}");
  EXPECT_TRUE(Checkpoint::open(folder.write("model.safetensors", safetensors("{}  ")))->tensors().empty());
  const auto file = safetensors(R"({"late":{"dtype":"BF16","shape":[1,1,1,1,1,1,1,2],"data_offsets":[4,8]},)"
                                R"("none":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[4,4]},)"
                                R"("early":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}}   )",
                                8);
  const auto checkpoint = Checkpoint::open(folder.write("model.safetensors", file));
  ASSERT_EQ(checkpoint->tensors().size(), 3U);
  EXPECT_EQ(checkpoint->tensors()[0].name, "early");
  EXPECT_EQ(checkpoint->tensors()[0].elements, 1);
  EXPECT_EQ(checkpoint->tensors()[1].name, "none");
  EXPECT_EQ(checkpoint->tensors()[1].elements, 0);
  EXPECT_EQ(checkpoint->tensors()[2].name, "late");
}

std::vector<BadFile> bad_headers() {
  const std::string good(kGoodHeader);
  const std::string data(22, '\0');
  const auto with_length = [&](uint64_t length) { return safetensors(good, data, length); };
  const auto header = [&](const std::string& text) { return safetensors(text, 22); };
  return {
      {"empty", "", "it has 0 bytes; a safetensors file begins with 8 bytes"},
      {"seven_bytes", good_safetensors().substr(0, 7), "it has 7 bytes"},
      {"length_alone", good_safetensors().substr(0, 8), "but only 0 follow its length"},
      {"length_0", with_length(0), "its header of 0 bytes does not begin with '{'"},
      {"length_one_less", with_length(good.size() - 1), "its header is no JSON that can be read"},
      {"length_one_more", with_length(good.size() + 1),
       fmt::format("its header has a NUL, at byte {}", good.size() + 1)},
      {"nul_inside", header(std::string("{\"a\0\":{}}", 9)), "its header has a NUL, at byte 4"},
      {"nul_and_more", header(std::string("{}\0{}", 5)), "its header has a NUL, at byte 3"},
      {"length_past_end", with_length(good.size() + 23), fmt::format("but only {} follow", good.size() + 22)},
      {"length_100_mb", with_length(100'000'000), "its header has 100000000 bytes, but only"},
      {"length_above_100_mb", with_length(100'000'001), "at most 100000000 are allowed"},
      {"length_2_31", with_length(uint64_t{1} << 31), "its header has 2147483648 bytes; at most"},
      {"length_2_63", with_length(uint64_t{1} << 63), "its header has 9223372036854775808 bytes; at most"},
      {"length_max", with_length(UINT64_MAX), "its header has 18446744073709551615 bytes; at most"},
      {"polyglot", header(fmt::format(" {}", good)), "does not begin with '{'"},
      {"array", header("[1]"), "does not begin with '{'"},
      {"zip", fmt::format("PK\3\4{}", good_safetensors()),
       "at most 100000000 are allowed (or it is not a safetensors file)"},
      {"not_utf8", header("{\"a\xff\":{}}"), "its header is not UTF-8"},
      {"utf8_overlong", header("{\"\xc0\x80\":{}}"), "its header is not UTF-8"},
      {"utf8_surrogate", header("{\"\xed\xa0\x80\":{}}"), "its header is not UTF-8"},
      {"escaped_surrogate", header(R"({"\ud800":{}})"), "its header is no JSON that can be read"},
      {"json_cut", header(good.substr(0, good.size() - 1)), "its header is no JSON that can be read, at byte"},
      {"json_twice", header("{}{}"), "its header is no JSON that can be read"},
      {"json_nan", header(R"({"a":{"shape":[NaN]}})"), "its header is no JSON that can be read"},
      {"json_infinite", header(R"({"a":{"shape":[1e999]}})"), "its header is no JSON that can be read"},
      {"deep_arrays", header(fmt::format(R"({{"a":{})", std::string(100'000, '['))), "nests more than 32 levels"},
      {"long_string", header(fmt::format(R"({{"a":"{}"}})", std::string((1 << 20) + 1, 'x'))),
       "a string of more than 1048576 bytes"},
      {"long_array", header(fmt::format(R"({{"a":{{"shape":[{}]}}}})", fmt::join(std::vector<int>(65537), ","))),
       "an array of more than 65536 elements"},
      {"metadata_no_object", header(R"({"__metadata__":1})"), "__metadata__ is no object of strings"},
      {"metadata_number", header(R"({"__metadata__":{"a":1}})"), "__metadata__ is no object of strings"},
      {"metadata_deep", header(R"({"__metadata__":{"a":{"b":"c"}}})"), "__metadata__ is no object of strings"},
      {"metadata_twice", header(R"({"__metadata__":{"a":"b","a":"c"}})"), "has the key 'a' twice in one object"},
  };
}
INSTANTIATE_TEST_SUITE_P(Header, BadSafetensors, ::testing::ValuesIn(bad_headers()), param_name);

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":{},"shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

std::string object(const std::vector<std::string>& entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

std::vector<BadFile> bad_tensors() {
  const std::string f32 = R"("F32")";
  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return safetensors(object({entry("t", dtype, shape, offsets)}), 32);
  };
  const auto two = [&](const std::string& first, const std::string& second) {
    return safetensors(object({entry("a", f32, "[4]", first), entry("b", f32, "[4]", second)}), 32);
  };
  const auto raw = [](const std::string& header) { return safetensors(header, 32); };
  std::string many_sides = "[1";
  for (int i = 0; i < 8; ++i) many_sides += ",1";
  std::vector<BadFile> files = {
      {"no_object", raw(R"({"t":5})"), "tensor 't': it is no object with dtype"},
      {"null", raw(R"({"t":null})"), "tensor 't': it is no object"},
      {"list", raw(R"({"t":[1,2]})"), "tensor 't': it is no object"},
      {"no_fields", raw(R"({"t":{}})"), "tensor 't': it has no dtype"},
      {"no_dtype", raw(R"({"t":{"shape":[8],"data_offsets":[0,32]}})"), "tensor 't': it has no dtype"},
      {"no_shape", raw(R"({"t":{"dtype":"F32","data_offsets":[0,32]}})"), "tensor 't': it has no shape"},
      {"no_offsets", raw(R"({"t":{"dtype":"F32","shape":[8]}})"), "tensor 't': it has no data_offsets"},
      {"other_field", raw(R"({"t":{"dtype":"F32","stride":[8]}})"), "tensor 't': it has the field 'stride'"},
      {"field_twice", raw(R"({"t":{"dtype":"F32","dtype":"F16"}})"), "has the key 'dtype' twice in one object"},
      {"name_twice",
       safetensors(object({entry("a\\nb", f32, "[4]", "[0,16]"), entry("a\\nb", f32, "[4]", "[16,32]")}), 32),
       "has the key 'a\\nb' twice in one object"},
      {"dtype_unknown", one(R"("Q4_0")", "[8]", "[0,32]"), "its dtype is 'Q4_0'; known are F32, F16, BF16",
       ErrorKind::Unsupported},
      {"dtype_case", one(R"("f32")", "[8]", "[0,32]"), "its dtype is 'f32'", ErrorKind::Unsupported},
      {"dtype_number", one("0", "[8]", "[0,32]"), "its dtype is no string"},
      {"dtype_object", one("{\"a\":1}", "[8]", "[0,32]"), "its 'dtype' is an object"},
      {"shape_number", one(f32, "8", "[0,32]"), "its shape is no array of whole numbers"},
      {"shape_negative", one(f32, "[-8]", "[0,32]"), "its shape is no array of whole numbers"},
      {"shape_fraction", one(f32, "[8.0]", "[0,32]"), "its shape is no array of whole numbers"},
      {"shape_text", one(f32, R"(["8"])", "[0,32]"), "its shape is no array of whole numbers"},
      {"shape_nested", one(f32, "[[8]]", "[0,32]"), "its shape is no array of whole numbers"},
      {"shape_9_sides", one(f32, many_sides + "]", "[0,32]"), "it has 9 dimensions; at most 8"},
      {"shape_wraps_to_8", one(f32, "[2305843009213693952,8,8]", "[0,32]"), "passes 2^63 - 1"},
      {"shape_wraps_to_0", one(f32, "[4294967296,4294967296]", "[0,0]"), "passes 2^63 - 1"},
      {"shape_2_63", one(f32, "[9223372036854775808]", "[0,32]"), "a side is 9223372036854775808"},
      {"shape_2_64", one(f32, "[18446744073709551616]", "[0,32]"), "its shape is no array of whole numbers"},
      {"bytes_wrap", one(f32, "[4611686018427387904]", "[0,0]"), "need more than 2^64 - 1 bits"},
      {"bytes_less", one(f32, "[7]", "[0,32]"), "it has the 32 bytes 0 to 32 of the data, but 7 elements of F32"},
      {"bytes_more", one(f32, "[9]", "[0,32]"), "9 elements of F32 are 288 bits"},
      {"half_byte", one(R"("F4")", "[63]", "[0,32]"), "63 elements of F4 are 252 bits"},
      {"begin_after_end", one(f32, "[8]", "[32,0]"), "its data begins at 32 and ends before, at 0"},
      {"offsets_one", one(f32, "[8]", "[32]"), "its data_offsets are not two whole numbers"},
      {"offsets_three", one(f32, "[8]", "[0,32,64]"), "its data_offsets are not two whole numbers"},
      {"offsets_negative", one(f32, "[8]", "[-32,0]"), "its data_offsets are not two whole numbers"},
      {"offsets_fraction", one(f32, "[8]", "[0,32.0]"), "its data_offsets are not two whole numbers"},
      {"offsets_max", one(f32, "[8]", "[18446744073709551584,18446744073709551615]"),
       "it has the 31 bytes 18446744073709551584"},
      {"past_end", one(f32, "[16]", "[0,64]"), "it has the bytes 0 to 64 of the data, but only 32 are in the file"},
      {"one_byte_short", safetensors(object({entry("t", f32, "[8]", "[0,32]")}), 31), "but only 31 are in the file"},
      {"trailing_byte", safetensors(object({entry("t", f32, "[8]", "[0,32]")}), 33),
       "1 bytes follow the last tensor, which ends at byte 32"},
      {"trailing_all", safetensors("{}", 32), "32 bytes follow the last tensor, which ends at byte 0"},
      {"hole_first", one(f32, "[4]", "[16,32]"),
       "tensor 't': its data begins at byte 16, but the tensor before it ends "
       "at 0; tensors may not leave a hole"},
      {"hole_between", two("[0,16]", "[17,33]"), "tensor 'b': its data begins at byte 17"},
      {"same_place", two("[0,16]", "[0,16]"),
       "its data begins at byte 0, but the tensor before it ends at 16; tensors "
       "may not overlap"},
      {"overlap_by_one", two("[0,16]", "[15,31]"), "tensor 'b': its data begins at byte 15"},
  };
  return files;
}
INSTANTIATE_TEST_SUITE_P(Tensors, BadSafetensors, ::testing::ValuesIn(bad_tensors()), param_name);

}  // namespace
}  // namespace lockstep
