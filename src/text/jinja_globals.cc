// The functions every template can call, and the objects they make.
#include <array>

#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

constexpr int64_t kMostRange = 100'000;  // jinja2's sandbox has the same

Value range(Runtime& runtime, Bound& bound) {
  const auto whole = [&](size_t i) {
    if (!as_int(bound[i])) refuse("range() is given a {}", type_name(bound[i]));
    return *as_int(bound[i]);
  };
  runtime.spend();
  Range result{0, whole(0), 1};
  if (bound.given(1)) result = {whole(0), whole(1), 1};
  if (bound.given(2)) result.step = whole(2);
  if (result.step == 0) refuse("the step of range() is 0");
  if (result.size() > kMostRange) {
    throw Failure(ErrorKind::DoesNotFit, fmt::format("range() has more than {} items", kMostRange));
  }
  return result;
}

Dict dict_of(Runtime& runtime, Bound& bound) {
  Dict result;
  if (bound.given(0)) {
    const auto* dict = bound[0].get<DictRef>();
    const IteratorRef items = iterate(runtime, dict == nullptr ? bound[0] : DictView{*dict, DictView::Part::Items});
    while (const auto item = items->next(runtime)) {
      auto pair = to_vector(runtime, *item);
      if (pair.size() != 2) refuse("dict() needs pairs");
      put_in_dict(runtime, result, std::move(pair[0]), std::move(pair[1]));
    }
  }
  for (auto& [name, value] : bound.rest().keywords) put_in_dict(runtime, result, runtime.text(name), value);
  if (!bound.rest().positional.empty()) refuse("dict() takes one dict at most");
  return result;
}

Value dict(Runtime& runtime, Bound& bound) {
  return runtime.dict(dict_of(runtime, bound));
}

[[noreturn]] Value raise_exception(Runtime& runtime, Bound& bound) {
  throw Failure(ErrorKind::Usage, fmt::format("the template refuses this: {}", one_line(str_of(runtime, bound[0]))));
}

Value strftime_now(Runtime& runtime, Bound& bound) {
  const std::string& format = bound.text(0).bytes;
  if (format.empty()) return runtime.text("");
  std::array<char, 1024> buffer;
  // The blank tells an empty result from one that does not fit.
  const size_t size = std::strftime(buffer.data(), buffer.size(), (format + " ").c_str(), &runtime.now());
  if (size == 0) throw Failure(ErrorKind::DoesNotFit, "strftime_now() makes more than 1000 characters");
  std::string text(buffer.data(), size - 1);
  if (!is_utf8(text)) refuse("strftime_now() makes what is no UTF-8");
  return runtime.text(std::move(text));
}

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(SequenceRef items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  Value next() {
    const Value item = items_->items[at_];
    at_ = (at_ + 1) % items_->items.size();
    return item;
  }
  void reset() { at_ = 0; }

 private:
  const SequenceRef items_;
  size_t at_ = 0;
};

// A method of a cycler, as a value.
class CyclerMethod : public Object {
 public:
  CyclerMethod(std::shared_ptr<Cycler> cycler, bool is_reset) : cycler_(std::move(cycler)), is_reset_(is_reset) {}
  std::string_view type_name() const override { return "method"; }
  bool is_callable() const override { return true; }
  Value call(Runtime&, Arguments arguments) override {
    bind(is_reset_ ? "reset" : "next", "", std::move(arguments));
    if (!is_reset_) return cycler_->next();
    cycler_->reset();
    return None();
  }

 private:
  const std::shared_ptr<Cycler> cycler_;
  const bool is_reset_;
};

std::optional<Value> Cycler::attribute(Runtime& runtime, std::string_view name) {
  if (name == "current") return items_->items[at_];
  if (name == "pos") return static_cast<int64_t>(at_);
  if (name == "items") return items_;
  if (name == "next" || name == "reset")
    return runtime.object<CyclerMethod>(Value(ObjectRef(shared_from_this())), shared_from_this(), name == "reset");
  return std::nullopt;
}

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  std::optional<Value> attribute(Runtime&, std::string_view name) override {
    if (name == "sep") return separator_;
    if (name == "used") return used_;
    return std::nullopt;
  }
  Value call(Runtime& runtime, Arguments arguments) override {
    bind("joiner", "", std::move(arguments));
    return std::exchange(used_, true) ? separator_ : runtime.text("");
  }

 private:
  const Value separator_;
  bool used_ = false;
};

