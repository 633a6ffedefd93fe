// Filters that look at a whole sequence at once.
#include <algorithm>

#include "base/function_ref.h"
#include "text/jinja_attribute_path.h"
#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

Value lowered(Runtime& runtime, const Value& value) {
  if (value.text() == nullptr) return value;
  Arguments none;
  Value result;
  call_method(runtime, value, "lower", none, &result);
  return result;
}

Value join(Runtime& runtime, Bound& arguments) {
  const std::string separator = arguments.given(1) ? str_of(runtime, arguments[1]) : "";
  const AttributePath path(runtime, arguments.value_or(2, None()));
  Output out(runtime);
  const IteratorRef items = iterate(runtime, arguments[0]);
  for (bool first = true; const auto item = items->next(runtime); first = false) {
    if (!first) out.append(separator);
    append_str(runtime, path.of(runtime, *item), out);
  }
  return runtime.text(std::move(out).take());
}

Value first(Runtime& runtime, Bound& arguments) {
  return iterate(runtime, arguments[0])->next(runtime).value_or(Undefined());
}

Value last(Runtime& runtime, Bound& arguments) {
  const IteratorRef items = iterate_backwards(runtime, arguments[0]);
  if (items == nullptr) refuse("a {} has no last item", type_name(arguments[0]));
  return items->next(runtime).value_or(Undefined());
}

Value list(Runtime& runtime, Bound& arguments) {
  return runtime.list(to_vector(runtime, arguments[0]));
}

Value reverse(Runtime& runtime, Bound& arguments) {
  const Value& value = arguments[0];
  if (value.text() != nullptr) return slice(runtime, value, Missing(), Missing(), int64_t{-1});
  if (const IteratorRef items = iterate_backwards(runtime, value)) return items;
  std::vector<Value> items = to_vector(runtime, value);
  std::ranges::reverse(items);
  return runtime.list(std::move(items));
}

// ---- Order

struct Keyed {
  Value key, item;
};

std::vector<Keyed> with_keys(Runtime& runtime, std::vector<Value> items, FunctionRef<Value(const Value&)> key_of) {
  const Charge scratch(runtime.budget(), items.size() * sizeof(Keyed));
  std::vector<Keyed> keyed;
  keyed.reserve(items.size());
  for (Value& item : items) {
    Value key = key_of(item);
    keyed.push_back({std::move(key), std::move(item)});
  }
  return keyed;
}

void sort_by_key(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
  std::ranges::stable_sort(items, [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(runtime, b.key, a.key) : less(runtime, a.key, b.key);
  });
}

Value items_of(Runtime& runtime, std::vector<Keyed> keyed) {
  Items items(runtime);
  for (Keyed& entry : keyed) items.push(std::move(entry.item));
  return runtime.list(items.take());
}

