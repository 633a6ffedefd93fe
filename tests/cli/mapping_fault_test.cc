// A file that is cut short while it is mapped ends the process with a line that names it.
#include "cli/mapping_fault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "cli/process.h"

namespace lockstep {
namespace {

constexpr size_t kBytes = 100'000;

class MappingFaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-fault-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ / "a model\n.gguf";
    std::ofstream(path_, std::ios::binary) << std::string(kBytes, 'x');
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_, path_;
};

// Ends with 0 when nothing happens.
[[noreturn]] void look_at_the_end(const MappedFile& file) {
  volatile std::byte last = file.bytes().back();
  ::_exit(last == std::byte{'x'} ? 0 : 9);
}

TEST_F(MappingFaultTest, NamesTheFileThatWasCutShort) {
  const MappedFile file(path_);
  EXPECT_EXIT(
      {
        prepare_process();  // as the program does
        std::filesystem::resize_file(path_, 10);
        look_at_the_end(file);
      },
      testing::ExitedWithCode(1), "^lockstep: /.*lockstep-fault-.*/a model.*\\.gguf: it was cut short");
}

TEST_F(MappingFaultTest, ReadingGoesOnWhereNothingWasCut) {
  const MappedFile file(path_);
  EXPECT_EXIT(
      {
        report_mapping_faults();
        look_at_the_end(file);
      },
      testing::ExitedWithCode(0), "^$");
}

TEST_F(MappingFaultTest, AnotherBusErrorStaysOne) {
  EXPECT_EXIT(
      {
        report_mapping_faults();
        std::raise(SIGBUS);
        ::_exit(0);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace lockstep