Value cycler(Runtime& runtime, Bound& bound) {
  if (bound.rest().positional.empty()) refuse("cycler() needs something to cycle through");
  if (!bound.rest().keywords.empty()) refuse("cycler() takes no names");
  const Value items = runtime.tuple(std::move(bound.rest().positional));
  return runtime.object<Cycler>(items, *items.get<SequenceRef>());
}

Value joiner(Runtime& runtime, Bound& bound) {
  const Value separator = bound.value_or(0, runtime.text(", "));
  return runtime.object<Joiner>(separator, separator);
}

Value make_namespace(Runtime& runtime, Bound& bound) {
  const Dict names = dict_of(runtime, bound);
  const Value made = runtime.make_namespace();
  for (const auto& [name, value] : names.entries) {
    const auto* text = name.get<TextRef>();
    if (text == nullptr) unsupported("a namespace with a name that is no str");
    static_cast<Namespace*>(made.object())->set(runtime, *text, value);
  }
  return made;
}

struct Global {
  std::string_view name;
  std::string_view signature;
  Value (*call)(Runtime& runtime, Bound& arguments);
};

class GlobalFunction : public Object {
 public:
  explicit GlobalFunction(const Global& global) : global_(global) {}
  std::string_view type_name() const override { return "function"; }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override {
    if (global_.call == nullptr) unsupported("the function {}()", global_.name);
    Bound bound = bind(global_.name, global_.signature, std::move(arguments));
    return global_.call(runtime, bound);
  }
  std::optional<Value> attribute(Runtime&, std::string_view name) override {
    if (global_.name == "dict") unsupported("dict.{}", name);
    return std::nullopt;
  }

 private:
  const Global& global_;
};

}  // namespace

ObjectRef find_global(std::string_view name) {
  static constexpr std::array<Global, 8> kGlobals{{{"range", "/ start stop? step?", range},
                                                   {"dict", "/ mapping? *", dict},
                                                   {"namespace", "/ mapping? *", make_namespace},
                                                   {"raise_exception", "message", raise_exception},
                                                   {"strftime_now", "format", strftime_now},
                                                   {"cycler", "*", cycler},
                                                   {"joiner", "sep?", joiner},
                                                   {"lipsum", "*", nullptr}}};
  for (const Global& global : kGlobals) {
    if (global.name == name) return std::make_shared<GlobalFunction>(global);
  }
  return nullptr;
}

std::optional<Value> Namespace::attribute(Runtime& runtime, std::string_view name) {
  runtime.spend(1 + attributes_.size() / 8);
  for (const auto& [key, value] : attributes_) {
    if (key->bytes == name) return value;
  }
  return std::nullopt;
}

void Namespace::set(Runtime& runtime, const TextRef& name, Value value) {
  if (name->bytes.starts_with('_')) refuse("the namespace gets a name with an underscore: {}", in_quotes(name->bytes));
  runtime.spend(1 + attributes_.size() / 8);
  for (auto& [key, there] : attributes_) {
    if (key->bytes != name->bytes) continue;
    there = std::move(value);
    return;
  }
  charge.grow(2 * sizeof(Value));
  attributes_.emplace_back(name, std::move(value));
}

std::string Namespace::repr(Runtime& runtime, int depth) {
  Output out(runtime);
  out.append("<Namespace {");
  bool first = true;
  for (const auto& [key, value] : attributes_) {
    if (!std::exchange(first, false)) out.append(", ");
    append_repr(runtime, Value(key), out, depth + 1);
    out.append(": ");
    append_repr(runtime, value, out, depth + 1);
  }
  out.append("}>");
  return std::move(out).take();
}

}  // namespace lockstep::jinja
