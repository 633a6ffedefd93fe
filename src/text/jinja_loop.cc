// What templates ask a loop and a macro for.
#include "text/jinja_loop.h"

namespace lockstep::jinja {
namespace {

// loop.cycle and loop.changed as values.
class LoopMethod : public Object {
 public:
  LoopMethod(std::shared_ptr<LoopObject> loop, bool is_cycle) : loop_(std::move(loop)), is_cycle_(is_cycle) {}
  std::string_view type_name() const override { return "method"; }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override {
    if (!arguments.keywords.empty()) refuse("a method of loop takes no names");
    return is_cycle_ ? loop_->cycle(arguments) : loop_->changed(runtime, std::move(arguments));
  }

 private:
  const std::shared_ptr<LoopObject> loop_;
  const bool is_cycle_;
};

}  // namespace

std::optional<Value> LoopObject::advance() {
  std::optional<Value> item;
  if (peeked_) {
    item = std::move(after_);
    after_.reset();
    // At the end an iterator is asked again, as it may be by Python.
    peeked_ = false;
  } else {
    item = items_->next(interpreter_);
  }
  if (!item) return item;
  ++index0_;
  before_ = std::move(current_);
  current_ = *item;
  return item;
}

const std::optional<Value>& LoopObject::peek() {
  if (!peeked_) {
    after_ = items_->next(interpreter_);
    peeked_ = after_.has_value();
  }
  return after_;
}

int64_t LoopObject::length() {
  if (size_) return *size_;
  Items rest(interpreter_);
  while (auto item = items_->next(interpreter_)) rest.push(std::move(*item));
  size_ = static_cast<int64_t>(rest.size()) + index0_ + 1 + (peeked_ ? 1 : 0);
  items_ = iterate_over(interpreter_, rest.take());
  return *size_;
}

std::optional<Value> LoopObject::attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return index0_ + 1;
  if (name == "index0") return index0_;
  if (name == "first") return index0_ == 0;
  if (name == "last") return !peek().has_value();
  if (name == "length") return length();
  if (name == "revindex") return length() - index0_;
  if (name == "revindex0") return length() - index0_ - 1;
  if (name == "previtem") return index0_ == 0 ? Value(Undefined()) : before_;
  if (name == "nextitem") return peek().value_or(Undefined());
  if (name == "depth") return depth0_ + 1;
  if (name == "depth0") return depth0_;
  if (name == "cycle" || name == "changed") {
    return runtime.object<LoopMethod>(Value(ObjectRef(shared_from_this())), shared_from_this(), name == "cycle");
  }
  return std::nullopt;
}

Value LoopObject::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) refuse("loop.cycle() needs something to cycle through");
  return arguments.positional[static_cast<size_t>(index0_) % arguments.positional.size()];
}

Value LoopObject::changed(Runtime& runtime, Arguments arguments) {
  Value now = runtime.tuple(std::move(arguments.positional));
  if (last_changed_ && equal(runtime, *last_changed_, now)) return false;
  last_changed_ = std::move(now);
  return true;
}

Value LoopObject::call(Runtime&, Arguments arguments) {
  if (!loop_.is_recursive) refuse("'loop' is called in a loop that is not recursive");
  Bound bound = bind("loop", "iterable", std::move(arguments));
  return interpreter_.call_loop(loop_, closure_, bound[0], depth0_ + 1);
}

std::string LoopObject::repr(Runtime&, int) {
  return fmt::format("<LoopContext {}/{}>", index0_ + 1, length());
}

std::optional<Value> MacroObject::attribute(Runtime& runtime, std::string_view name) {
  if (name == "name") return macro_.name == nullptr ? Value(None()) : Value(macro_.name);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const Parameter& parameter : macro_.parameters) names.push_back(parameter.name);
    return runtime.tuple(std::move(names));
  }
  if (name == "catch_kwargs") return macro_.keywords >= 0;
  if (name == "catch_varargs") return macro_.extra >= 0;
  if (name == "caller") return macro_.caller >= 0;
  return std::nullopt;
}

std::string MacroObject::repr(Runtime& runtime, int) {
  if (macro_.name == nullptr) return "<Macro anonymous>";
  return "<Macro " + repr_of(runtime, Value(macro_.name)) + ">";
}

}  // namespace lockstep::jinja
