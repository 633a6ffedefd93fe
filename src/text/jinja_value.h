// The values of the template language: those of Python, as far as templates meet them.
//
// A Value is small and copied freely; text and containers are shared and never change after they are made. Only a
// namespace, a cycler and the like change (class Object). Containers know how deep they nest, which bounds every
// recursion over them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_budget.h"

namespace lockstep::jinja {

class Value;
class Runtime;

// A string. Python's strings are sequences of code points; here they are UTF-8 that knows its length.
struct Text {
  std::string bytes;
  size_t length = 0;  // code points
  bool safe = false;  // markupsafe's Markup: what is joined to it by + is escaped for HTML
  Charge charge;

  bool is_ascii() const { return length == bytes.size(); }
};
using TextRef = std::shared_ptr<const Text>;

// A string that belongs to no rendering: names and literals of the template. bytes are UTF-8.
TextRef make_text(std::string bytes, bool safe = false);

struct Missing {};  // a variable that nothing was assigned to; no expression has this value
struct None {};

// What is read where nothing is. It prints as nothing and is false; most other uses are errors.
struct Undefined {
  enum class Why : uint8_t { Name, Attribute, Element, Parameter, Unsafe, NoElse, Empty };
  Why why = Why::Empty;
  TextRef name;       // may be null
  uint8_t owner = 0;  // of Attribute and Element: the alternative of Value::Data that has none
};
std::string describe(const Undefined& undefined);

struct Sequence {
  std::vector<Value> items;
  bool is_tuple = false;
  bool is_group = false;     // of the filter groupby: a tuple whose items are called "grouper" and "list", too
  bool is_hashable = false;  // a tuple of what is hashable
  int depth = 1;
  Charge charge;
};
using SequenceRef = std::shared_ptr<const Sequence>;

// In order of insertion; a key is there once.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_multimap<size_t, size_t> index;  // hash -> entry; empty while the entries are few
  int depth = 1;
  Charge charge;
};
using DictRef = std::shared_ptr<const Dict>;

// What keys(), values() and items() give.
struct DictView {
  enum class Part { Keys, Values, Items };
  DictRef dict;
  Part part;
};

struct Range {
  int64_t start, stop, step;
  int64_t size() const;
  int64_t at(int64_t i) const { return start + i * step; }
};

// Gives each item once, as a Python generator does.
class Iterator {
 public:
  // source: what it walks over, which may be an iterator again. bytes: what it takes itself.
  Iterator(Runtime& runtime, const Value& source, size_t bytes);
  virtual ~Iterator() = default;
  virtual std::optional<Value> next(Runtime& runtime) = 0;
  int depth() const { return depth_; }

 private:
  const Charge charge_;
  const int depth_;
};
using IteratorRef = std::shared_ptr<Iterator>;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

// Everything else: macros, methods, global functions, namespaces, loops.
class Object {
 public:
  // Set by whoever makes one for a rendering.
  Charge charge;
  int depth = 1;

  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual std::optional<Value> attribute(Runtime& runtime, std::string_view name);
  virtual bool is_callable() const { return false; }
  virtual Value call(Runtime& runtime, Arguments arguments);
  // Python's repr(), where it is the same on every run.
  virtual std::string repr(Runtime& runtime, int depth);
};
using ObjectRef = std::shared_ptr<Object>;

template <class T, class... Alternatives>
constexpr bool is_one_of(std::variant<Alternatives...>*) {
  return (std::is_same_v<T, Alternatives> || ...);
}

class Value {
 public:
  using Data = std::variant<Missing, Undefined, None, bool, int64_t, double, TextRef, SequenceRef, DictRef, DictView,
                            Range, IteratorRef, ObjectRef>;

  Value() = default;
  // Implicit: values are written as they are. Nothing is converted on the way, as an int or a char* would be.
  template <class T>
  requires(is_one_of<std::remove_cvref_t<T>>(static_cast<Data*>(nullptr))) Value(T&& data)
      : data_(std::forward<T>(data)) {}

  template <class T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  const Data& data() const { return data_; }

  const Text* text() const { return is<TextRef>() ? get<TextRef>()->get() : nullptr; }
  const Sequence* sequence() const { return is<SequenceRef>() ? get<SequenceRef>()->get() : nullptr; }
  const Dict* dict() const { return is<DictRef>() ? get<DictRef>()->get() : nullptr; }
  Object* object() const { return is<ObjectRef>() ? get<ObjectRef>()->get() : nullptr; }

 private:
  Data data_;
};

// How many values lie inside each other: 0 where nothing is inside.
int depth_of(const Value& value);
// Python's name of the type: "str", "int", "NoneType", ...
std::string_view type_name(const Value& value);
// Can it be a key of a dict?
bool is_hashable(const Value& value);
// bool(value)
bool truth(const Value& value);
// Whole numbers; booleans are numbers too.
std::optional<int64_t> as_int(const Value& value);
// Of int, float and bool.
std::optional<double> as_float(const Value& value);
// len(value), where it has one.
std::optional<int64_t> length_of(const Value& value);

}  // namespace lockstep::jinja
