// Two passes over each scope: what it reads and assigns, then which variable each name means.
#include "text/jinja_scopes.h"

#include <algorithm>

#include "base/quoted.h"
#include "text/jinja_walk.h"

namespace lockstep::jinja {
namespace {

// A function as it is being resolved.
struct Frame {
  Frame* outer;
  Function* function;
};

class Scope {
 public:
  Scope(Scope* outer, Frame& frame, ScopeEntry& entry) : outer_(outer), frame_(frame), entry_(entry) {}

  Frame& frame() { return frame_; }

  // The variable that a name means, seen from `from`; nothing where no scope has it.
  std::optional<Slot> find(const std::string& name, const Frame& from) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
      const auto found = scope->indices_.find(name);
      if (found == scope->indices_.end()) continue;
      int hops = 0;
      for (const Frame* frame = &from; frame != &scope->frame_; frame = frame->outer) ++hops;
      return Slot{hops, found->second};
    }
    return std::nullopt;
  }

  int parameter(const TextRef& name) {
    const int index = frame_.function->slots++;
    indices_[name->bytes] = index;
    return index;
  }

  void read(const TextRef& name) {
    if (find(name->bytes, frame_)) return;
    entry_.push_back({Entry::From::Context, parameter(name), name, {}});
  }

  void assign(const TextRef& name, bool inside_if) {
    if (indices_.contains(name->bytes)) return;
    const auto further_out = find(name->bytes, frame_);
    const int index = parameter(name);
    if (further_out)
      entry_.push_back({Entry::From::Outer, index, name, *further_out});
    else
      entry_.push_back({inside_if ? Entry::From::Context : Entry::From::Nothing, index, name, {}});
  }

 private:
  Scope* const outer_;
  Frame& frame_;
  ScopeEntry& entry_;
  std::unordered_map<std::string, int> indices_;
};

// ---- First pass over a scope: which names it reads and assigns, in order. Inner scopes are not entered.

void note_reads(const ExprRef& expr, Scope& scope) {
  for_each_name(expr, [&](Name& name) { scope.read(name.name); });
}

void note_assignments(const Target& target, Scope& scope, bool inside_if) {
  if (const auto* name = std::get_if<NameTarget>(&target.node)) {
    scope.assign(name->name, inside_if);
  } else if (const auto* member = std::get_if<NamespaceTarget>(&target.node)) {
    scope.read(member->name);
  } else {
    for (const Target& part : std::get<std::vector<Target>>(target.node)) note_assignments(part, scope, inside_if);
  }
}

void note_names(const Body& body, Scope& scope, bool inside_if);

struct NamesOfStatement {
  Scope& scope;
  bool inside_if;

  void operator()(const Data&) const {}
  void operator()(const Break&) const {}
  void operator()(const Continue&) const {}
  void operator()(const Print& print) const { note_reads(print.value, scope); }
  void operator()(const If& node) const {
    for (const auto& [test, body] : node.branches) {
      note_reads(test, scope);
      note_names(body, scope, true);
    }
    note_names(node.otherwise, scope, true);
  }
  void operator()(const For& loop) const { note_reads(loop.iterable, scope); }
  void operator()(const Set& set) const {
    note_reads(set.value, scope);
    note_assignments(set.target, scope, inside_if);
  }
  void operator()(const SetBlock& set) const {
    note_reads(set.filter, scope);
    note_assignments(set.target, scope, inside_if);
  }
  void operator()(const With& with) const {
    for (const auto& [_, value] : with.assignments) note_reads(value, scope);
  }
  void operator()(const FilterBlock& block) const { note_reads(block.filter, scope); }
  void operator()(const Macro& macro) const { note_assignments(macro.target, scope, inside_if); }
  void operator()(const CallBlock& block) const { note_reads(block.call, scope); }
};

void note_names(const Body& body, Scope& scope, bool inside_if) {
  for (const Statement& statement : body) std::visit(NamesOfStatement{scope, inside_if}, statement.node);
}

// ---- Second pass: every name becomes a variable, and inner scopes are resolved.

void resolve_body(Body& body, Scope& scope, bool soft);

// soft: inside an if, where an unknown filter is an error only when it is used.
void resolve_expr(const ExprRef& expr, Scope& scope, bool soft) {
  if (expr == nullptr) return;
  for_each_name(expr, [&](Name& name) {
    const auto slot = scope.find(name.name->bytes, scope.frame());
    if (!slot) fail(ErrorKind::Internal, "the name {} was not noted", in_quotes(name.name->bytes));
    name.slot = *slot;
  });
  check_filters(expr, soft);
}

void resolve_target(Target& target, Scope& scope) {
  if (auto* name = std::get_if<NameTarget>(&target.node)) {
    name->slot = *scope.find(name->name->bytes, scope.frame());
  } else if (auto* member = std::get_if<NamespaceTarget>(&target.node)) {
    member->slot = *scope.find(member->name->bytes, scope.frame());
  } else {
    for (Target& part : std::get<std::vector<Target>>(target.node)) resolve_target(part, scope);
  }
}

void make_parameters(const Target& target, Scope& scope) {
  if (const auto* name = std::get_if<NameTarget>(&target.node)) {
    scope.parameter(name->name);
  } else if (const auto* parts = std::get_if<std::vector<Target>>(&target.node)) {
    for (const Target& part : *parts) make_parameters(part, scope);
  }
}

