// Binding a thread for real: what the system says afterwards, and that the topology never leaves the allowed set.
#include "base/affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/topology.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

std::vector<int> processors_of(const Topology& topology) {
  std::vector<int> processors;
  for (const MemoryNode& node : topology.nodes) {
    for (const auto& core : node.cores) processors.insert(processors.end(), core.begin(), core.end());
  }
  return processors;
}

TEST(Affinity, ABoundThreadMayRunThereOnly) {
  const std::vector<int> allowed = allowed_processors();
  ASSERT_FALSE(allowed.empty());
  for (const int processor : allowed) {
    std::thread([&] {
      pin_this_thread(std::vector<int>{processor});
      EXPECT_EQ(allowed_processors(), std::vector<int>{processor});
      EXPECT_EQ(sched_getcpu(), processor);
      EXPECT_EQ(processors_of(read_topology()), std::vector<int>{processor});
    }).join();
  }
  EXPECT_EQ(allowed_processors(), allowed);
  EXPECT_THAT(processors_of(read_topology()), testing::UnorderedElementsAreArray(allowed));
}

TEST(Affinity, ProcessorsThatAreNotThereAreRefusedByNumber) {
  std::thread([] {
    try {
      pin_this_thread(std::vector<int>{8190, 8191});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Io);
      EXPECT_THAT(error.what(), HasSubstr("processors 8190-8191"));
      EXPECT_THAT(error.what(), HasSubstr("--no-pin"));
    }
  }).join();
}

TEST(Affinity, NamesAreCutToWhatTheSystemHolds) {
  std::thread([] {
    std::string name(16, '\0');
    name_this_thread("a name beyond fifteen bytes");
    ASSERT_EQ(pthread_getname_np(pthread_self(), name.data(), name.size()), 0);
    EXPECT_STREQ(name.c_str(), "a name beyond f");
  }).join();
}

TEST(Affinity, ListsJoinAscendingNeighbours) {
  EXPECT_EQ(format_processors(std::vector<int>{}), "");
  EXPECT_EQ(format_processors(std::vector<int>{7}), "7");
  EXPECT_EQ(format_processors(std::vector<int>{0, 1, 2, 8, 10, 11}), "0-2,8,10-11");
  EXPECT_EQ(format_processors(std::vector<int>{4, 3, 2, 0, 1}), "4,3,2,0-1");
}

}  // namespace
}  // namespace lockstep
