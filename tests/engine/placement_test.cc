// Threads of a running engine, asked from the system: each is where the placement says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "base/affinity.h"
#include "base/topology.h"
#include "engine/engine.h"
#include "support/tiny_models.h"

namespace lockstep {
namespace {

// The processors each thread of this process may use, by the thread's name; only names that begin with "rank".
std::map<std::string, std::vector<int>> affinities() {
  std::map<std::string, std::vector<int>> result;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (!name.starts_with("rank")) continue;
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(sched_getaffinity(std::stoi(task.path().filename()), sizeof(set), &set), 0);
    std::vector<int>& processors = result[name];
    EXPECT_TRUE(processors.empty()) << "two threads are called " << name;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) processors.push_back(i);
    }
  }
  return result;
}

// Has every thread work at least once, so that all have started.
void generate(Engine& engine) {
  Request request;
  request.tokens = {1, 2, 3, 4, 5};
  request.max_tokens = 3;
  EXPECT_EQ(engine.submit(std::move(request)).get().tokens.size(), 3U);
}

EngineOptions options_of(int ranks, int threads, bool pin) {
  EngineOptions options;
  options.plan.tp_size = ranks;
  options.threads = threads;
  options.pin = pin;
  options.context = 64;
  return options;
}

class EnginePlacement : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(EnginePlacement, EveryThreadIsWhereThePlanSays) {
  const auto [ranks, threads] = GetParam();
  const std::vector<int> allowed = allowed_processors();
  const TinyModel model("gqa");
  Engine engine(*model.checkpoint, model.spec, options_of(ranks, threads, true));
  generate(engine);

  const Placement& placement = engine.placement();
  std::map<std::string, std::vector<int>> planned;
  std::set<int> used;
  for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    const auto& of_rank = placement.ranks[rank].threads;
    for (size_t thread = 0; thread < of_rank.size(); ++thread) {
      planned[fmt::format("rank{}.{}", rank, thread)] = of_rank[thread];
      used.insert(of_rank[thread].begin(), of_rank[thread].end());
    }
  }
  EXPECT_EQ(affinities(), planned);
  EXPECT_THAT(allowed, testing::IsSupersetOf(used));
  if (threads > 0) {
    EXPECT_EQ(planned.size(), static_cast<size_t>(ranks * threads));
    if (planned.size() <= allowed.size()) {
      EXPECT_EQ(used.size(), planned.size());  // one each
    }
  }
  EXPECT_EQ(allowed_processors(), allowed);  // the caller's thread is left alone
}

INSTANTIATE_TEST_SUITE_P(Sizes, EnginePlacement,
                         testing::Combine(testing::Values(1, 2, 3, 8), testing::Values(0, 1, 2, 3)));

TEST(EnginePlacementOff, LeavesEveryThreadToTheSystem) {
  const TinyModel model("gqa");
  Engine engine(*model.checkpoint, model.spec, options_of(2, 2, false));
  generate(engine);
  const auto found = affinities();
  EXPECT_EQ(found.size(), 4U);
  for (const auto& [name, processors] : found) EXPECT_EQ(processors, allowed_processors()) << name;
}

// As under `taskset -c 1`: a process that may use its last processor only pins to no other.
TEST(EnginePlacementInACorner, StaysOnTheOnlyAllowedProcessor) {
  const int last = allowed_processors().back();
  std::thread([last] {
    pin_this_thread(std::vector<int>{last});
    const TinyModel model("gqa");
    Engine engine(*model.checkpoint, model.spec, options_of(3, 2, true));
    generate(engine);
    const auto found = affinities();
    EXPECT_EQ(found.size(), 6U);
    for (const auto& [name, processors] : found) EXPECT_EQ(processors, std::vector<int>{last}) << name;
  }).join();
}

}  // namespace
}  // namespace lockstep
