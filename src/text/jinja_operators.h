// What can be done with values: operators, comparison, text of values, access to parts. Each throws Failure where
// Python raises an exception.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace lockstep::jinja {

Value binary(Runtime& runtime, Operator op, const Value& left, const Value& right);
Value signed_value(bool negative, const Value& operand);

bool equal(Runtime& runtime, const Value& left, const Value& right);
bool compare(Runtime& runtime, Comparison op, const Value& left, const Value& right);
bool less(Runtime& runtime, const Value& left, const Value& right);  // <
bool contains(Runtime& runtime, const Value& container, const Value& item);
size_t hash_of(Runtime& runtime, const Value& value);

// str(value), str(value) where it is no str yet, repr(value).
void append_str(Runtime& runtime, const Value& value, Output& out);
std::string str_of(Runtime& runtime, const Value& value);
TextRef soft_str(Runtime& runtime, const Value& value);
void append_repr(Runtime& runtime, const Value& value, Output& out, int depth = 0);
std::string repr_of(Runtime& runtime, const Value& value);

// object.name and object[index]: where there is none, the other is tried, and then it is undefined.
Value get_attribute(Runtime& runtime, const Value& object, const TextRef& name);
Value get_item(Runtime& runtime, const Value& object, const Value& index);
// The attribute alone, as the filter attr has it.
Value get_only_attribute(Runtime& runtime, const Value& object, const TextRef& name);
Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

// Calls object.name(...) for a method of a str, list, dict and so on without making a value of the method. False: it
// has no such method.
bool call_method(Runtime& runtime, const Value& object, std::string_view name, Arguments& arguments, Value* result);
Value call(Runtime& runtime, const Value& callee, Arguments arguments);

bool is_iterable(const Value& value);
IteratorRef iterate(Runtime& runtime, const Value& value);
std::vector<Value> to_vector(Runtime& runtime, const Value& value);
IteratorRef iterate_over(Runtime& runtime, std::vector<Value> values);
// reversed(value); nothing where it cannot be reversed.
IteratorRef iterate_backwards(Runtime& runtime, const Value& value);

const Value* find_in_dict(Runtime& runtime, const Dict& dict, const Value& key);
const Value* find_name_in_dict(Runtime& runtime, const Dict& dict, std::string_view key);
void put_in_dict(Runtime& runtime, Dict& dict, Value key, Value value);

// text.replace(from, to, most); most below 0: all.
Value replaced(Runtime& runtime, const Text& text, std::string_view from, std::string_view to, int64_t most);

// json.dumps
struct JsonStyle {
  bool ascii = false;
  bool sorted = false;
  std::optional<std::string> indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
void append_json(Runtime& runtime, const Value& value, const JsonStyle& style, Output& out);

// format % values, and format.format(...).
Value percent_format(Runtime& runtime, const Text& format, const Value& values);
Value brace_format(Runtime& runtime, const Text& format, const std::vector<Value>& positional, const Value& keywords);

}  // namespace lockstep::jinja
