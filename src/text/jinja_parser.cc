// Tags. Each reads itself and, where it has a body, everything up to its end.
#include "text/jinja_parser.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "base/quoted.h"
#include "text/jinja_expression_parser.h"
#include "text/jinja_scopes.h"

namespace lockstep::jinja {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body whole() { return body({}); }

 private:
  using Ends = std::span<const std::string_view>;

  // Statements up to a tag that begins with one of the names, which is the current token then; all, where none is
  // given.
  Body body(Ends ends);
  // The same from the end of an opening tag, and past the name it ends with, which it returns.
  Body block(Ends ends, std::string* ended_by = nullptr);
  Body block(std::string_view end) { return block(std::span(&end, 1)); }
  Body block_of_its_own(std::string_view end);

  Statement statement(const std::string& tag, int line);
  For for_loop();
  If condition();
  Statement set(int line);
  With with();
  Macro macro();
  CallBlock call_block();
  CallBlock generation();
  FilterBlock filter_block();
  void signature(MacroDefinition& definition);

  Target name_target();
  Target target(bool with_namespace);
  Target as_target(ExprRef expr);
  Statement jump(const std::string& tag, int line);

  // What surrounds the statement that is being read.
  int loops_ = 0;               // of the same function
  int loops_around_ = 0;        // of all functions
  std::string_view open_ = "";  // the innermost tag that has a body, for messages
};

Body Parser::body(Ends ends) {
  const Nested nested(*this);
  Body result;
  while (true) {
    const Token token = take();
    count_node(token.line);
    switch (token.kind) {
      case TokenKind::Data:
        result.push_back({Data{token.text}, token.line});
        break;
      case TokenKind::VariableBegin:
        result.push_back({Print{tuple(true, false)}, token.line});
        expect(TokenKind::VariableEnd);
        break;
      case TokenKind::BlockBegin: {
        if (std::ranges::any_of(ends, [&](auto end) { return current().is_name(end); })) return result;
        if (current().kind != TokenKind::Name) unexpected("the name of a tag");
        const Token tag = take();
        if (tag.text == "print") {  // {% print a, b %}
          bool first = true;
          while (current().kind != TokenKind::BlockEnd) {
            if (!std::exchange(first, false)) expect(TokenKind::Operator, ",");
            result.push_back({Print{expression()}, tag.line});
          }
        } else {
          result.push_back(statement(tag.text, tag.line));
        }
        expect(TokenKind::BlockEnd);
        break;
      }
      case TokenKind::End:
        if (!ends.empty()) broken(token.line, fmt::format("the tag '{}' is never closed", open_));
        return result;
      default:
        broken(token.line, "the template cannot be read here");
    }
  }
}

Body Parser::block(Ends ends, std::string* ended_by) {
  skip_operator(":");
  expect(TokenKind::BlockEnd);
  Body result = body(ends);
  const Token end = take();
  if (ended_by != nullptr) *ended_by = end.text;
  return result;
}

Statement Parser::statement(const std::string& tag, int line) {
  const Nested nested(*this);
  const std::string_view outer = std::exchange(open_, tag);
  Statement result{Break{}, line};
  if (tag == "for") {
    result.node = for_loop();
  } else if (tag == "if") {
    result.node = condition();
  } else if (tag == "set") {
    result = set(line);
  } else if (tag == "with") {
    result.node = with();
  } else if (tag == "macro") {
    result.node = macro();
  } else if (tag == "call") {
    result.node = call_block();
  } else if (tag == "filter") {
    result.node = filter_block();
  } else if (tag == "generation") {
    result.node = generation();
  } else if (tag == "break" || tag == "continue") {
    result = jump(tag, line);
  } else {
    open_ = outer;
    constexpr std::array<std::string_view, 6> kRefused{"autoescape", "block", "extends", "from", "import", "include"};
    if (std::ranges::find(kRefused, tag) != kRefused.end()) {
      throw Failure(ErrorKind::Unsupported, fmt::format("the tag '{}' has no use in a chat template", tag), line);
    }
    broken(line, outer.empty() ? fmt::format("the tag {} is not known", in_quotes(tag))
                               : fmt::format("the tag {} cannot stand here; '{}' is open", in_quotes(tag), outer));
  }
  open_ = outer;
  return result;
}

Statement Parser::jump(const std::string& tag, int line) {
  if (loops_ == 0) broken(line, fmt::format("'{}' stands outside a loop", tag));
  if (tag == "break") return {Break{}, line};
  return {Continue{}, line};
}

For Parser::for_loop() {
  constexpr std::array<std::string_view, 2> kEnds{"endfor", "else"};
  For loop;
  const int around = std::exchange(loops_around_, loops_around_ + 1);
  loop.target = target(false);
  expect(TokenKind::Name, "in");
  loop.iterable = tuple(false, false);
  if (skip_name("if")) loop.test = expression();
  loop.is_recursive = skip_name("recursive");
  std::string ended_by;
  ++loops_;
  loop.body = block(kEnds, &ended_by);
  --loops_;
  // jinja2 puts the else of a recursive loop into the loop's own function, where no loop is around it.
  const int outer = loop.is_recursive ? std::exchange(loops_, 0) : loops_;
  loop.has_else = ended_by == "else";
  if (loop.has_else) loop.otherwise = block("endfor");
  loops_ = outer;
  loops_around_ = around;
  return loop;
}

