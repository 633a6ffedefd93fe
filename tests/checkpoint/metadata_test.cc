// Typed reads: what is accepted, and what the error says when the value found is another.
#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>

#include "base/error.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Metadata sample() {
  Metadata metadata("model.gguf");
  metadata.insert("bool", {MetadataScalar(true)});
  metadata.insert("negative", {MetadataScalar(int64_t{-3})});
  metadata.insert("uint", {MetadataScalar(uint64_t{12})});
  metadata.insert("huge", {MetadataScalar(std::numeric_limits<uint64_t>::max())});
  metadata.insert("float", {MetadataScalar(0.5)});
  metadata.insert("nan", {MetadataScalar(std::numeric_limits<double>::quiet_NaN())});
  metadata.insert("infinite", {MetadataScalar(std::numeric_limits<double>::infinity())});
  metadata.insert("text", {MetadataScalar(std::string_view("two\nlines"))});
  metadata.insert("ints", {std::vector<int64_t>{1, -2}});
  metadata.insert("floats", {std::vector<double>{0.5, 2}});
  metadata.insert("strings", {std::vector<std::string_view>{"a", ""}});
  return metadata;
}

TEST(Metadata, ReadsEachType) {
  const auto metadata = sample();
  EXPECT_EQ(metadata.get_bool("bool"), true);
  EXPECT_EQ(metadata.get_int("negative", -3, 0), -3);
  EXPECT_EQ(metadata.get_int("uint", 0, 12), 12);
  EXPECT_EQ(metadata.require_int("uint", 12, 12), 12);
  EXPECT_EQ(metadata.get_float("float"), 0.5);
  EXPECT_EQ(metadata.get_float("negative"), -3.0);
  EXPECT_EQ(metadata.require_float("uint"), 12.0);
  EXPECT_EQ(metadata.get_string("text"), "two\nlines");
  EXPECT_EQ(metadata.require_string("text"), "two\nlines");
  EXPECT_THAT(metadata.get_ints("ints"), ElementsAre(1, -2));
  EXPECT_THAT(metadata.get_strings("strings"), ElementsAre("a", ""));
}

TEST(Metadata, AbsentKeysGiveNothing) {
  const auto metadata = sample();
  EXPECT_FALSE(metadata.contains("none"));
  EXPECT_EQ(metadata.find("none"), nullptr);
  EXPECT_EQ(metadata.get_int("none", 0, 1), std::nullopt);
  EXPECT_EQ(metadata.get_float("none"), std::nullopt);
  EXPECT_EQ(metadata.get_bool("none"), std::nullopt);
  EXPECT_EQ(metadata.get_string("none"), std::nullopt);
  EXPECT_THAT(metadata.get_ints("none"), IsEmpty());
  EXPECT_THAT(metadata.get_strings("none"), IsEmpty());
}

struct Refusal {
  const char* name;
  std::function<void(const Metadata&)> read;
  ErrorKind kind;
  const char* message;

  friend void PrintTo(const Refusal& item, std::ostream* out) { *out << item.name; }
};

class MetadataRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(MetadataRefuses, WithTheValueFoundAndTheValuesAllowed) {
  try {
    GetParam().read(sample());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), GetParam().kind);
    EXPECT_STREQ(error.what(), GetParam().message);
  }
}

