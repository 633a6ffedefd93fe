// Encoding, broadcasting and checking the step message.
#include "engine/step.h"

#include <algorithm>

#include "base/error.h"

namespace lockstep {
namespace {

constexpr uint32_t kVersion = 1;
enum class Kind : uint32_t { Run = 1, Shutdown = 2 };

// The first broadcast of a step; the second holds the words it announces: tokens, positions, sequences, logit rows,
// pages (three words each).
struct Header {
  uint32_t version = kVersion;
  Kind kind = Kind::Run;
  int64_t step = 0;
  int32_t rows = 0, logit_rows = 0, pages = 0, reserved = 0;
  int64_t words() const { return 3LL * rows + logit_rows + 3LL * pages; }
};

std::span<std::byte> bytes_of(Header& header) {
  return std::as_writable_bytes(std::span(&header, 1));
}

void within(const char* what, int64_t value, int64_t low, int64_t end) {
  if (value < low || value >= end) {
    fail(ErrorKind::Internal, "step message: {} is {}; allowed are {} to {}", what, value, low, end - 1);
  }
}

}  // namespace

void StepRows::clear() {
  tokens.clear();
  positions.clear();
  sequences.clear();
  logit_rows.clear();
  pages.clear();
}

StepChannel::StepChannel(Group& group, const StepLimits& limits) : group_(group), limits_(limits) {
  words_.reserve(static_cast<size_t>(4 * limits.max_rows + 3 * limits.pages));
}

void StepChannel::send(int64_t step, const StepRows& rows) {
  Header header;
  header.step = step;
  header.rows = static_cast<int32_t>(rows.tokens.size());
  header.logit_rows = static_cast<int32_t>(rows.logit_rows.size());
  header.pages = static_cast<int32_t>(rows.pages.size());
  words_.clear();
  for (const auto* part : {&rows.tokens, &rows.positions, &rows.sequences, &rows.logit_rows}) {
    words_.insert(words_.end(), part->begin(), part->end());
  }
  for (const PageAssignment& page : rows.pages) words_.insert(words_.end(), {page.sequence, page.index, page.page});
  group_.at({});
  group_.broadcast(bytes_of(header), 0);
  group_.broadcast(std::as_writable_bytes(std::span(words_)), 0);
}

void StepChannel::send_shutdown() {
  Header header;
  header.kind = Kind::Shutdown;
  group_.at({});
  group_.broadcast(bytes_of(header), 0);
}

bool StepChannel::receive(int64_t& step, StepRows& rows) {
  Header header;
  group_.at({});
  group_.broadcast(bytes_of(header), 0);
  if (header.version != kVersion) {
    fail(ErrorKind::Internal, "step message has version {}; this rank speaks {}", header.version, kVersion);
  }
  if (header.kind == Kind::Shutdown) return false;
  if (header.kind != Kind::Run) {
    fail(ErrorKind::Internal, "step message has kind {}; allowed are 1 and 2", static_cast<uint32_t>(header.kind));
  }
  if (header.step != last_step_ + 1) {
    fail(ErrorKind::Internal, "step message has id {}; this rank expects {}", header.step, last_step_ + 1);
  }
  within("rows", header.rows, 1, limits_.max_rows + 1);
  within("logit rows", header.logit_rows, 0, header.rows + 1);
  within("pages", header.pages, 0, limits_.pages + 1);
  words_.resize(static_cast<size_t>(header.words()));
  group_.broadcast(std::as_writable_bytes(std::span(words_)), 0);

  rows.clear();
  const int32_t* word = words_.data();
  const auto take = [&](std::vector<int32_t>& part, int32_t count) {
    part.assign(word, word + count);
    word += count;
  };
  take(rows.tokens, header.rows);
  take(rows.positions, header.rows);
  take(rows.sequences, header.rows);
  take(rows.logit_rows, header.logit_rows);
  for (int32_t i = 0; i < header.pages; ++i, word += 3) rows.pages.push_back({word[0], word[1], word[2]});

  for (const int32_t token : rows.tokens) within("a token", token, 0, limits_.vocab);
  for (const int32_t sequence : rows.sequences) within("a sequence", sequence, 0, limits_.max_sequences);
  for (const int32_t row : rows.logit_rows) within("a logit row", row, 0, header.rows);
  for (const PageAssignment& page : rows.pages) {
    within("a page's sequence", page.sequence, 0, limits_.max_sequences);
    within("a page's index", page.index, 0, limits_.pages_per_sequence);
    within("a page", page.page, 0, limits_.pages);
  }
  last_step_ = step = header.step;
  return true;
}

}  // namespace lockstep
