// Promise 5: when a rank throws, dies or stalls, the group ends with an error that names the rank and the cause, and no
// request waits for ever.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <thread>

#include "base/error.h"
#include "engine/engine.h"
#include "support/tiny_models.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

// Long enough that no sound rank stands still for it: the thread sanitizer stops the process while it looks up names.
#ifdef __SANITIZE_THREAD__
constexpr std::chrono::milliseconds kStall{1500};
#else
constexpr std::chrono::milliseconds kStall{400};
#endif

// Sanitizers keep what is freed, and look for leaks themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

EngineOptions options_with(int size, Fault fault) {
  EngineOptions options;
  options.plan.tp_size = size;
  options.context = 64;
  options.prefill_chunk = 4;
  options.max_sequences = 2;
  options.stall = kStall;
  options.faults.fault = fault;
  return options;
}

std::vector<Request> two_requests() {
  std::vector<Request> requests(2);
  for (Request& request : requests) {
    request.tokens = {1, 2, 3, 4, 5, 6, 7};
    request.max_tokens = 20;
  }
  return requests;
}

// The message with which a future ends.
std::string message_of(std::future<Completion>& future) {
  try {
    future.get();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::RankFailed);
    return error.what();
  }
  return "no error";
}

class Faults : public testing::TestWithParam<std::tuple<int, Fault::Kind>> {};

TEST_P(Faults, EndTheGroupAndNameTheRank) {
  const auto [size, kind] = GetParam();
  const TinyModel model("gqa");
  for (const int64_t step : {0, 3, 11}) {
    for (const int rank : {0, size - 1}) {
      Engine engine(*model.checkpoint, model.spec, options_with(size, {rank, step, kind}));
      for (auto& future : engine.submit(two_requests())) {
        const std::string message = message_of(future);
        // The rank that others wait for is the one that stalled, not one that waits for it.
        EXPECT_THAT(message, testing::StartsWith(fmt::format(
                                 "rank {} {}", rank, kind == Fault::Kind::Throw || size == 1 ? "failed" : "stalled")));
        EXPECT_THAT(message, HasSubstr(fmt::format(" at step {}: ", step)));
      }
      // Later requests are refused with the same cause.
      EXPECT_THROW(engine.submit(two_requests()), Error);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Faults,
                         testing::Combine(testing::Values(2, 3, 5),
                                          testing::Values(Fault::Kind::Throw, Fault::Kind::Stall, Fault::Kind::Exit)));

// Engines that failed leave nothing: as many threads and as much memory as before them.
TEST(Faults, NothingIsLeft) {
  const TinyModel model("gqa");
  const auto fail_once = [&](int size, Fault fault) {
    EngineOptions options = options_with(size, fault);
    options.threads = 2;
    options.stall = kStall / 2;
    Engine engine(*model.checkpoint, model.spec, options);
    for (auto& future : engine.submit(two_requests())) EXPECT_THAT(message_of(future), testing::StartsWith("rank "));
  };
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  std::mt19937 random(1);
  const auto some = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  for (int i = 0; i < 5; ++i) fail_once(5, {1, 2, Fault::Kind::Throw});  // heaps and stacks that the process keeps
  const auto threads_before = threads();
  const auto memory = [] {  // kilobytes that may be written: heap, mapped buffers, stacks
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      if (word == "VmData:" && status >> word) return std::stoll(word);
    }
    return -1LL;
  };
  const long long memory_before = memory();
  for (int run = 0; run < 12; ++run) {
    const int size = std::array{2, 3, 5}[static_cast<size_t>(run % 3)];
    const auto kind = std::array{Fault::Kind::Throw, Fault::Kind::Stall, Fault::Kind::Exit,
                                 Fault::Kind::Throw}[static_cast<size_t>(run / 3)];
    fail_once(size, {some(size), some(12), kind});
    EXPECT_EQ(threads(), threads_before);
  }
  // An engine of three ranks holds 18 MB, and its smallest buffers, of which there are dozens, a page each. A heap that
  // has grown once stays.
  if (!kSanitized) {
    EXPECT_LT(memory(), memory_before + 512);
  }
}

// A step much longer than the stall limit, on the slowest kernels, is work and no stall: every work item ticks.
TEST(Faults, ALongStepIsNoStall) {
  ASSERT_EQ(setenv("LOCKSTEP_FORCE_ISA", "reference", 1), 0);
  TinyModel model("gqa");
  model.spec.context = kSanitized ? 2048 : 4096;
  EngineOptions options;
  options.plan.tp_size = 2;
  options.context = model.spec.context;
  options.prefill_chunk = 0;  // the whole prompt in one step
  options.stall = kStall;
  Engine engine(*model.checkpoint, model.spec, options);
  std::vector<Request> requests(1);
  requests[0].tokens.assign(static_cast<size_t>(model.spec.context), 3);
  requests[0].max_tokens = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (auto& future : engine.submit(std::move(requests))) EXPECT_NO_THROW(future.get());
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 2 * kStall) << "no long step: the test says nothing";
  unsetenv("LOCKSTEP_FORCE_ISA");
}

