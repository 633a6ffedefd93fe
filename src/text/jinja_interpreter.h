// Runs a template: walks its tree, keeps its variables, writes its output.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"

namespace lockstep::jinja {

// The variables of one call of a function.
struct Activation {
  std::vector<Value> slots;
  std::shared_ptr<Activation> outer;  // of the function around; null: this is the template
  Charge charge;
};
using ActivationRef = std::shared_ptr<Activation>;

class LoopObject;

// One rendering. The tree outlives it; every value it makes dies with it.
class Interpreter : public Runtime {
 public:
  Interpreter(size_t steps, size_t bytes, const std::tm& now) : Runtime(steps, bytes, now) {}
  ~Interpreter() override;

  void set_variable(const std::string& name, Value value) { variables_[name] = std::move(value); }
  std::string run(const Template& tree);
  int line() const { return line_; }  // of what it does just now

  Value make_namespace() override;
  // For macros and recursive loops, which are called as values.
  Value call_macro(const MacroDefinition& macro, const ActivationRef& closure, Arguments arguments);
  Value call_loop(const For& loop, const ActivationRef& closure, const Value& items, int64_t depth);
  bool passes_test(const For& loop, const ActivationRef& frame, const Value& item);

  Value eval(const Expr& expr, const ActivationRef& frame);
  void enter(const ScopeEntry& entry, const ActivationRef& frame);

 private:
  enum class Flow { Next, Break, Continue };
  friend struct Evaluate;
  friend struct Execute;

  Flow run_body(const Body& body, const ActivationRef& frame, Output& out);
  Flow run_loop(const For& loop, const ActivationRef& frame, const ActivationRef& outer, const Value& items,
                int64_t depth, Output& out);
  Arguments eval_arguments(const CallArguments& arguments, const ActivationRef& frame);
  Value eval_call(const Call& call, int line, const ActivationRef& frame, const Value* caller);
  Value call_value(const Value& callee, int line, Arguments arguments);
  void assign(const Target& target, const ActivationRef& frame, Value value);
  ActivationRef activate(const Function& function, ActivationRef outer);
  static Value& at(const Slot& slot, const ActivationRef& frame);

  std::unordered_map<std::string, Value> variables_;  // what the caller gave
  // Everything that can hold what holds it: emptied at the end, and no earlier.
  std::vector<ActivationRef> captured_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  const Value* block_text_ = nullptr;  // what the filter of a block is applied to
  int line_ = 1;
};

}  // namespace lockstep::jinja
