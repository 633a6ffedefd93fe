// What reasoning models think before they answer, told apart from the answer.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Whether a text is one of the marks: where such a token is special, it must be shown all the same.
bool is_reasoning_mark(std::string_view text);

// Thoughts stand at the beginning, between marks: <think> and </think>, or those of Mistral and Seed-OSS. Some
// templates write the first mark themselves, at the prompt's end. The text may come in any pieces. One answer, one
// thread.
class ReasoningSplitter {
 public:
  explicit ReasoningSplitter(std::string_view prompt);

  struct Piece {
    std::string reasoning, answer;
  };
  // What is certain after this piece of the answer, without marks and the blanks around them.
  Piece push(std::string_view text);
  // What is left at the end.
  Piece finish();

 private:
  enum class State { Begin, BeforeReasoning, Reasoning, BeforeAnswer, Answer };
  std::string_view close_;  // the mark that ends the thoughts
  State state_ = State::Begin;
  std::string held_;  // may be the beginning of a mark, or blanks before one
};

}  // namespace lockstep