If Parser::condition() {
  constexpr std::array<std::string_view, 3> kEnds{"elif", "else", "endif"};
  If result;
  std::string ended_by = "elif";
  while (ended_by == "elif") {
    ExprRef test = tuple(false, false);
    Body branch = block(kEnds, &ended_by);
    result.branches.emplace_back(std::move(test), std::move(branch));
  }
  if (ended_by == "else") result.otherwise = block("endif");
  return result;
}

Statement Parser::set(int line) {
  Target to = target(true);
  if (skip_operator("=")) return {Set{std::move(to), tuple(true, false)}, line};
  ExprRef filter = current().is_operator("|") ? filters(nullptr, false) : nullptr;
  Body text = block("endset");
  return {SetBlock{std::move(to), std::move(filter), std::move(text), {}}, line};
}

With Parser::with() {
  With result;
  while (current().kind != TokenKind::BlockEnd) {
    if (!result.assignments.empty()) expect(TokenKind::Operator, ",");
    const int around = std::exchange(loops_around_, 0);  // here even 'loop' may be a name
    Target to = target(false);
    loops_around_ = around;
    expect(TokenKind::Operator, "=");
    result.assignments.emplace_back(std::move(to), expression());
  }
  result.body = block("endwith");
  return result;
}

// A body that is called: no loop around it can be left from inside.
Body Parser::block_of_its_own(std::string_view end) {
  const int outer = std::exchange(loops_, 0);
  Body body = block(end);
  loops_ = outer;
  return body;
}

Macro Parser::macro() {
  Macro result;
  result.target = name_target();
  result.definition.name = std::get<NameTarget>(result.target.node).name;
  signature(result.definition);
  result.definition.body = block_of_its_own("endmacro");
  return result;
}

CallBlock Parser::call_block() {
  CallBlock result;
  const int line = current().line;
  if (current().is_operator("(")) signature(result.caller);
  result.call = expression();
  if (!std::holds_alternative<Call>(result.call->node)) broken(line, "the tag 'call' needs a call");
  result.caller.body = block_of_its_own("endcall");
  return result;
}

CallBlock Parser::generation() {
  CallBlock result;
  result.caller.body = block_of_its_own("endgeneration");
  return result;
}

FilterBlock Parser::filter_block() {
  ExprRef filter = filters(nullptr, true);
  return {std::move(filter), block("endfilter"), {}};
}

void Parser::signature(MacroDefinition& definition) {
  expect(TokenKind::Operator, "(");
  std::set<std::string> names;
  bool has_fallback = false;
  while (!current().is_operator(")")) {
    if (!definition.parameters.empty()) expect(TokenKind::Operator, ",");
    const int line = current().line;
    const Target to = name_target();
    Parameter parameter{std::get<NameTarget>(to.node).name, 0, nullptr};
    if (skip_operator("=")) {
      parameter.fallback = expression();
      has_fallback = true;
    } else if (has_fallback) {
      broken(line, "a parameter without a default follows one that has a default");
    }
    if (!names.insert(parameter.name->bytes).second) {
      broken(line, fmt::format("the parameter {} is there twice", in_quotes(parameter.name->bytes)));
    }
    count_node(line);
    definition.parameters.push_back(std::move(parameter));
  }
  take();
}

Target Parser::name_target() {
  const Token name = expect(TokenKind::Name);
  constexpr std::array<std::string_view, 6> kConstants{"true", "false", "none", "True", "False", "None"};
  if (std::ranges::find(kConstants, name.text) != kConstants.end()) {
    broken(name.line, fmt::format("'{}' cannot be assigned to", name.text));
  }
  return {NameTarget{make_text(name.text), {}}};
}

Target Parser::target(bool with_namespace) {
  std::vector<Target> targets;
  bool has_comma = false;
  while (current().kind != TokenKind::BlockEnd && current().kind != TokenKind::VariableEnd &&
         !current().is_operator(")")) {
    if (with_namespace && current().kind == TokenKind::Name && following().is_operator(".")) {
      const Target name = name_target();
      take();
      targets.push_back(
          {NamespaceTarget{std::get<NameTarget>(name.node).name, {}, make_text(expect(TokenKind::Name).text)}});
    } else {
      targets.push_back(as_target(primary()));
    }
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma && targets.empty()) unexpected("a name to assign to");
  return has_comma ? Target{std::move(targets)} : std::move(targets[0]);
}

// A name, or a tuple of what can be assigned to.
Target Parser::as_target(ExprRef expr) {
  if (auto* name = std::get_if<Name>(&expr->node)) {
    if (loops_around_ > 0 && name->name->bytes == "loop") {
      broken(expr->line, "inside a loop, 'loop' cannot be assigned to");
    }
    return {NameTarget{name->name, {}}};
  }
  if (auto* tuple = std::get_if<SequenceLiteral>(&expr->node); tuple != nullptr && tuple->is_tuple) {
    std::vector<Target> targets;
    for (auto& item : tuple->items) targets.push_back(as_target(std::move(item)));
    return {std::move(targets)};
  }
  broken(expr->line, "only names can be assigned to");
}

}  // namespace

Template parse(std::string_view source) {
  Template result;
  result.body = Parser(source).whole();
  resolve_names(result);
  return result;
}

}  // namespace lockstep::jinja
