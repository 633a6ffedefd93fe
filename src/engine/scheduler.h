// What a step holds: admission, chunked prefill, decodes, pages, eviction, reuse. Rank 0 only; no threads, no tensors.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/step.h"

namespace lockstep {

// Waiting -> PendingPrefill -> Decoding -> removed; from the middle two back to Waiting by eviction: the tokens are
// kept and the cache is built again. What is removed may leave its cache to one that begins alike.
enum class SequenceState : uint8_t { Waiting, PendingPrefill, Decoding };

struct Sequence {
  SequenceState state = SequenceState::Waiting;
  std::vector<int32_t> tokens;  // prompt, then what was generated
  int64_t most_tokens = 0;      // it will never have more
  int64_t logits_from = 0;      // the next position whose logits are wanted; those of the last token always are
  int64_t cached = 0;           // tokens whose keys and values are in pages
  int64_t reused = 0;           // of them, those that a removed sequence left when this one was admitted
  int32_t slot = -1;
  std::vector<int32_t> pages;
};

// Whose logits a logit row holds.
struct LogitRow {
  Sequence* sequence = nullptr;
  int64_t position = 0;
  bool sample = false;  // the row of the sequence's last token: draw the next from it
};

struct ScheduledStep {
  StepRows rows;
  std::vector<LogitRow> logit_rows;  // as rows.logit_rows
  std::vector<Sequence*> prefilled;  // sequences with prompt rows in this step
};

struct SchedulerOptions {
  int64_t prefill_rows = 0;  // of a step, for prompts (all sequences together)
  int64_t max_sequences = 0;
  int64_t pages = 0;
  int64_t page_tokens = 0;
  bool reuse_prefixes = false;  // sequences that are removed keep slot and pages while nobody wants them
  bool rewindable = true;       // a cache can be cut back to fewer tokens; not where layers have a recurrent state
};

// Invariants, after every call: free pages + pages of sequences = all pages; a slot or page has at most one owner; only
// PendingPrefill and Decoding sequences own any, and the cached prefixes that removed ones left.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  // The sequence waits behind the others. REQUIRES: all pages together hold most_tokens tokens.
  Sequence& add(std::vector<int32_t> tokens, int64_t most_tokens, int64_t logits_from);
  // Ends a sequence and forgets it. Its slot and pages are given back: at once, or where prefixes are reused when
  // others want them, unless a sequence that begins with the same tokens takes them over.
  void remove(const Sequence& sequence);

  bool idle() const { return sequences_.empty(); }
  // The rows of the next step; empty when no sequence can run. Every decoding sequence gets its row; what the budget
  // leaves goes to prompts, oldest first.
  const ScheduledStep& next_step();
  // After the step ran: its rows are in the cache now.
  void step_done();
  // The token drawn for a sequence whose logit row said `sample`.
  void append(Sequence& sequence, int32_t token);

  int64_t free_pages() const { return static_cast<int64_t>(free_pages_.size()); }
  int64_t evictions() const { return evictions_; }
  int64_t used_pages() const;  // of sequences that are here, and left by others

 private:
  void admit();
  void take_slot(Sequence& sequence);
  bool cover(Sequence& sequence, int64_t tokens);                             // pages for the first `tokens` tokens
  int64_t shared_tokens(const Sequence& prefix, const Sequence& next) const;  // that `next` need not read
  void give_back(Sequence& sequence, size_t pages_kept);
  bool evict_oldest_prefix();
  int64_t prefix_pages() const;
  void evict(Sequence& sequence);
  void release(Sequence& sequence);
  void add_rows(Sequence& sequence, int64_t count);

  const SchedulerOptions options_;
  int64_t evictions_ = 0;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;                          // by admission, oldest first
  std::vector<std::unique_ptr<Sequence>> cached_prefixes_;  // removed, with slot and pages; oldest first
  std::vector<int32_t> free_pages_, free_slots_;
  ScheduledStep step_;
};

}  // namespace lockstep
