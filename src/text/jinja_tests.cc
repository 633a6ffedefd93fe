// What can stand behind "is", and the look-up of filters and tests.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

// value % by == rest
bool has_remainder(Runtime& runtime, const Value& value, const Value& by, int64_t rest) {
  return equal(runtime, binary(runtime, Operator::Mod, value, by), rest);
}

bool is_sequence(const Value& value) {
  return value.text() != nullptr || value.sequence() != nullptr || value.dict() != nullptr || value.is<Range>() ||
         value.is<Undefined>();
}

bool is_callable(const Value& value) {
  if (const Object* object = value.object()) return object->is_callable();
  return value.is<Undefined>();
}

bool is_same(const Value& a, const Value& b) {
  if (a.is<bool>() || a.is<None>()) {
    return a.data().index() == b.data().index() && (a.is<None>() || truth(a) == truth(b));
  }
  if (a.data().index() != b.data().index()) return false;
  if (a.text() != nullptr) return a.text() == b.text();
  if (a.sequence() != nullptr) return a.sequence() == b.sequence();
  if (a.dict() != nullptr) return a.dict() == b.dict();
  if (a.object() != nullptr) return a.object() == b.object();
  if (const auto* i = a.get<int64_t>()) {
    // CPython keeps one object of each small int.
    if (*i >= -5 && *i <= 256) return *i == *b.get<int64_t>();
    unsupported("'is sameas' between ints, which need not be the same object in Python");
  }
  if (a.get<double>() != nullptr) unsupported("'is sameas' between floats");
  return false;
}

template <Comparison op>
bool compared(Runtime& runtime, Bound& arguments) {
  return compare(runtime, op, arguments[0], arguments[1]);
}

template <class T>
bool is_a(Runtime&, Bound& arguments) {
  return arguments[0].is<T>();
}

const std::vector<Test>& tests() {
  using enum Comparison;
  static const std::vector<Test> kTests{
      {"odd", "value", [](Runtime& rt, Bound& a) { return has_remainder(rt, a[0], int64_t{2}, 1); }},
      {"even", "value", [](Runtime& rt, Bound& a) { return has_remainder(rt, a[0], int64_t{2}, 0); }},
      {"divisibleby", "value num", [](Runtime& rt, Bound& a) { return has_remainder(rt, a[0], a[1], 0); }},
      {"defined", "value", [](Runtime&, Bound& a) { return !a[0].is<Undefined>(); }},
      {"undefined", "value", is_a<Undefined>},
      {"filter", "value",
       [](Runtime& rt, Bound& a) { return hash_of(rt, a[0]), a[0].text() && is_filter(a[0].text()->bytes); }},
      {"test", "value",
       [](Runtime& rt, Bound& a) { return hash_of(rt, a[0]), a[0].text() && is_test(a[0].text()->bytes); }},
      {"none", "value", is_a<None>},
      {"boolean", "value", is_a<bool>},
      {"false", "value", [](Runtime&, Bound& a) { return a[0].is<bool>() && !truth(a[0]); }},
      {"true", "value", [](Runtime&, Bound& a) { return a[0].is<bool>() && truth(a[0]); }},
      {"integer", "value", is_a<int64_t>},
      {"float", "value", is_a<double>},
      {"lower", "value", [](Runtime& rt, Bound& a) { return is_all(str_of(rt, a[0]), CharacterTest::Lower); }},
      {"upper", "value", [](Runtime& rt, Bound& a) { return is_all(str_of(rt, a[0]), CharacterTest::Upper); }},
      {"string", "value", is_a<TextRef>},
      {"mapping", "value", is_a<DictRef>},
      {"number", "value", [](Runtime&, Bound& a) { return as_float(a[0]).has_value(); }},
      {"sequence", "value", [](Runtime&, Bound& a) { return is_sequence(a[0]); }},
      {"iterable", "value", [](Runtime&, Bound& a) { return is_iterable(a[0]); }},
      {"callable", "/ obj", [](Runtime&, Bound& a) { return is_callable(a[0]); }},
      {"sameas", "value other", [](Runtime&, Bound& a) { return is_same(a[0], a[1]); }},
      {"escaped", "value", [](Runtime&, Bound& a) { return a[0].text() && a[0].text()->safe; }},
      {"in", "value seq", [](Runtime& rt, Bound& a) { return contains(rt, a[1], a[0]); }},
      {"==", "/ a b", compared<Eq>},
      {"eq", "/ a b", compared<Eq>},
      {"equalto", "/ a b", compared<Eq>},
      {"!=", "/ a b", compared<Ne>},
      {"ne", "/ a b", compared<Ne>},
      {">", "/ a b", compared<Gt>},
      {"gt", "/ a b", compared<Gt>},
      {"greaterthan", "/ a b", compared<Gt>},
      {"ge", "/ a b", compared<Ge>},
      {">=", "/ a b", compared<Ge>},
      {"<", "/ a b", compared<Lt>},
      {"lt", "/ a b", compared<Lt>},
      {"lessthan", "/ a b", compared<Lt>},
      {"<=", "/ a b", compared<Le>},
      {"le", "/ a b", compared<Le>},
  };
  return kTests;
}

const std::vector<Filter>& filters() {
  static const std::vector<Filter> kFilters = [] {
    std::vector<Filter> all = text_filters();
    for (auto&& more : {sequence_filters(), lazy_filters()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return kFilters;
}

template <class Entry>
const Entry* find(const std::vector<Entry>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

std::string_view name_of(const Value& name) {
  if (name.text() == nullptr) refuse("the name of a filter or test must be a str");
  return name.text()->bytes;
}

Arguments with_input(Value input, Arguments arguments) {
  arguments.positional.insert(arguments.positional.begin(), std::move(input));
  return arguments;
}

}  // namespace

const Filter* find_filter(std::string_view name) {
  return find(filters(), name);
}
const Test* find_test(std::string_view name) {
  return find(tests(), name);
}
bool is_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}
bool is_test(std::string_view name) {
  return find_test(name) != nullptr;
}

Value Runtime::apply(const Filter& filter, Value input, Arguments arguments) {
  spend(2);
  if (filter.apply == nullptr) unsupported("the filter '{}'", filter.name);
  Bound bound = bind(filter.name, filter.signature, with_input(std::move(input), std::move(arguments)));
  return filter.apply(*this, bound);
}

bool Runtime::apply(const Test& test, Value input, Arguments arguments) {
  spend(2);
  Bound bound = bind(test.name, test.signature, with_input(std::move(input), std::move(arguments)));
  return test.holds(*this, bound);
}

Value Runtime::apply_filter(const Value& name, const Value& input, Arguments arguments) {
  const Filter* filter = find_filter(name_of(name));
  if (filter == nullptr) refuse("there is no filter {}", in_quotes(name_of(name)));
  return apply(*filter, input, std::move(arguments));
}

bool Runtime::apply_test(const Value& name, const Value& input, Arguments arguments) {
  const Test* test = find_test(name_of(name));
  if (test == nullptr) refuse("there is no test {}", in_quotes(name_of(name)));
  return apply(*test, input, std::move(arguments));
}

}  // namespace lockstep::jinja
