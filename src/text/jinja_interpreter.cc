// Expressions, variables and statements; loops and calls are in jinja_calls.cc.
#include "text/jinja_interpreter.h"

#include <algorithm>

#include "text/jinja_loop.h"

namespace lockstep::jinja {

// ---- Expressions

struct Evaluate {
  Interpreter& in;
  const ActivationRef& frame;
  const int line;

  Value eval(const ExprRef& expr) const { return in.eval(*expr, frame); }
  Value eval_or_missing(const ExprRef& expr) const { return expr == nullptr ? Value(Missing()) : eval(expr); }
  // Back from the parts to the whole: what fails now, fails in this line.
  void here() const { in.line_ = line; }

  Value operator()(const Literal& node) const { return node.value; }

  Value operator()(const Name& node) const {
    const Value& value = Interpreter::at(node.slot, frame);
    if (value.is<Missing>()) return Undefined{Undefined::Why::Name, node.name, 0};
    return value;
  }

  Value operator()(const SequenceLiteral& node) const {
    Items items(in);
    for (const ExprRef& item : node.items) items.push(eval(item));
    here();
    return node.is_tuple ? in.tuple(items.take()) : in.list(items.take());
  }

  Value operator()(const DictLiteral& node) const {
    Dict dict;
    for (const auto& [key, value] : node.entries) {
      Value k = eval(key);
      Value v = eval(value);
      here();
      put_in_dict(in, dict, std::move(k), std::move(v));
    }
    return in.dict(std::move(dict));
  }

  Value operator()(const Conditional& node) const {
    if (truth(eval(node.test))) return eval(node.then);
    if (node.otherwise == nullptr) return Undefined{Undefined::Why::NoElse, nullptr, 0};
    return eval(node.otherwise);
  }

  Value operator()(const Logical& node) const {
    Value left = eval(node.left);
    return truth(left) == node.is_and ? eval(node.right) : left;
  }

  Value operator()(const Not& node) const { return !truth(eval(node.operand)); }

  Value operator()(const Binary& node) const {
    const Value left = eval(node.left), right = eval(node.right);
    here();
    return binary(in, node.op, left, right);
  }

  Value operator()(const Sign& node) const {
    const Value operand = eval(node.operand);
    here();
    return signed_value(node.negative, operand);
  }

