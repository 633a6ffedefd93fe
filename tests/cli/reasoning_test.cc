// Thoughts and answers told apart, wherever a stream is cut.
#include "cli/reasoning.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

struct Case {
  std::string prompt, text, reasoning, answer;
};

TEST(Reasoning, IsToldApartWhereverTheTextIsCut) {
  const std::vector<Case> cases{
      {"", "<think>\nLet me see.\n</think>\n\nFour.", "Let me see.", "Four."},
      {"", "\n <think>a < b </think\n>\n</think>c <think>d</think>", "a < b </think\n>", "c <think>d</think>"},
      {"", "Four.", "", "Four."},
      {"", " <thin> ice </think>", "", " <thin> ice </think>"},
      {"", "<thi", "", "<thi"},
      {"", "  ", "", "  "},
      {"", "<think>endless ", "endless ", ""},
      {"", "<think></think>", "", ""},
      {"", "<think> \n</think>\n", "", ""},
      {"", "<think> \n", "", ""},
      {"", "<seed:think>x</think></seed:think> y ", "x</think>", "y "},
      {"", "[THINK]x[/THINK]y", "x", "y"},
      {"<|assistant|><think>\n", "\n so\n\nso\n</think>\nFour.", "so\n\nso", "Four."},
      {"<|assistant|><think>\n\n</think>\n\n", "Four.", "", "Four."},
  };
  for (const Case& c : cases) {
    for (size_t size = 1; size <= c.text.size(); ++size) {
      ReasoningSplitter splitter(c.prompt);
      std::string reasoning, answer;
      const auto add = [&](const ReasoningSplitter::Piece& piece) {
        EXPECT_TRUE(answer.empty() || piece.reasoning.empty()) << c.text;
        reasoning += piece.reasoning;
        answer += piece.answer;
      };
      for (size_t at = 0; at < c.text.size(); at += size) add(splitter.push(c.text.substr(at, size)));
      add(splitter.finish());
      EXPECT_EQ(reasoning, c.reasoning) << c.text << " in pieces of " << size;
      EXPECT_EQ(answer, c.answer) << c.text << " in pieces of " << size;
    }
  }
}

}  // namespace
}  // namespace lockstep
