// How much memory the headers of a checkpoint may take.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// What the headers of one checkpoint may cost: the memory of everything kept from them and the file pages touched to
// read them. It bounds what a hostile file can make a process hold. A vocabulary of 262,144 tokens and 514,906 merges,
// the largest in wide use, takes 35 MB of it.
class HeaderBudget {
 public:
  static constexpr uint64_t kBytes = uint64_t{48} << 20;

  // Call before allocating. Throws Error(DoesNotFit) that names the file.
  void charge(const std::string& file, uint64_t bytes);
  // What was charged and is no longer held.
  void refund(uint64_t bytes) { left_ += bytes; }

 private:
  uint64_t left_ = kBytes;
};

}  // namespace lockstep
