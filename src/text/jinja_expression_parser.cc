// One function for each level of precedence, as in jinja2's own parser.
#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <set>

#include "base/quoted.h"
#include "text/jinja_builtins.h"

namespace lockstep::jinja {
namespace {

// Trees higher than this are refused: whatever walks one recurses so deep. CPython stops at 200 open brackets.
constexpr int kMostHeight = 200;
constexpr int kMostNodes = 30'000;  // published templates stay below 4,000

int height_of(const ExprRef& expr) {
  return expr == nullptr ? 0 : expr->height;
}

template <class... Refs>
int highest(const Refs&... exprs) {
  return std::max({height_of(exprs)...});
}

int highest(const std::vector<ExprRef>& exprs) {
  int height = 0;
  for (const auto& expr : exprs) height = std::max(height, height_of(expr));
  return height;
}

int highest(const CallArguments& arguments) {
  int height = std::max({highest(arguments.positional), highest(arguments.star, arguments.double_star)});
  for (const auto& [_, value] : arguments.keywords) height = std::max(height, height_of(value));
  return height;
}

}  // namespace

ExpressionParser::ExpressionParser(std::string_view source) : lexer_(source) {
  current_ = lexer_.next();
  following_ = lexer_.next();
}

ExpressionParser::Nested::Nested(ExpressionParser& parser) : parser_(parser) {
  if (++parser.depth_ > kMostHeight / 2) {
    throw Failure(ErrorKind::DoesNotFit, fmt::format("the template nests more than {} deep", kMostHeight / 2),
                  parser.current_.line);
  }
}

void ExpressionParser::count_node(int line) {
  if (++nodes_ > kMostNodes) {
    throw Failure(ErrorKind::DoesNotFit, fmt::format("the template has more than {} parts", kMostNodes), line);
  }
}

template <class Node>
ExprRef ExpressionParser::make(Node node, int line, int children_height) {
  count_node(line);
  if (children_height >= kMostHeight) {
    throw Failure(ErrorKind::DoesNotFit, fmt::format("an expression joins more than {} parts", kMostHeight), line);
  }
  return std::make_unique<Expr>(Expr{std::move(node), line, children_height + 1});
}

Token ExpressionParser::take() {
  Token taken = std::move(current_);
  current_ = std::move(following_);
  following_ = lexer_.next();
  return taken;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!current_.is_name(name)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_operator(std::string_view op) {
  if (!current_.is_operator(op)) return false;
  take();
  return true;
}

Token ExpressionParser::expect(TokenKind kind, std::string_view text) {
  if (current_.kind == kind && (text.empty() || current_.text == text)) return take();
  if (!text.empty()) unexpected(in_quotes(text));
  Token wanted;
  wanted.kind = kind;
  unexpected(kind == TokenKind::Name ? "a name" : describe(wanted));
}

void ExpressionParser::broken(int line, std::string message) const {
  throw Failure(ErrorKind::Malformed, std::move(message), line);
}

void ExpressionParser::unexpected(std::string_view wanted) const {
  broken(current_.line, fmt::format("{} stands where {} should", describe(current_), wanted));
}

ExprRef ExpressionParser::expression(bool with_condition) {
  const Nested nested(*this);
  int line = current_.line;
  ExprRef node = disjunction();
  while (with_condition && skip_name("if")) {
    ExprRef condition = disjunction();
    ExprRef otherwise = skip_name("else") ? expression() : nullptr;
    const int height = highest(node, condition, otherwise);
    node = make(Conditional{std::move(condition), std::move(node), std::move(otherwise)}, line, height);
    line = current_.line;
  }
  return node;
}

ExprRef ExpressionParser::disjunction() {
  const int line = current_.line;
  ExprRef left = conjunction();
  while (skip_name("or")) {
    ExprRef right = conjunction();
    const int height = highest(left, right);
    left = make(Logical{false, std::move(left), std::move(right)}, line, height);
  }
  return left;
}

ExprRef ExpressionParser::conjunction() {
  const int line = current_.line;
  ExprRef left = negation();
  while (skip_name("and")) {
    ExprRef right = negation();
    const int height = highest(left, right);
    left = make(Logical{true, std::move(left), std::move(right)}, line, height);
  }
  return left;
}

ExprRef ExpressionParser::negation() {
  if (!current_.is_name("not")) return comparison();
  const Nested nested(*this);
  const int line = take().line;
  ExprRef operand = negation();
  const int height = height_of(operand);
  return make(Not{std::move(operand)}, line, height);
}

ExprRef ExpressionParser::comparison() {
  constexpr std::pair<std::string_view, Comparison> kOperators[]{{"==", Comparison::Eq}, {"!=", Comparison::Ne},
                                                                 {"<", Comparison::Lt},  {"<=", Comparison::Le},
                                                                 {">", Comparison::Gt},  {">=", Comparison::Ge}};
  const int line = current_.line;
  Compare compare{sum(), {}};
  int height = height_of(compare.first);
  while (true) {
    const auto* const op = std::ranges::find_if(kOperators, [&](auto& o) { return current_.is_operator(o.first); });
    Comparison comparison = Comparison::In;
    if (op != std::end(kOperators)) {
      comparison = op->second;
      take();
    } else if (current_.is_name("not") && following_.is_name("in")) {
      comparison = Comparison::NotIn;
      take();
      take();
    } else if (!skip_name("in")) {
      break;
    }
    count_node(line);
    compare.rest.emplace_back(comparison, sum());
    height = std::max(height, height_of(compare.rest.back().second));
  }
  if (compare.rest.empty()) return std::move(compare.first);
  return make(std::move(compare), line, height);
}

ExprRef ExpressionParser::sum() {
  const int line = current_.line;
  ExprRef left = concatenation();
  while (current_.is_operator("+") || current_.is_operator("-")) {
    const Operator op = take().text == "+" ? Operator::Add : Operator::Sub;
    ExprRef right = concatenation();
    const int height = highest(left, right);
    left = make(Binary{op, std::move(left), std::move(right)}, line, height);
  }
  return left;
}

ExprRef ExpressionParser::concatenation() {
  const int line = current_.line;
  Concat concat;
  concat.parts.push_back(product());
  while (skip_operator("~")) concat.parts.push_back(product());
  if (concat.parts.size() == 1) return std::move(concat.parts[0]);
  const int height = highest(concat.parts);
  return make(std::move(concat), line, height);
}

ExprRef ExpressionParser::product() {
  constexpr std::pair<std::string_view, Operator> kOperators[]{
      {"*", Operator::Mul}, {"/", Operator::Div}, {"//", Operator::FloorDiv}, {"%", Operator::Mod}};
  const int line = current_.line;
  ExprRef left = power();
  while (true) {
    const auto* const op = std::ranges::find_if(kOperators, [&](auto& o) { return current_.is_operator(o.first); });
    if (op == std::end(kOperators)) return left;
    take();
    ExprRef right = power();
    const int height = highest(left, right);
    left = make(Binary{op->second, std::move(left), std::move(right)}, line, height);
  }
}

// From the left, unlike Python's.
ExprRef ExpressionParser::power() {
  const int line = current_.line;
  ExprRef left = unary(true);
  while (skip_operator("**")) {
    ExprRef right = unary(true);
    const int height = highest(left, right);
    left = make(Binary{Operator::Pow, std::move(left), std::move(right)}, line, height);
  }
  return left;
}

ExprRef ExpressionParser::unary(bool with_filter) {
  const int line = current_.line;
  ExprRef node;
  if (current_.is_operator("-") || current_.is_operator("+")) {
    const Nested nested(*this);
    const bool negative = take().text == "-";
    node = unary(false);
    const int height = height_of(node);
    node = make(Sign{negative, std::move(node)}, line, height);
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExprRef ExpressionParser::primary() {
  const int line = current_.line;
  switch (current_.kind) {
    case TokenKind::Name: {
      const std::string name = take().text;
      if (name == "true" || name == "True") return make(Literal{Value(true)}, line, 0);
      if (name == "false" || name == "False") return make(Literal{Value(false)}, line, 0);
      if (name == "none" || name == "None") return make(Literal{Value(None())}, line, 0);
      return make(Name{make_text(name), {}}, line, 0);
    }
    case TokenKind::String: {
      std::string text = take().text;
      while (current_.kind == TokenKind::String) text += take().text;
      return make(Literal{Value(make_text(std::move(text)))}, line, 0);
    }
    case TokenKind::Integer:
      return make(Literal{Value(take().integer)}, line, 0);
    case TokenKind::Float:
      return make(Literal{Value(take().number)}, line, 0);
    default:
      break;
  }
  if (skip_operator("(")) {
    const Nested nested(*this);
    ExprRef node = tuple(true, true);
    expect(TokenKind::Operator, ")");
    return node;
  }
  if (current_.is_operator("[")) return list();
  if (current_.is_operator("{")) return dict();
  unexpected("an expression");
}

ExprRef ExpressionParser::tuple(bool with_condition, bool in_parentheses) {
  const int line = current_.line;
  const auto at_end = [&] {
    return current_.kind == TokenKind::VariableEnd || current_.kind == TokenKind::BlockEnd || current_.is_operator(")");
  };
  SequenceLiteral result{{}, true};
  bool has_comma = false;
  while (!at_end()) {
    result.items.push_back(expression(with_condition));
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma && !result.items.empty()) return std::move(result.items[0]);
  if (!has_comma && !in_parentheses) unexpected("an expression");
  const int height = highest(result.items);
  return make(std::move(result), line, height);
}

ExprRef ExpressionParser::list() {
  const int line = expect(TokenKind::Operator, "[").line;
  SequenceLiteral result{{}, false};
  while (!current_.is_operator("]")) {
    result.items.push_back(expression());
    if (!skip_operator(",")) break;
  }
  expect(TokenKind::Operator, "]");
  const int height = highest(result.items);
  return make(std::move(result), line, height);
}

ExprRef ExpressionParser::dict() {
  const int line = expect(TokenKind::Operator, "{").line;
  DictLiteral result;
  int height = 0;
  while (!current_.is_operator("}")) {
    ExprRef key = expression();
    expect(TokenKind::Operator, ":");
    ExprRef value = expression();
    height = std::max(height, highest(key, value));
    result.entries.emplace_back(std::move(key), std::move(value));
    if (!skip_operator(",")) break;
  }
  expect(TokenKind::Operator, "}");
  return make(std::move(result), line, height);
}

ExprRef ExpressionParser::postfix(ExprRef node) {
  while (true) {
    if (current_.is_operator(".") || current_.is_operator("["))
      node = subscript(std::move(node));
    else if (current_.is_operator("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprRef ExpressionParser::filters_and_tests(ExprRef node) {
  while (true) {
    if (current_.is_operator("|"))
      node = filters(std::move(node), false);
    else if (current_.is_name("is"))
      node = test(std::move(node));
    else if (current_.is_operator("("))
      node = call(std::move(node));
    else
      return node;
  }
}

ExprRef ExpressionParser::subscript(ExprRef node) {
  const int line = current_.line;
  const int height = height_of(node);
  if (skip_operator(".")) {
    if (current_.kind == TokenKind::Name) return make(Attribute{std::move(node), make_text(take().text)}, line, height);
    if (current_.kind != TokenKind::Integer) unexpected("a name or a number");
    ExprRef index = make(Literal{Value(take().integer)}, line, 0);
    return make(Item{std::move(node), std::move(index)}, line, height);
  }
  expect(TokenKind::Operator, "[");
  const auto ends = [&] { return current_.is_operator("]") || current_.is_operator(","); };
  SequenceLiteral indices{{}, true};
  while (!current_.is_operator("]")) {
    if (!indices.items.empty()) {
      expect(TokenKind::Operator, ",");
    }
    ExprRef start = current_.is_operator(":") ? nullptr : expression();
    if (!skip_operator(":")) {
      indices.items.push_back(std::move(start));
      continue;
    }
    ExprRef stop = current_.is_operator(":") || ends() ? nullptr : expression();
    ExprRef step = skip_operator(":") && !ends() ? expression() : nullptr;
    if (!indices.items.empty() || !current_.is_operator("]")) {
      throw Failure(ErrorKind::Unsupported, "a slice among several subscripts", line);
    }
    take();
    const int all = std::max(height, highest(start, stop, step));
    return make(Slice{std::move(node), std::move(start), std::move(stop), std::move(step)}, line, all);
  }
  expect(TokenKind::Operator, "]");
  const int all = std::max(height, highest(indices.items));
  ExprRef index = indices.items.size() == 1 ? std::move(indices.items[0]) : make(std::move(indices), line, all);
  const int with_index = std::max(all, height_of(index));
  return make(Item{std::move(node), std::move(index)}, line, with_index);
}

std::string ExpressionParser::dotted_name() {
  std::string name = expect(TokenKind::Name).text;
  while (skip_operator(".")) {
    name += '.';
    name += expect(TokenKind::Name).text;
  }
  return name;
}

ExprRef ExpressionParser::filters(ExprRef input, bool first) {
  while (first || skip_operator("|")) {
    first = false;
    const int line = current_.line;
    FilterCall filter{std::move(input), make_text(dotted_name()), {}, nullptr};
    filter.filter = find_filter(filter.name->bytes);
    if (current_.is_operator("(")) filter.arguments = arguments();
    const int height = std::max(height_of(filter.input), highest(filter.arguments));
    input = make(std::move(filter), line, height);
  }
  return input;
}

ExprRef ExpressionParser::test(ExprRef node) {
  const int line = take().line;
  const bool negated = skip_name("not");
  TestCall test{std::move(node), make_text(dotted_name()), {}, nullptr};
  test.test = find_test(test.name->bytes);
  const auto begins_argument = [&] {
    switch (current_.kind) {
      case TokenKind::String:
      case TokenKind::Integer:
      case TokenKind::Float:
        return true;
      case TokenKind::Name:
        return !current_.is_name("else") && !current_.is_name("or") && !current_.is_name("and");
      default:
        return current_.is_operator("[") || current_.is_operator("{");
    }
  };
  if (current_.is_operator("(")) {
    test.arguments = arguments();
  } else if (begins_argument()) {
    if (current_.is_name("is")) broken(current_.line, "tests cannot be chained with is");
    test.arguments.positional.push_back(postfix(primary()));
  }
  int height = std::max(height_of(test.input), highest(test.arguments));
  ExprRef result = make(std::move(test), line, height);
  if (!negated) return result;
  height = height_of(result);
  return make(Not{std::move(result)}, line, height);
}

ExprRef ExpressionParser::call(ExprRef node) {
  const int line = current_.line;
  Call result{std::move(node), arguments()};
  const int height = std::max(height_of(result.callee), highest(result.arguments));
  return make(std::move(result), line, height);
}

CallArguments ExpressionParser::arguments() {
  const int line = expect(TokenKind::Operator, "(").line;
  const auto require = [&](bool held) {
    if (!held) broken(line, "the arguments of a call are in the wrong order");
  };
  CallArguments result;
  std::set<std::string> names;
  while (!current_.is_operator(")")) {
    if (skip_operator("*")) {
      require(!result.star && !result.double_star);
      result.star = expression();
    } else if (skip_operator("**")) {
      require(!result.double_star);
      result.double_star = expression();
    } else if (current_.kind == TokenKind::Name && following_.is_operator("=")) {
      require(!result.double_star);
      std::string name = take().text;
      take();
      if (!names.insert(name).second) broken(line, fmt::format("the argument {} is given twice", in_quotes(name)));
      result.keywords.emplace_back(std::move(name), expression());
    } else {
      require(!result.star && !result.double_star && result.keywords.empty());
      result.positional.push_back(expression());
    }
    if (!skip_operator(",")) break;
  }
  expect(TokenKind::Operator, ")");
  return result;
}

}  // namespace lockstep::jinja