Target copy(const Target& target) {
  if (const auto* name = std::get_if<NameTarget>(&target.node)) return {*name};
  if (const auto* member = std::get_if<NamespaceTarget>(&target.node)) return {*member};
  std::vector<Target> parts;
  for (const Target& part : std::get<std::vector<Target>>(target.node)) parts.push_back(copy(part));
  return {std::move(parts)};
}

void resolve_scope(Body& body, Scope& scope) {
  note_names(body, scope, false);
  resolve_body(body, scope, false);
}

void resolve_definition(MacroDefinition& definition, Scope& outer) {
  outer.frame().function->is_captured = true;
  Frame frame{&outer.frame(), &definition.function};
  Scope scope(&outer, frame, definition.entry);
  bool has_caller = false, has_keywords = false, has_extra = false;
  for (Parameter& parameter : definition.parameters) {
    parameter.index = scope.parameter(parameter.name);
    has_caller |= parameter.name->bytes == "caller";
    has_keywords |= parameter.name->bytes == "kwargs";
    has_extra |= parameter.name->bytes == "varargs";
  }
  if (reads_undeclared(definition.body, "caller")) {
    if (!has_caller) {
      definition.caller = scope.parameter(make_text("caller"));
    } else if (std::ranges::any_of(definition.parameters, [](const Parameter& parameter) {
                 return parameter.name->bytes == "caller" && parameter.fallback == nullptr;
               })) {
      refuse("a parameter with the name 'caller' needs a default");
    }
  }
  if (!has_keywords && reads_undeclared(definition.body, "kwargs")) {
    definition.keywords = scope.parameter(make_text("kwargs"));
  }
  if (!has_extra && reads_undeclared(definition.body, "varargs")) {
    definition.extra = scope.parameter(make_text("varargs"));
  }
  for (const Parameter& parameter : definition.parameters) note_reads(parameter.fallback, scope);
  note_names(definition.body, scope, false);
  for (Parameter& parameter : definition.parameters) resolve_expr(parameter.fallback, scope, false);
  resolve_body(definition.body, scope, false);
}

void resolve_loop(For& loop, Scope& outer, bool soft) {
  resolve_expr(loop.iterable, outer, soft);
  if (loop.test != nullptr) {
    loop.test_target = copy(loop.target);
    Scope scope(&outer, outer.frame(), loop.test_entry);
    make_parameters(loop.test_target, scope);
    note_reads(loop.test, scope);
    resolve_target(loop.test_target, scope);
    resolve_expr(loop.test, scope, false);
  }
  Frame own{&outer.frame(), &loop.function};
  if (loop.is_recursive) outer.frame().function->is_captured = true;
  Frame& frame = loop.is_recursive ? own : outer.frame();
  Scope scope(&outer, frame, loop.body_entry);
  loop.loop = {0, scope.parameter(make_text("loop"))};
  make_parameters(loop.target, scope);
  resolve_target(loop.target, scope);
  resolve_scope(loop.body, scope);
  Scope else_scope(&outer, frame, loop.else_entry);
  resolve_scope(loop.otherwise, else_scope);
}

struct ResolveStatement {
  Scope& scope;
  bool soft;

  void operator()(Data&) const {}
  void operator()(Break&) const {}
  void operator()(Continue&) const {}
  void operator()(Print& print) const { resolve_expr(print.value, scope, soft); }
  void operator()(If& node) const {
    for (auto& [test, body] : node.branches) {
      resolve_expr(test, scope, true);
      resolve_body(body, scope, true);
    }
    resolve_body(node.otherwise, scope, true);
  }
  void operator()(For& loop) const { resolve_loop(loop, scope, soft); }
  void operator()(Set& set) const {
    resolve_expr(set.value, scope, soft);
    resolve_target(set.target, scope);
  }
  void operator()(SetBlock& set) const {
    resolve_expr(set.filter, scope, false);
    resolve_target(set.target, scope);
    Scope inner(&scope, scope.frame(), set.entry);
    resolve_scope(set.body, inner);
  }
  void operator()(With& with) const {
    Scope inner(&scope, scope.frame(), with.entry);
    for (auto& [target, value] : with.assignments) {
      resolve_expr(value, scope, soft);
      make_parameters(target, inner);
    }
    for (auto& [target, _] : with.assignments) resolve_target(target, inner);
    resolve_scope(with.body, inner);
  }
  void operator()(FilterBlock& block) const {
    resolve_expr(block.filter, scope, false);
    Scope inner(&scope, scope.frame(), block.entry);
    resolve_scope(block.body, inner);
  }
  void operator()(Macro& macro) const {
    resolve_definition(macro.definition, scope);
    resolve_target(macro.target, scope);
  }
  void operator()(CallBlock& block) const {
    resolve_definition(block.caller, scope);
    resolve_expr(block.call, scope, soft);
  }
};

void resolve_body(Body& body, Scope& scope, bool soft) {
  for (Statement& statement : body) {
    try {
      std::visit(ResolveStatement{scope, soft}, statement.node);
    } catch (Failure& failure) {
      if (failure.line == 0) failure.line = statement.line;
      throw;
    }
  }
}

}  // namespace

void resolve_names(Template& tree) {
  Frame frame{nullptr, &tree.function};
  Scope scope(nullptr, frame, tree.entry);
  resolve_scope(tree.body, scope);
}

}  // namespace lockstep::jinja
