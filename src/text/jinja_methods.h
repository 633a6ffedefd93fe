// The methods of Python's types, as tables.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja_runtime.h"

namespace lockstep::jinja {

// call null: Python has the attribute and templates do without it; using it is an error that says so.
struct Method {
  std::string_view name;
  std::string_view signature;  // as in bind()
  Value (*call)(Runtime& runtime, const Value& self, Bound& arguments);
};

std::span<const Method> string_methods();    // jinja_string_methods.cc
std::span<const Method> sequence_methods();  // of list and tuple
std::span<const Method> dict_methods();

}  // namespace lockstep::jinja
