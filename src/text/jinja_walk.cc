// Visitors over the tree.
#include "text/jinja_walk.h"

#include "base/quoted.h"

namespace lockstep::jinja {
namespace {

// Calls visit for each direct part of an expression.
struct Parts {
  FunctionRef<void(const ExprRef&)> visit;

  void all(const std::vector<ExprRef>& exprs) const {
    for (const auto& expr : exprs) visit(expr);
  }
  void operator()(const Literal&) const {}
  void operator()(const Name&) const {}
  void operator()(const SequenceLiteral& node) const { all(node.items); }
  void operator()(const DictLiteral& node) const {
    for (const auto& [key, value] : node.entries) {
      visit(key);
      visit(value);
    }
  }
  void operator()(const Conditional& node) const {
    visit(node.test);
    visit(node.then);
    visit(node.otherwise);
  }
  void operator()(const Logical& node) const {
    visit(node.left);
    visit(node.right);
  }
  void operator()(const Not& node) const { visit(node.operand); }
  void operator()(const Binary& node) const {
    visit(node.left);
    visit(node.right);
  }
  void operator()(const Sign& node) const { visit(node.operand); }
  void operator()(const Compare& node) const {
    visit(node.first);
    for (const auto& [_, operand] : node.rest) visit(operand);
  }
  void operator()(const Concat& node) const { all(node.parts); }
  void operator()(const Attribute& node) const { visit(node.object); }
  void operator()(const Item& node) const {
    visit(node.object);
    visit(node.index);
  }
  void operator()(const Slice& node) const {
    visit(node.object);
    visit(node.start);
    visit(node.stop);
    visit(node.step);
  }
  void operator()(const CallArguments& arguments) const {
    all(arguments.positional);
    for (const auto& [_, value] : arguments.keywords) visit(value);
    visit(arguments.star);
    visit(arguments.double_star);
  }
  void operator()(const Call& node) const {
    visit(node.callee);
    (*this)(node.arguments);
  }
  void operator()(const FilterCall& node) const {
    visit(node.input);
    (*this)(node.arguments);
  }
  void operator()(const TestCall& node) const {
    visit(node.input);
    (*this)(node.arguments);
  }
};

// Looks for the first place where a name is read or assigned.
class FirstUse {
 public:
  explicit FirstUse(std::string_view name) : name_(name) {}

  bool is_read() const { return read_; }

  void body(const Body& body) {
    for (const Statement& statement : body) {
      if (decided_) return;
      std::visit(*this, statement.node);
    }
  }

  void operator()(const Data&) {}
  void operator()(const Break&) {}
  void operator()(const Continue&) {}
  void operator()(const Print& node) { expr(node.value); }
  void operator()(const If& node) {
    for (const auto& [test, branch] : node.branches) {
      expr(test);
      body(branch);
    }
    body(node.otherwise);
  }
  void operator()(const For& node) {
    target(node.target);
    expr(node.iterable);
    body(node.body);
    body(node.otherwise);
    expr(node.test);
  }
  void operator()(const Set& node) {
    target(node.target);
    expr(node.value);
  }
  void operator()(const SetBlock& node) {
    target(node.target);
    expr(node.filter);
    body(node.body);
  }
  void operator()(const With& node) {
    for (const auto& [to, _] : node.assignments) target(to);
    for (const auto& [_, value] : node.assignments) expr(value);
    body(node.body);
  }
  void operator()(const FilterBlock& node) {
    body(node.body);
    expr(node.filter);
  }
  void operator()(const Macro& node) { definition(node.definition); }
  void operator()(const CallBlock& node) {
    expr(node.call);
    definition(node.caller);
  }

 private:
  void decide(std::string_view name, bool read) {
    if (decided_ || name != name_) return;
    decided_ = true;
    read_ = read;
  }
  void expr(const ExprRef& root) {
    for_each_name(root, [&](Name& name) { decide(name.name->bytes, true); });
  }
  void target(const Target& target) {
    if (const auto* name = std::get_if<NameTarget>(&target.node)) {
      decide(name->name->bytes, false);
    } else if (const auto* parts = std::get_if<std::vector<Target>>(&target.node)) {
      for (const Target& part : *parts) this->target(part);
    }
  }
  void definition(const MacroDefinition& definition) {
    for (const Parameter& parameter : definition.parameters) decide(parameter.name->bytes, false);
    for (const Parameter& parameter : definition.parameters) expr(parameter.fallback);
    body(definition.body);
  }

  const std::string_view name_;
  bool decided_ = false, read_ = false;
};

}  // namespace

void for_each_expr(const ExprRef& expr, FunctionRef<void(Expr&)> visit) {
  if (expr == nullptr) return;
  visit(*expr);
  std::visit(Parts{[&](const ExprRef& part) { for_each_expr(part, visit); }}, expr->node);
}

void for_each_name(const ExprRef& expr, FunctionRef<void(Name&)> visit) {
  for_each_expr(expr, [&](Expr& part) {
    if (auto* name = std::get_if<Name>(&part.node)) visit(*name);
  });
}

void check_filters(const ExprRef& expr, bool soft) {
  if (expr == nullptr || soft) return;
  if (std::holds_alternative<Conditional>(expr->node)) return;
  const auto check = [&](std::string_view what, const TextRef& name, bool known) {
    if (known) return;
    throw Failure(ErrorKind::Malformed, fmt::format("there is no {} {}", what, in_quotes(name->bytes)), expr->line);
  };
  if (const auto* filter = std::get_if<FilterCall>(&expr->node)) {
    check("filter", filter->name, filter->filter != nullptr);
  }
  if (const auto* test = std::get_if<TestCall>(&expr->node)) check("test", test->name, test->test != nullptr);
  std::visit(Parts{[&](const ExprRef& part) { check_filters(part, false); }}, expr->node);
}

bool reads_undeclared(const Body& body, std::string_view name) {
  FirstUse use(name);
  use.body(body);
  return use.is_read();
}

}  // namespace lockstep::jinja
