// The part of the parser that reads expressions; jinja_parser.cc reads tags with it. Precedence, from loose to tight:
// inline if, or, and, not, comparison, + -, ~, * / // %, **, sign, attribute | call | filter | test.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace lockstep::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view source);

 protected:
  ExprRef expression(bool with_condition = true);
  // Expressions with commas between them: a tuple, or the one expression.
  ExprRef tuple(bool with_condition, bool in_parentheses);
  ExprRef primary();
  // "|name(...)|name(...)" after `input`. first: the first name stands here, without "|".
  ExprRef filters(ExprRef input, bool first);

  const Token& current() const { return current_; }
  const Token& following() const { return following_; }
  Token take();
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  Token expect(TokenKind kind, std::string_view text = "");
  [[noreturn]] void broken(int line, std::string message) const;
  [[noreturn]] void unexpected(std::string_view wanted) const;

  // Counts a node; the whole template may have so many.
  void count_node(int line);

  // Counts the nesting of what is being read, so that the parser's own recursion is bounded.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser);
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  ExprRef disjunction();
  ExprRef conjunction();
  ExprRef negation();
  ExprRef comparison();
  ExprRef sum();
  ExprRef concatenation();
  ExprRef product();
  ExprRef power();
  ExprRef unary(bool with_filter);
  ExprRef list();
  ExprRef dict();
  ExprRef postfix(ExprRef node);
  ExprRef filters_and_tests(ExprRef node);
  ExprRef subscript(ExprRef node);
  ExprRef test(ExprRef node);
  ExprRef call(ExprRef node);
  CallArguments arguments();
  std::string dotted_name();

  template <class Node>
  ExprRef make(Node node, int line, int children_height);

  Lexer lexer_;
  Token current_, following_;
  int depth_ = 0;
  int nodes_ = 0;
};

}  // namespace lockstep::jinja
