// Promise 8: what a trace of an engine says is complete, well formed and what the counters say; and it changes no bits.
#include "base/trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "engine/engine.h"
#include "support/tiny_models.h"

namespace lockstep {
namespace {

constexpr int64_t kChunk = 4;
constexpr int64_t kPrompt = 9;   // three steps
constexpr int64_t kTokens = 12;  // the first is drawn in the third step
constexpr int64_t kSteps = 3 + kTokens - 1;

// One complete event of the file; times in nanoseconds.
struct Event {
  std::string name, category, site;
  int64_t begin = 0, end = 0, step = -1, layer = -1;
  std::vector<size_t> around;  // the events that contain it, outermost first
};

// The events of each rank, by begin, outer before inner. Checks that they nest.
std::vector<std::vector<Event>> read(const Trace& trace) {
  std::string text;
  trace.write_json([&text](std::string_view piece) { text += piece; });
  std::map<int64_t, size_t> rank_of;
  std::vector<std::vector<Event>> ranks;
  const nlohmann::json file = nlohmann::json::parse(text);
  for (const auto& event : file.at("traceEvents")) {
    if (event.at("name") == "thread_name") {
      EXPECT_EQ(event.at("args").at("name"), fmt::format("rank {}", ranks.size()));
      EXPECT_TRUE(rank_of.emplace(event.at("tid"), ranks.size()).second);
      ranks.emplace_back();
    }
    EXPECT_NE(event.at("name"), "zones_dropped");
    if (event.at("ph") != "X") continue;
    const auto nanoseconds = [&](const char* key) {
      return static_cast<int64_t>(std::llround(event.at(key).get<double>() * 1000));
    };
    const auto& args = event.at("args");
    Event read;
    read.name = event.at("name");
    read.category = event.at("cat");
    read.begin = nanoseconds("ts");
    read.end = read.begin + nanoseconds("dur");
    read.step = args.value("step", -1);
    read.layer = args.value("layer", -1);
    read.site = args.value("site", "");
    ranks.at(rank_of.at(event.at("tid"))).push_back(read);
  }
  for (auto& events : ranks) {
    std::vector<size_t> open;
    for (size_t i = 0; i < events.size(); ++i) {
      Event& event = events[i];
      EXPECT_GE(event.begin, 0);
      if (i > 0) {
        EXPECT_GE(event.begin, events[i - 1].begin);
      }
      while (!open.empty() && events[open.back()].end <= event.begin) open.pop_back();
      for (const size_t outer : open) {
        EXPECT_LE(event.end, events[outer].end) << event.name << " sticks out of " << events[outer].name;
      }
      event.around = open;
      open.push_back(i);
    }
  }
  return ranks;
}

EngineOptions options_of(int size, ReduceMode reduce, Trace* trace) {
  EngineOptions options;
  options.plan = {.tp_size = size, .reduce = reduce};
  options.context = 64;
  options.prefill_chunk = kChunk;
  options.trace = trace;
  return options;
}

Request request_with(std::vector<float>& logits) {
  Request request;
  request.tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(request.tokens.size(), static_cast<size_t>(kPrompt));
  request.max_tokens = kTokens;
  request.on_logits = [&logits](int64_t, std::span<const float> row) {
    logits.insert(logits.end(), row.begin(), row.end());
  };
  return request;
}

struct Traced {
  std::vector<std::vector<Event>> ranks;
  std::vector<RankReport> reports;
  std::vector<float> logits;
};

Traced run(const TinyModel& model, int size, ReduceMode reduce) {
  Traced traced;
  Trace trace;
  {
    Engine engine(*model.checkpoint, model.spec, options_of(size, reduce, &trace));
    engine.submit(request_with(traced.logits)).get();
    traced.reports = engine.reports();
  }
  traced.ranks = read(trace);
  EXPECT_EQ(traced.ranks.size(), static_cast<size_t>(size));
  return traced;
}

class EngineTrace : public testing::TestWithParam<std::tuple<int, ReduceMode>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  TinyModel model{"gqa"};
  Traced traced = run(model, std::get<0>(GetParam()), std::get<1>(GetParam()));
};

TEST_P(EngineTrace, KnowsEveryNameAndPutsEachInItsPlace) {
  std::map<std::string, std::string_view> category_of;
  for (const ZoneInfo& zone : zone_table()) category_of.emplace(zone.name, zone.category);
  for (const auto& events : traced.ranks) {
    for (const Event& event : events) {
      ASSERT_TRUE(category_of.contains(event.name)) << event.name;
      EXPECT_EQ(event.category, category_of[event.name]);
      const Event* const parent = event.around.empty() ? nullptr : &events[event.around.back()];
      EXPECT_EQ(event.category == "wait", parent != nullptr && parent->category == "comm") << event.name;
      if (event.category == "compute") {
        const bool outermost = event.name == "load" || event.name == "schedule" || event.name == "step";
        const bool of_logits = event.name == "sample" || (event.name == "norm" && event.layer < 0);
        EXPECT_EQ(parent == nullptr ? "" : parent->name, outermost ? "" : of_logits ? "logits" : "step") << event.name;
      }
      // A zone with a step lies in that step's zone; load, schedule and the step message lie outside all.
      if (event.name == "step") {
        EXPECT_TRUE(event.around.empty());
      } else if (event.step >= 0) {
        ASSERT_FALSE(event.around.empty()) << event.name;
        EXPECT_EQ(events[event.around.front()].name, "step");
        EXPECT_EQ(events[event.around.front()].step, event.step);
      } else if (!event.around.empty()) {
        EXPECT_NE(events[event.around.front()].name, "step") << event.name;
      }
    }
  }
}

TEST_P(EngineTrace, HasEveryStepAndLayerOnEveryRank) {
  const std::map<std::string, int> in_a_layer{{"norm", 2},        {"qkv", 1},     {"rope_append", 1}, {"attend", 1},
                                              {"attn_output", 1}, {"gate_up", 1}, {"activation", 1},  {"down", 1}};
  const bool ring = std::get<1>(GetParam()) == ReduceMode::Ring;
  for (size_t rank = 0; rank < traced.ranks.size(); ++rank) {
    const auto& events = traced.ranks[rank];
    std::map<std::tuple<int64_t, int64_t, std::string>, int> count;  // by step, layer, name
    std::map<std::tuple<int64_t, int64_t, std::string>, std::string> site_inside;
    for (const Event& event : events) {
      ++count[{event.step, event.layer, event.name}];
      if (event.category != "comm" || event.step < 0) continue;
      const Event& operation = events[event.around.back()];
      const auto [found, fresh] = site_inside.emplace(std::tuple(event.step, event.layer, operation.name), event.name);
      EXPECT_TRUE(fresh) << operation.name << " communicates twice";
      EXPECT_EQ(operation.layer, event.layer);
      const std::map<std::string, std::string> site_of{
          {"embed", "token_embd"}, {"attn_output", "attn_output"}, {"down", "ffn_down"}, {"logits", "lm_head"}};
      EXPECT_EQ(event.site, site_of.at(operation.name));
    }
    const int first = rank == 0 ? 1 : 0;
    EXPECT_EQ((count[{-1, -1, "load"}]), 1);
    EXPECT_EQ((count[{-1, -1, "schedule"}]), first * 2 * kSteps);  // before and after each
    for (int64_t step = 0; step < kSteps; ++step) {
      for (const char* once : {"step", "embed", "logits"}) {
        EXPECT_EQ((count[{step, -1, once}]), 1) << once << " " << step;
      }
      for (int64_t layer = 0; layer < static_cast<int64_t>(model.spec.layers.size()); ++layer) {
        for (const auto& [name, times] : in_a_layer) {
          EXPECT_EQ((count[{step, layer, name}]), times) << name << " of layer " << layer << " in step " << step;
        }
        for (const char* operation : {"attn_output", "down"}) {
          EXPECT_EQ((site_inside[{step, layer, operation}]), ring ? "all_reduce_ring" : "all_reduce");
        }
      }
    }
    EXPECT_EQ((count[{kSteps, -1, "step"}]), 0);
  }
}

TEST_P(EngineTrace, AgreesWithTheCounters) {
  for (size_t rank = 0; rank < traced.ranks.size(); ++rank) {
    std::map<std::string, double> seconds;
    int64_t calls = 0;
    for (const Event& event : traced.ranks[rank]) {
      if (event.step < 0) continue;
      const bool whole = event.name == "step" || event.category != "compute";
      if (whole) seconds[event.name == "step" ? "step" : event.category] += 1e-9 * double(event.end - event.begin);
      if (event.category == "comm") ++calls;
    }
    const RankReport& report = traced.reports[rank];
    EXPECT_EQ(calls, report.comm_calls);
    EXPECT_NEAR(seconds["wait"], report.wait_s, 0.01 * report.wait_s);
    EXPECT_NEAR(seconds["comm"] - seconds["wait"], report.comm_s, 0.01 * report.comm_s);
    EXPECT_NEAR(seconds["step"] - seconds["comm"], report.compute_s, 0.01 * report.compute_s);
    EXPECT_GT(report.compute_s, 0);
    if (size() > 1) {
      EXPECT_GT(report.comm_s, 0);
    }
  }
}

TEST_P(EngineTrace, ChangesNoBits) {
  std::vector<float> logits;
  Engine engine(*model.checkpoint, model.spec, options_of(size(), std::get<1>(GetParam()), nullptr));
  engine.submit(request_with(logits)).get();
  EXPECT_EQ(logits, traced.logits);
}

INSTANTIATE_TEST_SUITE_P(Sizes, EngineTrace,
                         testing::Combine(testing::Values(1, 2, 3),
                                          testing::Values(ReduceMode::Tree, ReduceMode::Ring)));

// A group that fails leaves its zones, all ended: those of the rank that failed and those of the ranks that waited.
TEST(EngineTraceOfAFailure, HasWhatWasRecorded) {
  const TinyModel model("gqa");
  for (const Fault::Kind kind : {Fault::Kind::Throw, Fault::Kind::Stall, Fault::Kind::Exit}) {
    Trace trace;
    {
      EngineOptions options = options_of(3, ReduceMode::Tree, &trace);
      options.stall = std::chrono::milliseconds(400);
      options.faults.fault = Fault{1, 5, kind};
      std::vector<float> logits;
      Engine engine(*model.checkpoint, model.spec, options);
      EXPECT_THROW(engine.submit(request_with(logits)).get(), Error);
    }
    const auto ranks = read(trace);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      std::set<int64_t> steps;
      for (const Event& event : ranks[rank]) {
        if (event.name == "step") steps.insert(event.step);
      }
      // The end of the group may overtake the message of the last step.
      if (rank != 1) steps.insert(5);
      EXPECT_EQ(steps, (std::set<int64_t>{0, 1, 2, 3, 4, 5}));
    }
  }
}

}  // namespace
}  // namespace lockstep
