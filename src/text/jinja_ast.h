// The tree of a template: what the parser makes, the scopes pass completes, and the interpreter walks.
//
// Names are resolved before anything runs: jinja2 compiles a template to Python functions, and which variable a name
// means follows from where it is assigned, not from what happened so far. jinja_scopes.h says how.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_value.h"

namespace lockstep::jinja {

struct Expr;
struct Statement;
using ExprRef = std::unique_ptr<Expr>;
using Body = std::vector<Statement>;

// A variable: so many functions outwards, then its number there.
struct Slot {
  int hops = 0;
  int index = 0;
};

// ---- Expressions

struct Literal {
  Value value;
};
struct Name {
  TextRef name;
  Slot slot;
};
struct SequenceLiteral {
  std::vector<ExprRef> items;
  bool is_tuple;
};
struct DictLiteral {
  std::vector<std::pair<ExprRef, ExprRef>> entries;
};
struct Conditional {
  ExprRef test, then, otherwise;  // otherwise may be null
};
struct Logical {
  bool is_and;
  ExprRef left, right;
};
struct Not {
  ExprRef operand;
};
enum class Operator { Add, Sub, Mul, Div, FloorDiv, Mod, Pow };
struct Binary {
  Operator op;
  ExprRef left, right;
};
struct Sign {
  bool negative;
  ExprRef operand;
};
enum class Comparison { Eq, Ne, Lt, Le, Gt, Ge, In, NotIn };
struct Compare {  // a < b <= c
  ExprRef first;
  std::vector<std::pair<Comparison, ExprRef>> rest;
};
struct Concat {  // a ~ b ~ c
  std::vector<ExprRef> parts;
};
struct Attribute {
  ExprRef object;
  TextRef name;
};
struct Item {
  ExprRef object, index;
};
struct Slice {
  ExprRef object, start, stop, step;  // the last three may be null
};
struct CallArguments {
  std::vector<ExprRef> positional;
  std::vector<std::pair<std::string, ExprRef>> keywords;
  ExprRef star, double_star;  // may be null
};
struct Call {
  ExprRef callee;
  CallArguments arguments;
};
struct Filter;
struct Test;
struct FilterCall {
  ExprRef input;  // null: the text of the block that is filtered
  TextRef name;
  CallArguments arguments;
  const Filter* filter;  // null: there is none of this name
};
struct TestCall {
  ExprRef input;
  TextRef name;
  CallArguments arguments;
  const Test* test;  // null: there is none of this name
};

struct Expr {
  std::variant<Literal, Name, SequenceLiteral, DictLiteral, Conditional, Logical, Not, Binary, Sign, Compare, Concat,
               Attribute, Item, Slice, Call, FilterCall, TestCall>
      node;
  int line;
  int height;  // of the tree below and with it
};

// ---- Scopes

// What a scope's variable is when the scope is entered.
struct Entry {
  enum class From { Nothing, Context, Outer };
  From from;
  int index;     // of the variable, in the function of the scope
  TextRef name;  // Context: under this name
  Slot outer;    // Outer: a copy of this one
};
using ScopeEntry = std::vector<Entry>;

// What runs with variables of its own: the template, a macro, a called block, a recursive loop.
struct Function {
  int slots = 0;
  bool is_captured = false;  // functions are made inside, which may outlive a call
};

// ---- Statements

struct Target;
struct NameTarget {
  TextRef name;
  Slot slot;
};
struct NamespaceTarget {
  TextRef name;
  Slot slot;
  TextRef attribute;
};
struct Target {
  std::variant<NameTarget, NamespaceTarget, std::vector<Target>> node;
};

struct Data {
  std::string text;
};
struct Print {
  ExprRef value;
};
struct If {
  std::vector<std::pair<ExprRef, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExprRef iterable, test;  // test may be null
  Body body, otherwise;
  bool has_else = false;
  bool is_recursive = false;

  // Of a recursive loop, the body and the else belong to `function`.
  Function function;
  Slot loop;           // the variable "loop"
  Target test_target;  // the target's variables while the test is asked
  ScopeEntry body_entry, test_entry, else_entry;
};
struct Set {
  Target target;
  ExprRef value;
};
struct SetBlock {
  Target target;
  ExprRef filter;  // may be null
  Body body;
  ScopeEntry entry;
};
struct With {
  std::vector<std::pair<Target, ExprRef>> assignments;
  Body body;
  ScopeEntry entry;
};
struct FilterBlock {
  ExprRef filter;
  Body body;
  ScopeEntry entry;
};

struct Parameter {
  TextRef name;
  int index = 0;
  ExprRef fallback;  // may be null
};
struct MacroDefinition {
  TextRef name;  // null: the body of a call block
  std::vector<Parameter> parameters;
  Body body;

  Function function;
  ScopeEntry entry;
  // The variables that take what no parameter does; -1: the body does not ask for them.
  int caller = -1, keywords = -1, extra = -1;
};
struct Macro {
  MacroDefinition definition;
  Target target;
};
struct CallBlock {
  MacroDefinition caller;
  ExprRef call;  // null: a generation block, which only writes its body
};
struct Break {};
struct Continue {};

struct Statement {
  std::variant<Data, Print, If, For, Set, SetBlock, With, FilterBlock, Macro, CallBlock, Break, Continue> node;
  int line;
};

struct Template {
  Body body;
  Function function;
  ScopeEntry entry;
};

}  // namespace lockstep::jinja
