// The marks, and the search for them in a text that is not whole yet.
#include "cli/reasoning.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {
namespace {

struct Marks {
  std::string_view open, close;
};
constexpr auto kMarks = std::to_array<Marks>({
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
});
constexpr std::string_view kBlanks = " \t\r\n";

std::string_view without_blanks_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Bytes of the longest end of `text` with which `mark` begins.
size_t begun(std::string_view text, std::string_view mark) {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

bool is_reasoning_mark(std::string_view text) {
  return std::ranges::any_of(kMarks, [&](const Marks& marks) { return text == marks.open || text == marks.close; });
}

ReasoningSplitter::ReasoningSplitter(std::string_view prompt) {
  prompt = without_blanks_behind(prompt);
  for (const Marks& marks : kMarks) {
    if (!prompt.ends_with(marks.open)) continue;
    close_ = marks.close;
    state_ = State::BeforeReasoning;
  }
}

ReasoningSplitter::Piece ReasoningSplitter::push(std::string_view text) {
  Piece piece;
  held_ += text;
  if (state_ == State::Begin) {
    const size_t begin = std::min(held_.find_first_not_of(kBlanks), held_.size());
    const std::string_view rest = std::string_view(held_).substr(begin);
    bool may_come = rest.empty();
    for (const Marks& marks : kMarks) {
      may_come |= marks.open.starts_with(rest);
      if (!rest.starts_with(marks.open)) continue;
      close_ = marks.close;
      state_ = State::BeforeReasoning;
      held_.erase(0, begin + marks.open.size());
      break;
    }
    if (state_ == State::Begin && !may_come) state_ = State::Answer;
  }
  if (state_ == State::BeforeReasoning) {
    held_.erase(0, held_.find_first_not_of(kBlanks));
    if (!held_.empty()) state_ = State::Reasoning;
  }
  if (state_ == State::Reasoning) {
    const size_t end = held_.find(close_);
    if (end == std::string::npos) {
      // Blanks are held too: they may stand before the mark.
      const size_t certain = without_blanks_behind({held_.data(), held_.size() - begun(held_, close_)}).size();
      piece.reasoning = held_.substr(0, certain);
      held_.erase(0, certain);
    } else {
      piece.reasoning = without_blanks_behind({held_.data(), end});
      held_.erase(0, end + close_.size());
      state_ = State::BeforeAnswer;
    }
  }
  if (state_ == State::BeforeAnswer) {
    held_.erase(0, held_.find_first_not_of(kBlanks));
    if (!held_.empty()) state_ = State::Answer;
  }
  if (state_ == State::Answer) piece.answer = std::exchange(held_, {});
  return piece;
}

ReasoningSplitter::Piece ReasoningSplitter::finish() {
  Piece piece;
  (state_ == State::Reasoning ? piece.reasoning : piece.answer) = std::exchange(held_, {});
  return piece;
}

}  // namespace lockstep
