// Methods of list, tuple and dict: those that change nothing.
#include <algorithm>
#include <array>

#include "text/jinja_methods.h"
#include "text/jinja_operators.h"

namespace lockstep::jinja {
namespace {

Value sequence_count(Runtime& runtime, const Value& self, Bound& arguments) {
  int64_t count = 0;
  for (const Value& item : self.sequence()->items) count += equal(runtime, item, arguments[0]) ? 1 : 0;
  return count;
}

Value sequence_index(Runtime& runtime, const Value& self, Bound& arguments) {
  const auto& items = self.sequence()->items;
  const auto size = static_cast<int64_t>(items.size());
  const auto place = [&](size_t i, int64_t fallback) {
    const int64_t at = arguments.integer(i, fallback);
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t stop = place(2, size);
  for (int64_t i = place(1, 0); i < stop; ++i) {
    if (equal(runtime, items[static_cast<size_t>(i)], arguments[0])) return i;
  }
  refuse("index() does not find what it looks for");
}

Value list_copy(Runtime& runtime, const Value& self, Bound&) {
  if (self.sequence()->is_tuple) refuse("a tuple has no copy()");
  return runtime.list(to_vector(runtime, self));
}

Value dict_get(Runtime& runtime, const Value& self, Bound& arguments) {
  const Value* found = find_in_dict(runtime, *self.dict(), arguments[0]);
  return found != nullptr ? *found : arguments.value_or(1, None());
}

template <DictView::Part part>
Value dict_view(Runtime&, const Value& self, Bound&) {
  return DictView{*self.get<DictRef>(), part};
}

Value dict_copy(Runtime& runtime, const Value& self, Bound&) {
  Dict copy;
  for (const auto& [key, value] : self.dict()->entries) put_in_dict(runtime, copy, key, value);
  return runtime.dict(std::move(copy));
}

}  // namespace

std::span<const Method> sequence_methods() {
  static constexpr std::array<Method, 3> kMethods{{{"count", "/ value", sequence_count},
                                                   {"index", "/ value start? stop?", sequence_index},
                                                   {"copy", "", list_copy}}};
  return kMethods;
}

std::span<const Method> dict_methods() {
  static constexpr std::array<Method, 6> kMethods{{{"get", "/ key default?", dict_get},
                                                   {"items", "", dict_view<DictView::Part::Items>},
                                                   {"keys", "", dict_view<DictView::Part::Keys>},
                                                   {"values", "", dict_view<DictView::Part::Values>},
                                                   {"copy", "", dict_copy},
                                                   {"fromkeys", "*", nullptr}}};
  return kMethods;
}

}  // namespace lockstep::jinja