TEST(Faults, AFaultThatNeverComesHurtsNobody) {
  const TinyModel model("gqa");
  EngineOptions options = options_with(3, {1, 1000, Fault::Kind::Throw});
  options.threads = 2;
  Engine engine(*model.checkpoint, model.spec, options);
  for (auto& future : engine.submit(two_requests())) EXPECT_EQ(future.get().tokens.size(), 20U);
}

TEST(Faults, AnIdleEngineIsNotStalled) {
  const TinyModel model("gqa");
  Engine engine(*model.checkpoint, model.spec, options_with(3, {1, 1000, Fault::Kind::Throw}));
  std::this_thread::sleep_for(4 * kStall);
  for (auto& future : engine.submit(two_requests())) EXPECT_EQ(future.get().tokens.size(), 20U);
}

TEST(Faults, RequestsThatCanNeverRunAreRefused) {
  const TinyModel model("gqa");
  Engine engine(*model.checkpoint, model.spec, options_with(2, {1, 1000, Fault::Kind::Throw}));
  const auto message = [&](Request request) -> std::string {
    try {
      engine.submit(std::move(request)).get();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      return error.what();
    }
    return "no error";
  };
  Request request;
  EXPECT_THAT(message(request), HasSubstr("no tokens"));
  request.tokens = {257};
  EXPECT_THAT(message(request), HasSubstr("token 257 is outside the vocabulary; ids are 0 to 256"));
  request.tokens = {-1};
  EXPECT_THAT(message(request), HasSubstr("token -1"));
  request.tokens.assign(65, 1);
  EXPECT_THAT(message(request), HasSubstr("65 tokens; the context holds 64"));
  request.tokens = {1};
  request.max_tokens = -1;
  EXPECT_THAT(message(request), HasSubstr("--max-tokens is -1"));
  request.max_tokens = 1;
  request.sampling.top_p = 2;
  EXPECT_THAT(message(request), HasSubstr("--top-p is 2"));
}

TEST(Faults, DestructionCancelsWhatIsLeft) {
  const TinyModel model("gqa");
  std::vector<std::future<Completion>> futures;
  {
    EngineOptions options = options_with(2, {1, 1000000, Fault::Kind::Throw});
    options.context = model.spec.context;
    Engine engine(*model.checkpoint, model.spec, options);
    auto requests = two_requests();
    for (Request& request : requests) request.max_tokens = 10000;
    futures = engine.submit(std::move(requests));
  }
  // Ended with a reason, never left without an answer: ten thousand tokens are not drawn in the time a destructor
  // takes.
  for (auto& future : futures) {
    try {
      future.get();
      ADD_FAILURE() << "completed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Cancelled);
      EXPECT_THAT(error.what(), HasSubstr("shut down"));
    }
  }
}