Value sort(Runtime& runtime, Bound& arguments) {
  const bool lower = !arguments.flag(2, false);
  std::vector<AttributePath> paths;
  const Value attribute = arguments.value_or(3, None());
  if (const Text* names = attribute.text()) {
    std::string_view rest = names->bytes;
    while (true) {
      const size_t comma = rest.find(',');
      runtime.spend();
      paths.emplace_back(runtime, runtime.text(std::string(rest.substr(0, comma))), lower);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.emplace_back(runtime, attribute, lower);
  }
  auto keyed = with_keys(runtime, to_vector(runtime, arguments[0]), [&](const Value& item) {
    std::vector<Value> key;
    for (const auto& path : paths) key.push_back(path.of(runtime, item));
    return runtime.list(std::move(key));
  });
  sort_by_key(runtime, keyed, arguments.flag(1, false));
  return items_of(runtime, std::move(keyed));
}

Value dictsort(Runtime& runtime, Bound& arguments) {
  const std::string by = arguments.given(2) ? str_of(runtime, arguments[2]) : "key";
  if (by != "key" && by != "value") refuse("dictsort() sorts by key or value");
  const auto* dict = arguments[0].get<DictRef>();
  if (dict == nullptr) refuse("a {} is no dict to sort", type_name(arguments[0]));
  auto keyed = with_keys(runtime, to_vector(runtime, DictView{*dict, DictView::Part::Items}), [&](const Value& item) {
    const Value& key = item.sequence()->items[by == "key" ? 0 : 1];
    return arguments.flag(1, false) ? key : lowered(runtime, key);
  });
  sort_by_key(runtime, keyed, arguments.flag(3, false));
  return items_of(runtime, std::move(keyed));
}

Value groupby(Runtime& runtime, Bound& arguments) {
  const bool lower = !arguments.flag(3, false);
  Value fallback = arguments.value_or(2, Missing());
  if (fallback.is<None>()) fallback = Missing();
  const AttributePath key(runtime, arguments[1], lower, fallback), shown(runtime, arguments[1], false, fallback);
  auto keyed =
      with_keys(runtime, to_vector(runtime, arguments[0]), [&](const Value& item) { return key.of(runtime, item); });
  sort_by_key(runtime, keyed, false);
  Items groups(runtime);
  for (size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
    Items items(runtime);
    const Value name = shown.of(runtime, keyed[begin].item);
    for (; end < keyed.size() && equal(runtime, keyed[begin].key, keyed[end].key); ++end) items.push(keyed[end].item);
    groups.push(runtime.group(name, runtime.list(items.take())));
  }
  return runtime.list(groups.take());
}

template <bool largest>
Value extreme(Runtime& runtime, Bound& arguments) {
  const AttributePath path(runtime, arguments.value_or(2, None()), !arguments.flag(1, false));
  const IteratorRef items = iterate(runtime, arguments[0]);
  std::optional<Value> best = items->next(runtime);
  if (!best) return Undefined();
  Value best_key = path.of(runtime, *best);
  while (auto item = items->next(runtime)) {
    Value key = path.of(runtime, *item);
    if (!(largest ? less(runtime, best_key, key) : less(runtime, key, best_key))) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return *best;
}

Value sum(Runtime& runtime, Bound& arguments) {
  const AttributePath path(runtime, arguments.value_or(1, None()));
  Value total = arguments.value_or(2, int64_t{0});
  if (total.text() != nullptr) refuse("sum() adds no strs");
  const IteratorRef items = iterate(runtime, arguments[0]);
  while (const auto item = items->next(runtime)) {
    total = binary(runtime, Operator::Add, total, path.of(runtime, *item));
  }
  return total;
}

}  // namespace

AttributePath::AttributePath(Runtime& runtime, const Value& attribute, bool lower_case, Value fallback)
    : lower_case_(lower_case), fallback_(std::move(fallback)) {
  if (attribute.is<None>()) return;
  const Text* names = attribute.text();
  if (names == nullptr) {
    parts_.push_back(attribute);
    return;
  }
  std::string_view rest = names->bytes;
  while (true) {
    const std::string_view name = rest.substr(0, rest.find('.'));
    runtime.spend();
    const bool digits = !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (digits && name.size() > 18) unsupported("an index has more than 64 bits");
    parts_.push_back(digits ? Value(int64_t{std::stoll(std::string(name))}) : runtime.text(std::string(name)));
    if (name.size() == rest.size()) return;
    rest.remove_prefix(name.size() + 1);
  }
}

Value AttributePath::of(Runtime& runtime, const Value& item) const {
  Value value = item;
  for (const Value& part : parts_) {
    value = get_item(runtime, value, part);
    if (!fallback_.is<Missing>() && value.is<Undefined>()) value = fallback_;
  }
  return lower_case_ ? lowered(runtime, value) : value;
}

std::vector<Filter> sequence_filters() {
  return {
      {"dictsort", "value case_sensitive? by? reverse?", dictsort},
      {"first", "seq", first},
      {"groupby", "value attribute default? case_sensitive?", groupby},
      {"join", "value d? attribute?", join},
      {"last", "seq", last},
      {"list", "value", list},
      {"max", "value case_sensitive? attribute?", extreme<true>},
      {"min", "value case_sensitive? attribute?", extreme<false>},
      {"reverse", "value", reverse},
      {"sort", "value reverse? case_sensitive? attribute?", sort},
      {"sum", "iterable attribute? start?", sum},
  };
}

}  // namespace lockstep::jinja
