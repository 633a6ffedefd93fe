// The names of zones, and Chrome's JSON trace event format: one object an event, times in microseconds.
#include "base/trace.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <new>

namespace lockstep {
namespace {

constexpr std::string_view kCompute = "compute";
constexpr std::string_view kComm = "comm";

constexpr auto kZones = std::to_array<ZoneInfo>({
    {ZoneName::Load, "load", kCompute},
    {ZoneName::Schedule, "schedule", kCompute},
    {ZoneName::Step, "step", kCompute},
    {ZoneName::Embed, "embed", kCompute},
    {ZoneName::Norm, "norm", kCompute},
    {ZoneName::Qkv, "qkv", kCompute},
    {ZoneName::RopeAppend, "rope_append", kCompute},
    {ZoneName::Attend, "attend", kCompute},
    {ZoneName::Recur, "recur", kCompute},
    {ZoneName::LayerInputs, "layer_inputs", kCompute},
    {ZoneName::LayerInput, "layer_input", kCompute},
    {ZoneName::AttnOutput, "attn_output", kCompute},
    {ZoneName::GateUp, "gate_up", kCompute},
    {ZoneName::Activation, "activation", kCompute},
    {ZoneName::Down, "down", kCompute},
    {ZoneName::Logits, "logits", kCompute},
    {ZoneName::Sample, "sample", kCompute},
    {ZoneName::AllReduce, "all_reduce", kComm},
    {ZoneName::AllReduceRing, "all_reduce_ring", kComm},
    {ZoneName::AllGather, "all_gather", kComm},
    {ZoneName::ReduceScatter, "reduce_scatter", kComm},
    {ZoneName::Gather, "gather", kComm},
    {ZoneName::Broadcast, "broadcast", kComm},
    {ZoneName::Barrier, "barrier", kComm},
    {ZoneName::Send, "send", kComm},
    {ZoneName::Receive, "receive", kComm},
    {ZoneName::Wait, "wait", "wait"},
});

constexpr bool in_order() {
  for (size_t i = 0; i < kZones.size(); ++i) {
    if (kZones[i].zone != static_cast<ZoneName>(i)) return false;
  }
  return kZones.back().zone == ZoneName::Wait;
}
static_assert(in_order(), "the table has one row a zone, in the order of the enumeration");

// Viewers keep number 0 for the idle task, and take a thread with its process's number for the main thread.
constexpr int kProcess = 1;
constexpr int kFirstThread = 100;

constexpr size_t kPiece = 1 << 16;  // bytes handed on at once

// Text that is handed on in pieces.
class Pieces {
 public:
  explicit Pieces(FunctionRef<void(std::string_view)> put) : put_(put) {}

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    if (text_.size() >= kPiece) flush();
  }
  void flush() {
    put_(text_);
    text_.clear();
  }

 private:
  const FunctionRef<void(std::string_view)> put_;
  std::string text_;
};

// Nanoseconds as microseconds, exactly.
std::string microseconds(std::chrono::nanoseconds time) {
  return fmt::format("{}.{:03}", time.count() / 1000, time.count() % 1000);
}

}  // namespace

std::span<const ZoneInfo> zone_table() {
  return kZones;
}

TraceEvent* TraceLane::open(ZoneName zone, int32_t layer, const char* site, TraceClock::time_point begin) {
  if (dropped_ == 0 && size_ < capacity_ && size_ == blocks_.size() * kBlock) {
    try {
      blocks_.emplace_back(kBlock);
    } catch (const std::bad_alloc&) {
    }
  }
  if (dropped_ > 0 || size_ == capacity_ || size_ == blocks_.size() * kBlock) {
    if (dropped_++ == 0) full_since_ = begin;
    return nullptr;
  }
  TraceEvent& event = blocks_[size_ / kBlock][size_ % kBlock];
  ++size_;
  event = {.begin = begin, .duration = {}, .site = site, .step = step_, .layer = layer, .zone = zone};
  return &event;
}

int64_t Trace::dropped() const {
  int64_t zones = 0;
  for (const TraceLane& lane : lanes_) zones += lane.dropped();
  return zones;
}

void Trace::write_json(FunctionRef<void(std::string_view piece)> put) const {
  Pieces out(put);
  out.add("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  out.add("{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":\"lockstep\"}}}}", kProcess);
  int thread = kFirstThread;
  for (const TraceLane& lane : lanes_) {
    const std::string place = fmt::format("\"pid\":{},\"tid\":{}", kProcess, thread);
    out.add(",\n{{\"name\":\"thread_name\",\"ph\":\"M\",{},\"args\":{{\"name\":\"{}\"}}}}", place, lane.name());
    out.add(",\n{{\"name\":\"thread_sort_index\",\"ph\":\"M\",{},\"args\":{{\"sort_index\":{}}}}}", place, thread);
    for (size_t i = 0; i < lane.size(); ++i) {
      const TraceEvent& event = lane.event(i);
      const ZoneInfo& zone = kZones[static_cast<size_t>(event.zone)];
      out.add(",\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",{},\"ts\":{},\"dur\":{},\"args\":{{", zone.name,
              zone.category, place, microseconds(event.begin - start_), microseconds(event.duration));
      const char* comma = "";
      const auto add_number = [&](const char* name, int32_t number) {
        if (number < 0) return;
        out.add("{}\"{}\":{}", comma, name, number);
        comma = ",";
      };
      add_number("step", event.step);
      add_number("layer", event.layer);
      if (event.site[0] != '\0') out.add("{}\"site\":\"{}\"", comma, event.site);
      out.add("}}}}");
    }
    if (lane.dropped() > 0) {
      out.add(",\n{{\"name\":\"zones_dropped\",\"ph\":\"i\",\"s\":\"t\",{},\"ts\":{},\"args\":{{\"zones\":{}}}}}",
              place, microseconds(lane.full_since() - start_), lane.dropped());
    }
    ++thread;
  }
  out.add("\n]}}\n");
  out.flush();
}

}  // namespace lockstep