  Value operator()(const Compare& node) const {
    Value left = eval(node.first);
    for (const auto& [op, operand] : node.rest) {
      Value right = eval(operand);
      here();
      if (!compare(in, op, left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  Value operator()(const Concat& node) const {
    Output out(in);
    for (const ExprRef& part : node.parts) {
      const Value value = eval(part);
      here();
      append_str(in, value, out);
    }
    return in.text(std::move(out).take());
  }

  Value operator()(const Attribute& node) const {
    const Value object = eval(node.object);
    here();
    return get_attribute(in, object, node.name);
  }

  Value operator()(const Item& node) const {
    const Value object = eval(node.object), index = eval(node.index);
    here();
    return get_item(in, object, index);
  }

  Value operator()(const Slice& node) const {
    const Value object = eval(node.object), start = eval_or_missing(node.start), stop = eval_or_missing(node.stop),
                step = eval_or_missing(node.step);
    here();
    return slice(in, object, start, stop, step);
  }

  Value operator()(const Call& node) const { return in.eval_call(node, line, frame, nullptr); }

  Value operator()(const FilterCall& node) const {
    Value input = node.input == nullptr ? *in.block_text_ : eval(node.input);
    Arguments arguments = in.eval_arguments(node.arguments, frame);
    here();
    if (node.filter == nullptr) refuse("there is no filter {}", in_quotes(node.name->bytes));
    Value result = in.apply(*node.filter, std::move(input), std::move(arguments));
    here();
    return result;
  }

  Value operator()(const TestCall& node) const {
    Value input = eval(node.input);
    Arguments arguments = in.eval_arguments(node.arguments, frame);
    here();
    if (node.test == nullptr) refuse("there is no test {}", in_quotes(node.name->bytes));
    return in.apply(*node.test, std::move(input), std::move(arguments));
  }
};

Value Interpreter::eval(const Expr& expr, const ActivationRef& frame) {
  const Deeper deeper(*this);
  spend();
  line_ = expr.line;
  return std::visit(Evaluate{*this, frame, expr.line}, expr.node);
}

Arguments Interpreter::eval_arguments(const CallArguments& arguments, const ActivationRef& frame) {
  Arguments result;
  const auto put_keyword = [&](std::string name, Value value) {
    if (std::ranges::find(result.keywords, name, &std::pair<std::string, Value>::first) != result.keywords.end()) {
      refuse("the argument {} is given twice", in_quotes(name));
    }
    result.keywords.emplace_back(std::move(name), std::move(value));
  };
  result.positional.reserve(arguments.positional.size());
  for (const ExprRef& expr : arguments.positional) result.positional.push_back(eval(*expr, frame));
  for (const auto& [name, expr] : arguments.keywords) put_keyword(name, eval(*expr, frame));
  if (arguments.star != nullptr) {
    for (Value& value : to_vector(*this, eval(*arguments.star, frame))) result.positional.push_back(std::move(value));
  }
  if (arguments.double_star != nullptr) {
    const Value names = eval(*arguments.double_star, frame);
    if (names.dict() == nullptr) refuse("what stands behind '**' is a {} and no dict", type_name(names));
    for (const auto& [name, value] : names.dict()->entries) {
      if (name.text() == nullptr) refuse("a name of an argument is a {}", type_name(name));
      spend(1 + result.keywords.size());
      put_keyword(name.text()->bytes, value);
    }
  }
  return result;
}

// caller: the body of a call block, as one more argument.
Value Interpreter::eval_call(const Call& call, int line, const ActivationRef& frame, const Value* caller) {
  // A method is looked up and called at once; it seldom is a value.
  const auto* method = std::get_if<Attribute>(&call.callee->node);
  Value object = eval(method != nullptr ? *method->object : *call.callee, frame);
  Arguments arguments = eval_arguments(call.arguments, frame);
  line_ = line;
  if (caller != nullptr) {
    if (std::ranges::find(arguments.keywords, "caller", &std::pair<std::string, Value>::first) !=
        arguments.keywords.end()) {
      refuse("the argument 'caller' is given twice");
    }
    arguments.keywords.emplace_back("caller", *caller);
  }
  Value result;
  if (method == nullptr) {
    result = jinja::call(*this, object, std::move(arguments));
  } else if (!call_method(*this, object, method->name->bytes, arguments, &result)) {
    result = jinja::call(*this, get_attribute(*this, object, method->name), std::move(arguments));
  }
  line_ = line;
  return result;
}

// ---- Variables

Value& Interpreter::at(const Slot& slot, const ActivationRef& frame) {
  Activation* activation = frame.get();
  for (int i = 0; i < slot.hops; ++i) activation = activation->outer.get();
  return activation->slots[static_cast<size_t>(slot.index)];
}

ActivationRef Interpreter::activate(const Function& function, ActivationRef outer) {
  const auto slots = static_cast<size_t>(function.slots);
  spend(1 + slots / 4);
  Charge charge(budget(), kOverhead + slots * sizeof(Value));
  auto frame = std::make_shared<Activation>(Activation{std::vector<Value>(slots), std::move(outer), std::move(charge)});
  if (function.is_captured) captured_.push_back(frame);
  return frame;
}

void Interpreter::enter(const ScopeEntry& entry, const ActivationRef& frame) {
  spend(entry.size());
  for (const Entry& variable : entry) {
    Value& value = frame->slots[static_cast<size_t>(variable.index)];
    switch (variable.from) {
      case Entry::From::Nothing:
        value = Missing();
        break;
      case Entry::From::Outer:
        value = at(variable.outer, frame);
        break;
      case Entry::From::Context: {
        const auto found = variables_.find(variable.name->bytes);
        if (found != variables_.end())
          value = found->second;
        else if (ObjectRef global = find_global(variable.name->bytes))
          value = std::move(global);
        else
          value = Missing();
      }
    }
  }
}

void Interpreter::assign(const Target& target, const ActivationRef& frame, Value value) {
  if (const auto* name = std::get_if<NameTarget>(&target.node)) {
    at(name->slot, frame) = std::move(value);
  } else if (const auto* member = std::get_if<NamespaceTarget>(&target.node)) {
    auto* const space = dynamic_cast<Namespace*>(at(member->slot, frame).object());
    if (space == nullptr) refuse("{} is no namespace, and nothing else can be changed", in_quotes(member->name->bytes));
    space->set(*this, member->attribute, std::move(value));
  } else {
    const auto& targets = std::get<std::vector<Target>>(target.node);
    const IteratorRef items = iterate(*this, value);
    for (const Target& part : targets) {
      auto item = items->next(*this);
      if (!item) refuse("there are fewer than {} values to assign", targets.size());
      assign(part, frame, std::move(*item));
    }
    if (items->next(*this)) refuse("there are more than {} values to assign", targets.size());
  }
}

Value Interpreter::make_namespace() {
  auto made = std::make_shared<Namespace>();
  made->charge = Charge(budget(), kOverhead + sizeof(Namespace));
  namespaces_.push_back(made);
  return Value(ObjectRef(std::move(made)));
}

Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) space->clear();
  for (const auto& frame : captured_) frame->slots.clear();
}

// ---- Statements

struct Execute {
  using Flow = Interpreter::Flow;
  Interpreter& in;
  const ActivationRef& frame;
  Output& out;
  const int line;

  Value eval(const ExprRef& expr) const { return in.eval(*expr, frame); }
  void here() const { in.line_ = line; }

  Flow operator()(const Data& node) const {
    out.append(node.text);
    return Flow::Next;
  }

  Flow operator()(const Print& node) const {
    const Value value = eval(node.value);
    append_str(in, value, out);
    return Flow::Next;
  }

  Flow operator()(const If& node) const {
    for (const auto& [test, body] : node.branches) {
      if (truth(eval(test))) return in.run_body(body, frame, out);
    }
    return in.run_body(node.otherwise, frame, out);
  }

  Flow operator()(const For& node) const {
    const Value items = eval(node.iterable);
    here();
    if (!node.is_recursive) return in.run_loop(node, frame, frame, items, 0, out);
    append_str(in, in.call_loop(node, frame, items, 0), out);
    return Flow::Next;
  }

  Flow operator()(const Set& node) const {
    Value value = eval(node.value);
    here();
    in.assign(node.target, frame, std::move(value));
    return Flow::Next;
  }

  Flow operator()(const SetBlock& node) const {
    Value text;
    const Flow flow = captured(node.entry, node.body, &text);
    if (flow != Flow::Next) return flow;
    in.assign(node.target, frame, node.filter == nullptr ? text : filtered(*node.filter, text));
    return Flow::Next;
  }

  Flow operator()(const FilterBlock& node) const {
    Value text;
    const Flow flow = captured(node.entry, node.body, &text);
    if (flow == Flow::Next) append_text(filtered(*node.filter, text));
    return flow;
  }

  Flow operator()(const With& node) const {
    in.enter(node.entry, frame);
    for (const auto& [target, value] : node.assignments) {
      Value evaluated = eval(value);
      here();
      in.assign(target, frame, std::move(evaluated));
    }
    return in.run_body(node.body, frame, out);
  }

  Flow operator()(const Macro& node) const {
    in.assign(node.target, frame, in.object<MacroObject>(None(), in, node.definition, frame));
    return Flow::Next;
  }

  Flow operator()(const CallBlock& node) const {
    const Value caller = in.object<MacroObject>(None(), in, node.caller, frame);
    if (node.call == nullptr) {
      append_str(in, in.call_macro(node.caller, frame, {}), out);
      return Flow::Next;
    }
    append_text(in.eval_call(std::get<Call>(node.call->node), node.call->line, frame, &caller));
    return Flow::Next;
  }

  Flow operator()(const Break&) const { return Flow::Break; }
  Flow operator()(const Continue&) const { return Flow::Continue; }

 private:
  // What a block becomes, which is not converted, unlike what is printed.
  void append_text(const Value& value) const {
    if (const Text* text = value.text()) return out.append(text->bytes);
    out.spoil({ErrorKind::Malformed, fmt::format("a block becomes a {} and not a str", type_name(value)), line});
  }

  // The text of a body that is not written out. Where the body breaks off a loop, it is lost.
  Flow captured(const ScopeEntry& entry, const Body& body, Value* text) const {
    in.enter(entry, frame);
    Output inner(in);
    const Flow flow = in.run_body(body, frame, inner);
    here();
    if (flow == Flow::Next) *text = in.text(std::move(inner).take());
    return flow;
  }

  Value filtered(const Expr& filter, const Value& text) const {
    const Value* const outer = std::exchange(in.block_text_, &text);
    Value result = in.eval(filter, frame);
    in.block_text_ = outer;
    return result;
  }
};

Interpreter::Flow Interpreter::run_body(const Body& body, const ActivationRef& frame, Output& out) {
  const Deeper deeper(*this);
  for (const Statement& statement : body) {
    spend();
    line_ = statement.line;
    const Flow flow = std::visit(Execute{*this, frame, out, statement.line}, statement.node);
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

std::string Interpreter::run(const Template& tree) {
  const ActivationRef frame = activate(tree.function, nullptr);
  enter(tree.entry, frame);
  Output out(*this);
  run_body(tree.body, frame, out);
  return std::move(out).take();
}

}  // namespace lockstep::jinja
