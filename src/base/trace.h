// Where the time of a run goes: zones of every rank, and their way into a file that trace viewers open.
//
// A zone is a stretch of one thread's time with a name from a fixed list. Zones nest: an operation contains its
// communication, and a collective contains the waiting for other ranks; so what a rank computes, communicates and waits
// can be told apart. A Trace is handed down like any other part; where there is none, a zone costs one branch.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "base/aligned_buffer.h"
#include "base/function_ref.h"

namespace lockstep {

// The map of what can be measured, in the order in which a rank passes it.
enum class ZoneName : uint8_t {
  // Computing.
  Load,
  Schedule,     // rank 0: what the next step holds, and what becomes of the last one's tokens
  Step,         // one forward pass: contains all that follows
  Embed,        // of the tokens
  Norm,         // before attention, before the feed-forward, before the head
  Qkv,          // the column-parallel products of attention
  RopeAppend,   // rotation, and keys and values into the cache
  Attend,       // scores and weighted sums over the cache
  Recur,        // a gated delta net, with its products
  LayerInputs,  // what every layer takes for itself, collected from all ranks
  LayerInput,   // a layer's gate of it, its product, its site, and its sum with the residual stream
  AttnOutput,   // the row-parallel product of attention, its site, and its sum with the residual stream
  GateUp,       // the column-parallel products of the feed-forward
  Activation,
  Down,    // the row-parallel product of the feed-forward, its site, and its sum with the residual stream
  Logits,  // the product with the head, and the way of the logits to rank 0
  Sample,  // rank 0: what becomes of the logits
  // Communicating: from a collective's entry to its exit.
  AllReduce,
  AllReduceRing,
  AllGather,
  ReduceScatter,
  Gather,
  Broadcast,
  Barrier,
  Send,
  Receive,
  // Inside a collective: until other ranks are there.
  Wait,
};

struct ZoneInfo {
  ZoneName zone;
  std::string_view name;      // in the file
  std::string_view category;  // "compute", "comm" or "wait"
};

// The whole table, in the order of the enumeration.
std::span<const ZoneInfo> zone_table();

using TraceClock = std::chrono::steady_clock;

// One zone as it is kept.
struct TraceEvent {
  TraceClock::time_point begin;
  std::chrono::nanoseconds duration;
  const char* site;  // "": none
  int32_t step;      // -1: outside the steps
  int32_t layer;     // -1: outside the layers
  ZoneName zone;
};

// The zones of one thread, which alone may use it. Memory grows with them and is bounded: when it is full, or there is
// no more to be had, later zones are counted and dropped, so that every zone that is kept has its surroundings.
class TraceLane {
 public:
  TraceLane(std::string name, size_t capacity) : name_(std::move(name)), capacity_(capacity) {}

  // The place of a zone that begins, to be given its duration when it ends; nullptr when there is no room. `site` must
  // outlive the trace.
  TraceEvent* open(ZoneName zone, int32_t layer, const char* site, TraceClock::time_point begin);
  // The step that the zones to come belong to; -1 for none.
  void set_step(int64_t step) { step_ = static_cast<int32_t>(step); }

  const std::string& name() const { return name_; }
  size_t size() const { return size_; }
  const TraceEvent& event(size_t i) const { return blocks_[i / kBlock][i % kBlock]; }  // by their begin
  int64_t dropped() const { return dropped_; }
  TraceClock::time_point full_since() const { return full_since_; }  // where the first zone was dropped

 private:
  static constexpr size_t kBlock = 1 << 14;  // events allocated together: 640 KiB

  const std::string name_;
  const size_t capacity_;
  std::deque<AlignedBuffer<TraceEvent>> blocks_;
  size_t size_ = 0;
  int32_t step_ = -1;
  int64_t dropped_ = 0;
  TraceClock::time_point full_since_;
};

// The lanes of a run. The thread that builds the ranks adds them; nothing may be recorded while one of the others runs.
class Trace {
 public:
  static constexpr size_t kZonesPerLane = 1 << 20;  // 40 MiB; of a model of 30 layers about 2,600 steps

  explicit Trace(size_t zones_per_lane = kZonesPerLane) : zones_per_lane_(zones_per_lane) {}

  // A lane that lives as long as the trace. Its name is plain: letters, digits, blanks.
  TraceLane& add_lane(std::string name) { return lanes_.emplace_back(std::move(name), zones_per_lane_); }
  const std::deque<TraceLane>& lanes() const { return lanes_; }
  int64_t dropped() const;

  // The trace as Chrome JSON trace events, piece by piece. Times count from the construction of the trace.
  void write_json(FunctionRef<void(std::string_view piece)> put) const;

 private:
  const size_t zones_per_lane_;
  const TraceClock::time_point start_ = TraceClock::now();
  std::deque<TraceLane> lanes_;
};

// A zone from here to the end of the scope, or to end(). lane nullptr: nothing is recorded.
class Zone {
 public:
  explicit Zone(TraceLane* lane, ZoneName zone, int64_t layer = -1)
      : event_(lane == nullptr ? nullptr : lane->open(zone, static_cast<int32_t>(layer), "", TraceClock::now())) {}
  // For a caller that reads the clock itself, and ends the zone with end(now).
  Zone(TraceLane* lane, ZoneName zone, int32_t layer, const char* site, TraceClock::time_point now)
      : event_(lane == nullptr ? nullptr : lane->open(zone, layer, site, now)) {}
  ~Zone() { end(); }
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;

  void end() {
    if (event_ != nullptr) end(TraceClock::now());
  }
  void end(TraceClock::time_point now) {
    if (event_ == nullptr) return;
    event_->duration = now - event_->begin;
    event_ = nullptr;
  }

 private:
  TraceEvent* event_;
};

// The zone of one step; zones inside it carry its number.
class StepZone {
 public:
  StepZone(TraceLane* lane, int64_t step, TraceClock::time_point now)
      : number_{lane, step}, zone_(lane, ZoneName::Step, -1, "", now) {}

  void end(TraceClock::time_point now) { zone_.end(now); }

 private:
  // The lane's step while this lives.
  class Number {
   public:
    Number(TraceLane* lane, int64_t step) : lane_(lane) {
      if (lane_ != nullptr) lane_->set_step(step);
    }
    ~Number() {
      if (lane_ != nullptr) lane_->set_step(-1);
    }
    Number(const Number&) = delete;
    Number& operator=(const Number&) = delete;

   private:
    TraceLane* const lane_;
  };

  const Number number_;  // before the zone, which has the number too
  Zone zone_;
};

}  // namespace lockstep
