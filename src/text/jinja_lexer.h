// A template's source, cut into tokens one at a time: text outside tags, and names, literals and operators inside.
//
// White space is controlled here, as jinja2 does with trim_blocks and lstrip_blocks: the line break after a block or
// comment goes, and so do the blanks before one that begins its line; "-" strips all white space on its side and "+"
// keeps it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_failure.h"

namespace lockstep::jinja {

enum class TokenKind {
  Data,           // text: what is written out as it is
  VariableBegin,  // {{
  VariableEnd,
  BlockBegin,  // {%
  BlockEnd,
  Name,      // text
  String,    // text: without quotes and escapes
  Integer,   // integer
  Float,     // number
  Operator,  // text: "+", "==", "[", ...
  End,
};

struct Token {
  TokenKind kind = TokenKind::End;
  int line = 1;
  std::string text;
  int64_t integer = 0;
  double number = 0;

  bool is(TokenKind k, std::string_view t) const { return kind == k && text == t; }
  bool is_name(std::string_view t) const { return is(TokenKind::Name, t); }
  bool is_operator(std::string_view t) const { return is(TokenKind::Operator, t); }
};

// How a token is called in messages.
std::string describe(const Token& token);

class Lexer {
 public:
  // Throws Failure when the source is no UTF-8.
  explicit Lexer(std::string_view source);
  // The next token; End for ever once the source is at its end. Throws Failure with the line.
  Token next();

 private:
  enum class State { Root, Variable, Block, Raw };

  bool next_outside(Token& token);  // false: a comment or an empty text was passed
  bool raw_text(Token& token);
  Token next_inside();
  void skip_space();
  void skip_comment(int line);
  bool at_tag_end(std::string_view end) const;
  void leave_tag(bool trim_line);

  // How many bytes "{% raw %}" or the like takes at `at`; 0: it is not there.
  size_t raw_tag_at(size_t at, std::string_view name, char* sign, bool is_end) const;
  std::string stripped(std::string_view text, char sign, bool is_variable);
  Token number();
  Token string(char quote);

  bool at(std::string_view text) const { return std::string_view(source_).substr(at_).starts_with(text); }
  void advance(size_t to);  // counts lines
  Token token(TokenKind kind, std::string text = "") const;
  [[noreturn]] void broken(std::string message) const;

  std::string source_;  // line breaks are \n
  size_t at_ = 0;
  int line_ = 1;
  State state_ = State::Root;
  bool line_starting_ = true;   // what came before ended a line
  std::vector<char> open_;      // brackets that the tag has yet to close
  std::vector<Token> delayed_;  // tokens that come after a text
};

}  // namespace lockstep::jinja
