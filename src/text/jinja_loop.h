// The variable "loop", and the macros: values that need the interpreter.
#pragma once

#include <memory>
#include <optional>

#include "text/jinja_interpreter.h"

namespace lockstep::jinja {

class LoopObject : public Object, public std::enable_shared_from_this<LoopObject> {
 public:
  // size: of what is walked over, where it is known.
  LoopObject(Interpreter& interpreter, IteratorRef items, std::optional<int64_t> size, const For& loop,
             ActivationRef closure, int64_t depth0)
      : interpreter_(interpreter),
        items_(std::move(items)),
        size_(size),
        loop_(loop),
        closure_(std::move(closure)),
        depth0_(depth0) {}

  // Moves on to the next item; nothing after the last.
  std::optional<Value> advance();

  std::string_view type_name() const override { return "LoopContext"; }
  bool is_callable() const override { return true; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  Value call(Runtime& runtime, Arguments arguments) override;  // of a recursive loop: loop(items)
  std::string repr(Runtime& runtime, int depth) override;

  Value cycle(const Arguments& arguments) const;
  Value changed(Runtime& runtime, Arguments arguments);

 private:
  const std::optional<Value>& peek();
  int64_t length();

  Interpreter& interpreter_;
  IteratorRef items_;
  std::optional<int64_t> size_;
  const For& loop_;
  const ActivationRef closure_;  // of a recursive loop: what is around it; else null
  const int64_t depth0_;

  int64_t index0_ = -1;
  Value before_, current_;
  std::optional<Value> after_;
  bool peeked_ = false;
  std::optional<Value> last_changed_;
};

class MacroObject : public Object {
 public:
  MacroObject(Interpreter& interpreter, const MacroDefinition& macro, ActivationRef closure)
      : interpreter_(interpreter), macro_(macro), closure_(std::move(closure)) {}

  std::string_view type_name() const override { return "Macro"; }
  bool is_callable() const override { return true; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  Value call(Runtime&, Arguments arguments) override {
    return interpreter_.call_macro(macro_, closure_, std::move(arguments));
  }
  std::string repr(Runtime& runtime, int depth) override;

 private:
  Interpreter& interpreter_;
  const MacroDefinition& macro_;
  const ActivationRef closure_;
};

}  // namespace lockstep::jinja
