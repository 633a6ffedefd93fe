// What one rendering may cost. Templates come with models, from anybody: every piece of work and every byte that is
// held is counted before it is spent, so that a hostile template ends in an error and not in a dead process.
#pragma once

#include <cstddef>
#include <utility>

#include "text/jinja_failure.h"

namespace lockstep::jinja {

class Budget {
 public:
  Budget(size_t steps, size_t bytes) : steps_(steps), bytes_(bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // A step is some 20 nanoseconds: one node of the tree, or 32 bytes that are copied or compared.
  void spend(size_t steps = 1) {
    if (steps > steps_) exhausted("takes more work than a template may");
    steps_ -= steps;
  }
  void spend_bytes(size_t bytes) { spend(bytes / 32); }

  void take(size_t bytes) {
    if (bytes > bytes_) exhausted("needs more memory than a template may");
    bytes_ -= bytes;
  }
  void give_back(size_t bytes) noexcept { bytes_ += bytes; }

 private:
  [[noreturn]] static void exhausted(const char* what) {
    throw Failure(ErrorKind::DoesNotFit, fmt::format("it {}", what));
  }

  size_t steps_;
  size_t bytes_;
};

// Bytes taken from a budget for as long as an object lives. The budget outlives it.
class Charge {
 public:
  Charge() = default;
  Charge(Budget& budget, size_t bytes) : budget_(&budget), bytes_(bytes) { budget.take(bytes); }
  Charge(Charge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (budget_ != nullptr) budget_->give_back(bytes_);
  }

  void grow(size_t bytes) {
    if (budget_ == nullptr) return;
    budget_->take(bytes);
    bytes_ += bytes;
  }

 private:
  Budget* budget_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace lockstep::jinja
