// Mapping: the bytes are those of the file, ownership moves, and what cannot be mapped is refused by name.
#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <span>
#include <utility>

#include "base/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-mapped-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& content, const char* name = "file") const {
    auto path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::filesystem::path folder_;
};

std::string text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string part(const MappedFile& file, size_t offset, size_t size) {
  std::string to(size, '\0');
  file.read(offset, std::as_writable_bytes(std::span(to)));
  return to;
}

void expect_refused(const std::filesystem::path& path, ErrorKind kind, const std::string& reason) {
  try {
    const MappedFile file(path);
    FAIL() << "mapped " << path;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_THAT(error.what(), HasSubstr(path.string() + ": "));
    EXPECT_THAT(error.what(), HasSubstr(reason));
  }
}

TEST_F(MappedFileTest, HoldsTheBytesOfTheFile) {
  const std::string content(10'000, 'x');
  EXPECT_EQ(text(MappedFile(write(content + "end"))), content + "end");
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  EXPECT_TRUE(MappedFile(write("")).bytes().empty());
}

TEST_F(MappedFileTest, MovesOwnership) {
  MappedFile first(write("content"));
  const auto* data = first.bytes().data();
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().data(), data);
  MappedFile third(write("another", "other"));
  third = std::move(second);
  EXPECT_EQ(third.bytes().data(), data);
  EXPECT_EQ(text(third), "content");
  EXPECT_EQ(part(third, 3, 4), "tent");
  EXPECT_TRUE(first.bytes().empty());  // NOLINT(bugprone-use-after-move): what is left is empty
  EXPECT_EQ(third.path(), (folder_ / "file").string());
}

TEST_F(MappedFileTest, ReadsAnyPart) {
  std::string content;
  for (int i = 0; i < 3'000; ++i) content += std::to_string(i);
  const MappedFile file(write(content));
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, content.size()}) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{5'000}, content.size()}) {
      if (offset + size > content.size()) continue;
      EXPECT_EQ(part(file, offset, size), content.substr(offset, size));
    }
  }
}

TEST_F(MappedFileTest, ReadingAFileThatWasCutShortNamesItAndTheSizes) {
  const auto path = write(std::string(9'000, 'y'));
  const MappedFile file(path);
  std::filesystem::resize_file(path, 8'500);
  EXPECT_EQ(part(file, 0, 8'500), std::string(8'500, 'y'));
  for (const size_t offset : {size_t{8'200}, size_t{8'500}, size_t{8'600}}) {
    try {
      part(file, offset, 400);
      FAIL() << "read at " << offset;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Io);
      EXPECT_THAT(error.what(), HasSubstr(path.string() + ": it ends before byte "));
      EXPECT_THAT(error.what(), HasSubstr("had 9000 bytes when it was opened"));
    }
  }
}

TEST_F(MappedFileTest, RefusesWhatIsNoRegularFile) {
  expect_refused(folder_ / "absent", ErrorKind::NotFound, "No such file");
  expect_refused(write("x") / "below", ErrorKind::NotFound, "Not a directory");
  expect_refused(folder_, ErrorKind::Io, "a directory");
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, ErrorKind::Io, "a device, pipe or socket");  // at once, though nobody writes to it
}

}  // namespace
}  // namespace lockstep