TEST(Faults, ACallbackThatThrowsEndsItsOwnRequest) {
  const TinyModel model("gqa");
  Engine engine(*model.checkpoint, model.spec, options_with(2, {1, 1000, Fault::Kind::Throw}));
  for (const bool at_logits : {false, true}) {
    auto requests = two_requests();
    if (at_logits) {
      requests[0].on_logits = [](int64_t position, std::span<const float>) {
        if (position == 9) throw std::runtime_error("no more logits");
      };
    } else {
      requests[1].on_token = [](const PickedToken&) -> bool { throw std::runtime_error("no more tokens"); };
    }
    auto futures = engine.submit(std::move(requests));
    EXPECT_THROW(futures[at_logits ? 0 : 1].get(), std::runtime_error);
    EXPECT_EQ(futures[at_logits ? 1 : 0].get().tokens.size(), 20U);
  }
}

// A weight that is not a number ends the requests that meet it, at every size alike, and not the engine.
TEST(Faults, LogitsThatAreNoNumbersEndTheirRequest) {
  std::ifstream in(LOCKSTEP_FIXTURES "/tiny/odd_mha.gguf", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const TinyModel sound("odd_mha");
  // Token 7's row of the embedding (F32, no quantisation) becomes NaN; the file's layout is that of the sound one.
  const TensorInfo& embedding = *sound.checkpoint->find("token_embd.weight");
  const std::string row(reinterpret_cast<const char*>(embedding.parts.front().bytes.data()) + 7 * 80 * 4,
                        size_t{80} * 4);
  const size_t at = bytes.find(row);
  ASSERT_NE(at, std::string::npos);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + at, &nan, sizeof(nan));
  const auto path = std::filesystem::path(testing::TempDir()) / "lockstep_nan.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  const TinyModel model(Checkpoint::open(path));
  for (const int size : {1, 2, 3}) {
    EngineOptions options = options_with(size, {1, 1000, Fault::Kind::Throw});
    Engine engine(*model.checkpoint, model.spec, options);
    auto requests = two_requests();  // their tokens are 1 to 7
    auto futures = engine.submit(std::move(requests));
    for (auto& future : futures) {
      try {
        future.get();
        ADD_FAILURE() << "completed";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Malformed);
        EXPECT_THAT(error.what(), HasSubstr("is not a number"));
        EXPECT_THAT(error.what(), HasSubstr("lockstep_nan.gguf"));
      }
    }
  }
  std::filesystem::remove(path);
}

TEST(Faults, ALoadThatIsGivenUpJoinsItsRanks) {
  const TinyModel model("gqa");
  EngineOptions options = options_with(3, {1, 1000, Fault::Kind::Throw});
  options.on_load = [](int64_t, int64_t) { throw std::runtime_error("enough"); };
  EXPECT_THROW(Engine(*model.checkpoint, model.spec, options), std::runtime_error);
}

// A cancelled request and a small pool of pages: others go on, evicted sequences give the tokens they would have given.
TEST(Faults, EvictionAndCancelDoNotChangeTheOthers) {
  const TinyModel model("gqa");
  const auto run = [&](int64_t pages, bool cancel) {
    EngineOptions options;
    options.plan.tp_size = 2;
    options.context = 96;
    options.max_sequences = 4;
    options.prefill_chunk = 8;
    options.pages = pages;
    Engine engine(*model.checkpoint, model.spec, options);
    std::vector<Request> requests(4);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].tokens.assign(10 + 3 * i, static_cast<int32_t>(i + 1));
      requests[i].max_tokens = 60;
      requests[i].sampling = {.temperature = 1, .seed = i};
    }
    int seen = 0;
    if (cancel) requests[0].on_token = [&seen](const PickedToken&) { return ++seen < 5; };
    std::vector<std::vector<int32_t>> tokens;
    for (auto& future : engine.submit(std::move(requests))) tokens.push_back(future.get().tokens);
    return tokens;
  };
  const auto plenty = run(0, false);
  EXPECT_EQ(run(4, false), plenty);  // 4 pages of 32 tokens for four sequences of 70 to 79
  auto cancelled = run(0, true);
  EXPECT_EQ(cancelled[0].size(), 5U);
  cancelled[0] = plenty[0];
  EXPECT_EQ(cancelled, plenty);
}

}  // namespace
}  // namespace lockstep
