// The tables of what templates can call: filters, tests, global functions.
#pragma once

#include <string_view>
#include <vector>

#include "text/jinja_runtime.h"

namespace lockstep::jinja {

// A filter's first parameter is what stands before the "|", a test's what stands before "is". apply null: jinja2 has
// it, and no chat template needs it; using it is an error that says so.
struct Filter {
  std::string_view name;
  std::string_view signature;  // as in bind()
  Value (*apply)(Runtime& runtime, Bound& arguments);
};
struct Test {
  std::string_view name;
  std::string_view signature;
  bool (*holds)(Runtime& runtime, Bound& arguments);
};

const Filter* find_filter(std::string_view name);  // null: there is none
const Test* find_test(std::string_view name);
bool is_filter(std::string_view name);
bool is_test(std::string_view name);

std::vector<Filter> text_filters();      // jinja_text_filters.cc
std::vector<Filter> sequence_filters();  // jinja_sequence_filters.cc
std::vector<Filter> lazy_filters();      // jinja_lazy_filters.cc

// "range", "namespace", "raise_exception" and so on; null: there is none. What it returns belongs to no rendering.
ObjectRef find_global(std::string_view name);

// What `{% set ns.x = ... %}` changes.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  std::string repr(Runtime& runtime, int depth) override;
  void set(Runtime& runtime, const TextRef& name, Value value);
  void clear() { attributes_.clear(); }

 private:
  std::vector<std::pair<TextRef, Value>> attributes_;
};

}  // namespace lockstep::jinja
