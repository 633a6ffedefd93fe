// The interpreter's loops and the calls of macros.
#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_loop.h"

namespace lockstep::jinja {
namespace {

// The items of a loop that pass its test, asked one by one.
class Passing : public Iterator {
 public:
  Passing(Interpreter& interpreter, const Value& source, const For& loop, const ActivationRef& frame)
      : Iterator(interpreter, source, sizeof(*this)),
        interpreter_(interpreter),
        items_(iterate(interpreter, source)),
        loop_(loop),
        frame_(frame) {}

  std::optional<Value> next(Runtime&) override {
    const ActivationRef frame = frame_.lock();
    if (frame == nullptr) unsupported("a loop is used after the macro it is in");
    if (!entered_) interpreter_.enter(loop_.test_entry, frame);
    entered_ = true;
    while (auto item = items_->next(interpreter_)) {
      if (interpreter_.passes_test(loop_, frame, *item)) return item;
    }
    return std::nullopt;
  }

 private:
  Interpreter& interpreter_;
  const IteratorRef items_;
  const For& loop_;
  const std::weak_ptr<Activation> frame_;  // whose variable "loop" leads here
  bool entered_ = false;
};

}  // namespace

bool Interpreter::passes_test(const For& loop, const ActivationRef& frame, const Value& item) {
  assign(loop.test_target, frame, item);
  return truth(eval(*loop.test, frame));
}

// frame: the variables of the body. outer: those of the loop's surroundings; the same, unless the loop is recursive.
Interpreter::Flow Interpreter::run_loop(const For& loop, const ActivationRef& frame, const ActivationRef& outer,
                                        const Value& items, int64_t depth, Output& out) {
  std::optional<int64_t> size = length_of(items);
  IteratorRef iterator;
  if (loop.test != nullptr) {
    iterator = std::make_shared<Passing>(*this, items, loop, outer);
    size.reset();
  } else {
    iterator = iterate(*this, items);
  }
  const Value value =
      object<LoopObject>(items, *this, std::move(iterator), size, loop, loop.is_recursive ? outer : nullptr, depth);
  auto& state = static_cast<LoopObject&>(*value.object());
  const int line = line_;
  bool completed = false;  // some turn came to its end: jinja2 takes the else, unless one did
  while (auto item = state.advance()) {
    line_ = line;
    assign(loop.target, frame, std::move(*item));
    at(loop.loop, frame) = value;
    enter(loop.body_entry, frame);
    const Flow flow = run_body(loop.body, frame, out);
    if (flow == Flow::Break) break;
    if (flow == Flow::Next) completed = true;
    line_ = line;
  }
  if (!loop.has_else || completed) return Flow::Next;
  enter(loop.else_entry, frame);
  return run_body(loop.otherwise, frame, out);
}

Value Interpreter::call_loop(const For& loop, const ActivationRef& closure, const Value& items, int64_t depth) {
  const Deeper deeper(*this);
  const ActivationRef frame = activate(loop.function, closure);
  Output out(*this);
  run_loop(loop, frame, closure, items, depth, out);
  return text(std::move(out).take());
}

Value Interpreter::call_macro(const MacroDefinition& macro, const ActivationRef& closure, Arguments arguments) {
  const Deeper deeper(*this);
  const int line = line_;
  const ActivationRef frame = activate(macro.function, closure);
  const auto slot = [&](int index) -> Value& { return frame->slots[static_cast<size_t>(index)]; };
  const auto take = [&](std::string_view name) {
    const auto it = std::ranges::find(arguments.keywords, name, &std::pair<std::string, Value>::first);
    if (it == arguments.keywords.end()) return Value(Missing());
    Value value = std::move(it->second);
    arguments.keywords.erase(it);
    return value;
  };
  const size_t count = macro.parameters.size();
  const size_t given = std::min(count, arguments.positional.size());
  for (size_t i = 0; i < count; ++i) {
    const Parameter& parameter = macro.parameters[i];
    slot(parameter.index) = i < given ? std::move(arguments.positional[i]) : take(parameter.name->bytes);
  }
  if (macro.caller >= 0) {
    Value caller = take("caller");
    const bool none = caller.is<Missing>() || caller.is<None>();
    slot(macro.caller) = none ? Value(Undefined{Undefined::Why::Name, make_text("caller"), 0}) : std::move(caller);
  }
  const std::string name = macro.name == nullptr ? "caller" : macro.name->bytes;
  if (macro.keywords >= 0) {
    Dict rest;
    for (auto& [key, value] : arguments.keywords) put_in_dict(*this, rest, text(key), std::move(value));
    slot(macro.keywords) = dict(std::move(rest));
  } else if (!arguments.keywords.empty()) {
    refuse("the macro {} has no argument {}", in_quotes(name), in_quotes(arguments.keywords.front().first));
  }
  if (macro.extra >= 0) {
    slot(macro.extra) =
        tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(given), arguments.positional.end()});
  } else if (arguments.positional.size() > count) {
    refuse("the macro {} takes {} arguments at most", in_quotes(name), count);
  }
  enter(macro.entry, frame);
  for (const Parameter& parameter : macro.parameters) {
    if (!slot(parameter.index).is<Missing>()) continue;
    slot(parameter.index) = parameter.fallback == nullptr
                                ? Value(Undefined{Undefined::Why::Parameter, parameter.name, 0})
                                : eval(*parameter.fallback, frame);
  }
  Output out(*this);
  run_body(macro.body, frame, out);
  line_ = line;
  return text(std::move(out).take());
}

}  // namespace lockstep::jinja
