// Continuous batching over pages, which outlive their sequences where prefixes are reused.
#include "engine/scheduler.h"

#include <algorithm>
#include <cassert>

#include "base/checked.h"

namespace lockstep {

Scheduler::Scheduler(const SchedulerOptions& options) : options_(options) {
  // Taken from the back, so low numbers go first.
  for (int64_t i = options.pages; i-- > 0;) free_pages_.push_back(static_cast<int32_t>(i));
  for (int64_t i = options.max_sequences; i-- > 0;) free_slots_.push_back(static_cast<int32_t>(i));
}

Sequence& Scheduler::add(std::vector<int32_t> tokens, int64_t most_tokens, int64_t logits_from) {
  auto sequence = std::make_unique<Sequence>();
  sequence->most_tokens = most_tokens;
  sequence->tokens = std::move(tokens);
  sequence->logits_from = logits_from;
  waiting_.push_back(sequence.get());
  sequences_.push_back(std::move(sequence));
  return *sequences_.back();
}

void Scheduler::remove(const Sequence& sequence) {
  const auto found =
      std::find_if(sequences_.begin(), sequences_.end(), [&](const auto& s) { return s.get() == &sequence; });
  assert(found != sequences_.end());
  std::unique_ptr<Sequence> owned = std::move(*found);
  sequences_.erase(found);
  std::erase(running_, owned.get());
  std::erase(waiting_, owned.get());
  if (!options_.reuse_prefixes || owned->cached == 0) return release(*owned);
  owned->tokens.resize(static_cast<size_t>(owned->cached));
  give_back(*owned, static_cast<size_t>(ceil_div(owned->cached, options_.page_tokens)));
  cached_prefixes_.push_back(std::move(owned));
}

void Scheduler::give_back(Sequence& sequence, size_t pages_kept) {
  for (; sequence.pages.size() > pages_kept; sequence.pages.pop_back()) free_pages_.push_back(sequence.pages.back());
}

void Scheduler::release(Sequence& sequence) {
  give_back(sequence, 0);
  if (sequence.slot >= 0) free_slots_.push_back(sequence.slot);
  sequence.slot = -1;
  sequence.cached = sequence.reused = 0;
}

bool Scheduler::evict_oldest_prefix() {
  if (cached_prefixes_.empty()) return false;
  release(*cached_prefixes_.front());
  cached_prefixes_.erase(cached_prefixes_.begin());
  return true;
}

int64_t Scheduler::prefix_pages() const {
  int64_t pages = 0;
  for (const auto& prefix : cached_prefixes_) pages += static_cast<int64_t>(prefix->pages.size());
  return pages;
}

int64_t Scheduler::used_pages() const {
  int64_t used = prefix_pages();
  for (const auto& sequence : sequences_) used += static_cast<int64_t>(sequence->pages.size());
  return used;
}

void Scheduler::evict(Sequence& sequence) {
  ++evictions_;
  release(sequence);
  sequence.state = SequenceState::Waiting;
  std::erase(running_, &sequence);
  waiting_.push_front(&sequence);
}

bool Scheduler::cover(Sequence& sequence, int64_t tokens) {
  const int64_t wanted = ceil_div(tokens, options_.page_tokens) - static_cast<int64_t>(sequence.pages.size());
  while (wanted > free_pages()) {
    if (!evict_oldest_prefix()) return false;
  }
  for (int64_t i = 0; i < wanted; ++i) {
    const int32_t page = free_pages_.back();
    free_pages_.pop_back();
    step_.rows.pages.push_back({sequence.slot, static_cast<int32_t>(sequence.pages.size()), page});
    sequence.pages.push_back(page);
  }
  return true;
}

// The last token is always read, since its logits are wanted, and so is every other whose are.
int64_t Scheduler::shared_tokens(const Sequence& prefix, const Sequence& next) const {
  const auto differs =
      std::mismatch(prefix.tokens.begin(), prefix.tokens.end(), next.tokens.begin(), next.tokens.end());
  const auto last = static_cast<int64_t>(next.tokens.size()) - 1;
  const int64_t shared = std::min({differs.first - prefix.tokens.begin(), last, next.logits_from});
  return options_.rewindable || shared == prefix.cached ? shared : 0;
}

// A cached prefix is cut back to what is shared, so one that shares little (prompts share BOS at least) is taken only
// where no slot is free, and then the oldest, which goes first anyway.
void Scheduler::take_slot(Sequence& sequence) {
  const auto shared = [&](const auto& prefix) { return shared_tokens(*prefix, sequence); };
  auto chosen = std::ranges::max_element(cached_prefixes_, {}, shared);
  if (chosen == cached_prefixes_.end() || 2 * shared(*chosen) < (*chosen)->cached) {
    if (!free_slots_.empty()) {
      sequence.slot = free_slots_.back();
      free_slots_.pop_back();
      return;
    }
    chosen = cached_prefixes_.begin();
  }
  sequence.cached = sequence.reused = shared(*chosen);
  give_back(**chosen, static_cast<size_t>(ceil_div(sequence.cached, options_.page_tokens)));
  sequence.slot = (*chosen)->slot;
  sequence.pages = std::move((*chosen)->pages);
  cached_prefixes_.erase(chosen);
}

void Scheduler::admit() {
  // In order of arrival. A sequence is admitted when its tokens fit and every running one that may still grow keeps a
  // page to grow into.
  while (!waiting_.empty() && !(free_slots_.empty() && cached_prefixes_.empty())) {
    Sequence& next = *waiting_.front();
    const int64_t pages = ceil_div(static_cast<int64_t>(next.tokens.size()), options_.page_tokens);
    const auto growing = std::count_if(running_.begin(), running_.end(), [&](const Sequence* sequence) {
      return static_cast<int64_t>(sequence->pages.size()) * options_.page_tokens < sequence->most_tokens;
    });
    if (pages + growing > free_pages() + prefix_pages()) return;
    waiting_.pop_front();
    take_slot(next);
    next.state = SequenceState::PendingPrefill;
    running_.push_back(&next);
    const bool covered = cover(next, static_cast<int64_t>(next.tokens.size()));
    assert(covered);
    (void)covered;
  }
}

void Scheduler::add_rows(Sequence& sequence, int64_t count) {
  const auto total = static_cast<int64_t>(sequence.tokens.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = sequence.cached + i;
    const bool last = position + 1 == total;
    if (last || position >= sequence.logits_from) {
      step_.rows.logit_rows.push_back(static_cast<int32_t>(step_.rows.tokens.size()));
      step_.logit_rows.push_back({&sequence, position, last});
      sequence.logits_from = std::max(sequence.logits_from, position + 1);  // not again after an eviction
    }
    step_.rows.tokens.push_back(sequence.tokens[static_cast<size_t>(position)]);
    step_.rows.positions.push_back(static_cast<int32_t>(position));
    step_.rows.sequences.push_back(sequence.slot);
  }
  sequence.cached += count;
}

const ScheduledStep& Scheduler::next_step() {
  step_.rows.clear();
  step_.logit_rows.clear();
  step_.prefilled.clear();

  // Decodes first, oldest first: each needs one row and perhaps a page. When pages run out, the youngest sequence gives
  // up its own; it comes last here, so no page of this step is taken back.
  const std::vector<Sequence*> running = running_;
  for (Sequence* sequence : running) {
    if (sequence->state != SequenceState::Decoding) continue;
    while (!cover(*sequence, static_cast<int64_t>(sequence->tokens.size()))) {
      Sequence* youngest = running_.back();
      evict(*youngest);
      if (youngest == sequence) break;
    }
  }
  admit();
  for (Sequence* sequence : running_) {
    if (sequence->state == SequenceState::Decoding) add_rows(*sequence, 1);
  }
  int64_t budget = options_.prefill_rows;
  for (Sequence* sequence : running_) {
    if (sequence->state != SequenceState::PendingPrefill || budget == 0) continue;
    const int64_t count = std::min(budget, static_cast<int64_t>(sequence->tokens.size()) - sequence->cached);
    add_rows(*sequence, count);
    step_.prefilled.push_back(sequence);
    budget -= count;
  }
  return step_;
}

void Scheduler::step_done() {
  for (Sequence* sequence : step_.prefilled) {
    if (sequence->cached == static_cast<int64_t>(sequence->tokens.size())) sequence->state = SequenceState::Decoding;
  }
}

void Scheduler::append(Sequence& sequence, int32_t token) {
  assert(sequence.state == SequenceState::Decoding);
  sequence.tokens.push_back(token);
}

}  // namespace lockstep
