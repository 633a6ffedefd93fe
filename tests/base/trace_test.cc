// Zones as they are recorded, and the file they become. Expected text is written by hand after the description of
// Chrome's trace event format.
#include "base/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep {
namespace {

using std::chrono::nanoseconds;
using testing::HasSubstr;
using testing::Not;

std::string json_of(const Trace& trace) {
  std::string text;
  trace.write_json([&text](std::string_view piece) { text += piece; });
  return text;
}

TEST(Trace, EveryZoneHasItsOwnName) {
  std::set<std::string_view> names;
  for (const ZoneInfo& zone : zone_table()) {
    EXPECT_EQ(&zone, &zone_table()[static_cast<size_t>(zone.zone)]);
    EXPECT_TRUE(names.insert(zone.name).second) << zone.name;
    EXPECT_TRUE(zone.category == "compute" || zone.category == "comm" || zone.category == "wait") << zone.name;
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(ZoneName::Wait) + 1);
}

TEST(Trace, WithoutALaneNothingHappens) {
  Zone zone(nullptr, ZoneName::Norm, 3);
  zone.end();
  StepZone step(nullptr, 1, TraceClock::now());
  step.end(TraceClock::now());
}

TEST(Trace, ZonesKeepTheirPlaceAndOrder) {
  Trace trace;
  TraceLane& lane = trace.add_lane("rank 0");
  const TraceClock::time_point now = TraceClock::now();
  {
    StepZone step(&lane, 7, now);
    {
      const Zone norm(&lane, ZoneName::Norm, 2);
      Zone wait(&lane, ZoneName::Wait, 2, "attn_output", now + nanoseconds(10));
      wait.end(now + nanoseconds(30));
      wait.end(now + nanoseconds(1000));  // it has ended already
    }
    step.end(now + nanoseconds(500));
  }
  { const Zone schedule(&lane, ZoneName::Schedule); }

  ASSERT_EQ(lane.size(), 4U);
  EXPECT_EQ(lane.event(0).zone, ZoneName::Step);
  EXPECT_EQ(lane.event(0).begin, now);
  EXPECT_EQ(lane.event(0).duration, nanoseconds(500));
  EXPECT_EQ(lane.event(1).zone, ZoneName::Norm);
  EXPECT_EQ(lane.event(1).layer, 2);
  EXPECT_EQ(lane.event(2).zone, ZoneName::Wait);
  EXPECT_EQ(lane.event(2).duration, nanoseconds(20));
  EXPECT_STREQ(lane.event(2).site, "attn_output");
  EXPECT_EQ(lane.event(3).zone, ZoneName::Schedule);
  for (const size_t inside : {0, 1, 2}) EXPECT_EQ(lane.event(inside).step, 7);
  EXPECT_EQ(lane.event(3).step, -1);  // after the step
  EXPECT_EQ(lane.event(3).layer, -1);
}

TEST(Trace, BecomesChromeTraceEvents) {
  Trace trace;
  const TraceClock::time_point now = TraceClock::now();
  for (const char* name : {"rank 0", "rank 1"}) {
    TraceLane& lane = trace.add_lane(name);
    lane.set_step(3);
    Zone zone(&lane, ZoneName::AllReduce, 5, "ffn_down", now);
    zone.end(now + nanoseconds(1234056));
  }
  const std::string json = json_of(trace);
  EXPECT_THAT(json, testing::StartsWith(R"({"displayTimeUnit":"ns","traceEvents":[)"));
  EXPECT_THAT(json, HasSubstr(R"({"name":"process_name","ph":"M","pid":1,"args":{"name":"lockstep"}})"));
  EXPECT_THAT(json, HasSubstr(R"({"name":"thread_name","ph":"M","pid":1,"tid":100,"args":{"name":"rank 0"}})"));
  EXPECT_THAT(json, HasSubstr(R"({"name":"thread_name","ph":"M","pid":1,"tid":101,"args":{"name":"rank 1"}})"));
  EXPECT_THAT(json, HasSubstr(R"({"name":"all_reduce","cat":"comm","ph":"X","pid":1,"tid":101,"ts":)"));
  EXPECT_THAT(json, HasSubstr(R"(,"dur":1234.056,"args":{"step":3,"layer":5,"site":"ffn_down"}})"));
  EXPECT_THAT(json, Not(HasSubstr("zones_dropped")));
  EXPECT_THAT(json, testing::EndsWith("]}\n"));
}

TEST(Trace, ManyZonesKeepTheirOrder) {
  Trace trace;
  TraceLane& lane = trace.add_lane("rank 0");
  constexpr size_t kMany = 100'000;
  for (size_t i = 0; i < kMany; ++i) const Zone zone(&lane, ZoneName::Norm, static_cast<int64_t>(i));
  ASSERT_EQ(lane.size(), kMany);
  EXPECT_EQ(trace.dropped(), 0);
  for (size_t i = 0; i < kMany; ++i) ASSERT_EQ(lane.event(i).layer, static_cast<int32_t>(i));
}

TEST(Trace, WhatDoesNotFitIsCountedAndSaid) {
  Trace trace(3);
  TraceLane& full = trace.add_lane("rank 0");
  TraceLane& other = trace.add_lane("rank 1");
  {
    const Zone outer(&full, ZoneName::Load);
    for (int64_t layer = 0; layer < 10; ++layer) const Zone inner(&full, ZoneName::Norm, layer);
  }
  { const Zone zone(&other, ZoneName::Load); }
  ASSERT_EQ(full.size(), 3U);
  EXPECT_EQ(full.event(0).zone, ZoneName::Load);  // the surroundings of what is kept
  EXPECT_GE(full.event(0).duration, full.event(2).duration);
  EXPECT_EQ(full.event(2).layer, 1);
  EXPECT_EQ(full.dropped(), 8);
  EXPECT_EQ(other.dropped(), 0);
  EXPECT_EQ(trace.dropped(), 8);
  const std::string json = json_of(trace);
  EXPECT_THAT(json, HasSubstr(R"({"name":"zones_dropped","ph":"i","s":"t","pid":1,"tid":100,"ts":)"));
  EXPECT_THAT(json, HasSubstr(R"("args":{"zones":8}})"));
}

}  // namespace
}  // namespace lockstep