constexpr auto kMalformed = ErrorKind::Malformed;
INSTANTIATE_TEST_SUITE_P(
    Reads, MetadataRefuses,
    ::testing::Values(
        Refusal{"too_large", [](const Metadata& m) { m.get_int("uint", 0, 11); }, kMalformed,
                "model.gguf: metadata key 'uint' is the integer 12; it must be an integer from 0 to 11"},
        Refusal{"too_small", [](const Metadata& m) { m.get_int("negative", 0, 11); }, kMalformed,
                "model.gguf: metadata key 'negative' is the integer -3; it must be an integer from 0 to 11"},
        Refusal{"beyond_int64", [](const Metadata& m) { m.get_int("huge", -1, INT64_MAX); }, kMalformed,
                "model.gguf: metadata key 'huge' is the integer 18446744073709551615; it must be an integer from -1 to "
                "9223372036854775807"},
        Refusal{"bool_as_int", [](const Metadata& m) { m.get_int("bool", 0, 1); }, kMalformed,
                "model.gguf: metadata key 'bool' is the bool true; it must be an integer from 0 to 1"},
        Refusal{"float_as_int", [](const Metadata& m) { m.get_int("float", 0, 1); }, kMalformed,
                "model.gguf: metadata key 'float' is the float 0.5; it must be an integer from 0 to 1"},
        Refusal{"array_as_int", [](const Metadata& m) { m.get_int("ints", 0, 1); }, kMalformed,
                "model.gguf: metadata key 'ints' is an array of 2 integers; it must be an integer from 0 to 1"},
        Refusal{"nan", [](const Metadata& m) { m.get_float("nan"); }, kMalformed,
                "model.gguf: metadata key 'nan' is the float nan; it must be a finite number"},
        Refusal{"infinite", [](const Metadata& m) { m.get_float("infinite"); }, kMalformed,
                "model.gguf: metadata key 'infinite' is the float inf; it must be a finite number"},
        Refusal{"text_as_float", [](const Metadata& m) { m.get_float("text"); }, kMalformed,
                "model.gguf: metadata key 'text' is the string 'two\\nlines'; it must be a finite number"},
        Refusal{"int_as_bool", [](const Metadata& m) { m.get_bool("uint"); }, kMalformed,
                "model.gguf: metadata key 'uint' is the integer 12; it must be a bool"},
        Refusal{"strings_as_string", [](const Metadata& m) { m.get_string("strings"); }, kMalformed,
                "model.gguf: metadata key 'strings' is an array of 2 strings; it must be a string"},
        Refusal{"ints_as_strings", [](const Metadata& m) { m.get_strings("ints"); }, kMalformed,
                "model.gguf: metadata key 'ints' is an array of 2 integers; it must be an array of strings"},
        Refusal{"int_as_ints", [](const Metadata& m) { m.get_ints("uint"); }, kMalformed,
                "model.gguf: metadata key 'uint' is the integer 12; it must be an array of integers"},
        Refusal{"floats_as_ints", [](const Metadata& m) { m.get_ints("floats"); }, kMalformed,
                "model.gguf: metadata key 'floats' is an array of 2 floats; it must be an array of integers"},
        Refusal{"missing_int", [](const Metadata& m) { m.require_int("none", 1, 9); }, ErrorKind::NotFound,
                "model.gguf: metadata key 'none' is missing; it must be an integer from 1 to 9"},
        Refusal{"missing_float", [](const Metadata& m) { m.require_float("none"); }, ErrorKind::NotFound,
                "model.gguf: metadata key 'none' is missing; it must be a finite number"},
        Refusal{"missing_string", [](const Metadata& m) { m.require_string("none"); }, ErrorKind::NotFound,
                "model.gguf: metadata key 'none' is missing; it must be a string"},
        Refusal{"twice", [](Metadata m) { m.insert("uint", {MetadataScalar(true)}); }, kMalformed,
                "model.gguf: metadata key 'uint' is there twice; each key may be there once"}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(Metadata, MessagesStayShortWhateverTheFileSays) {
  const std::string text(3'000'000, '\n');
  const std::string key(60'000, '\x1b');
  Metadata metadata("model.gguf");
  metadata.insert(key, {MetadataScalar(std::string_view(text))});
  try {
    metadata.get_int(key, 0, 1);
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string_view message = error.what();
    EXPECT_LT(message.size(), 400u);
    EXPECT_EQ(message.find_first_of("\n\x1b"), message.npos);
    EXPECT_THAT(message, HasSubstr("(60000 bytes)"));
    EXPECT_THAT(message, HasSubstr("(3000000 bytes)"));
  }
}

}  // namespace
}  // namespace lockstep
