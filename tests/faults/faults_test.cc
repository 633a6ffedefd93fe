// Promise 5: when a rank throws, dies or stalls, the group ends with an error that names the rank and the cause, and no
// request waits for ever.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "engine/engine.h"
#include "support/tiny_models.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

EngineOptions options_with(int size, Fault fault) {
  EngineOptions options;
  options.plan.tp_size = size;
  options.context = 64;
  options.prefill_chunk = 4;
  options.max_sequences = 2;
  options.stall = std::chrono::milliseconds(150);
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
        EXPECT_THAT(message, HasSubstr(fmt::format("rank {}", rank)));
        if (kind == Fault::Kind::Throw) {
          EXPECT_THAT(message, HasSubstr(fmt::format("step {}", step)));
        }
      }
      // Later requests are refused with the same cause.
      EXPECT_THROW(engine.submit(two_requests()), Error);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Faults,
                         testing::Combine(testing::Values(2, 3, 5),
                                          testing::Values(Fault::Kind::Throw, Fault::Kind::Stall, Fault::Kind::Exit)));

TEST(Faults, AFaultThatNeverComesHurtsNobody) {
  const TinyModel model("gqa");
  Engine engine(*model.checkpoint, model.spec, options_with(3, {1, 1000, Fault::Kind::Throw}));
  for (auto& future : engine.submit(two_requests())) EXPECT_EQ(future.get().tokens.size(), 20U);
}

TEST(Faults, AnIdleEngineIsNotStalled) {
  const TinyModel model("gqa");
  Engine engine(*model.checkpoint, model.spec, options_with(3, {1, 1000, Fault::Kind::Throw}));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));  // several stall limits
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
    EngineOptions options = options_with(2, {1, 1000, Fault::Kind::Throw});
    Engine engine(*model.checkpoint, model.spec, options);
    auto requests = two_requests();
    for (Request& request : requests) request.max_tokens = 57;
    futures = engine.submit(std::move(requests));
  }
  // Done by then, or ended with a reason; never left without an answer.
  for (auto& future : futures) {
    EXPECT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  }
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
    if (cancel) requests[0].on_token = [&seen](int32_t) { return ++seen < 5; };
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
