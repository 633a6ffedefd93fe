// Filters that give their items one by one, each computed when it is asked for, and once.
#include <algorithm>
#include <memory>

#include "text/jinja_attribute_path.h"
#include "text/jinja_builtins.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

// An iterator whose next() is a function.
template <class Next>
class Generator : public Iterator {
 public:
  Generator(Runtime& runtime, const Value& source, Next next)
      : Iterator(runtime, source, sizeof(*this)), next_(std::move(next)) {}
  std::optional<Value> next(Runtime& runtime) override {
    if (done_) return std::nullopt;
    auto item = next_(runtime);
    done_ = !item.has_value();
    return item;
  }

 private:
  Next next_;
  bool done_ = false;
};

template <class Next>
Value lazily(Runtime& runtime, const Value& source, Next next) {
  runtime.spend();
  return IteratorRef(std::make_shared<Generator<Next>>(runtime, source, std::move(next)));
}

// What walks over a filter's input: nothing for an input that is false, as jinja2 has it.
class Input {
 public:
  explicit Input(Value value) : value_(std::move(value)) {}
  std::optional<Value> next(Runtime& runtime) {
    if (items_ == nullptr) {
      if (!truth(value_)) return std::nullopt;
      items_ = iterate(runtime, value_);
    }
    return items_->next(runtime);
  }

 private:
  Value value_;
  IteratorRef items_;
};

Value take_keyword(Arguments& arguments, std::string_view name, Value fallback) {
  for (auto it = arguments.keywords.begin(); it != arguments.keywords.end(); ++it) {
    if (it->first != name) continue;
    Value value = std::move(it->second);
    arguments.keywords.erase(it);
    return value;
  }
  return fallback;
}

Value map_attribute(Runtime& runtime, const Value& input, Arguments arguments) {
  Value attribute = take_keyword(arguments, "attribute", Missing());
  Value fallback = take_keyword(arguments, "default", Missing());
  if (fallback.is<None>()) fallback = Missing();
  return lazily(runtime, input,
                [input = Input(input), attribute, fallback, arguments = std::move(arguments),
                 path = std::optional<AttributePath>()](Runtime& rt) mutable -> std::optional<Value> {
                  const auto item = input.next(rt);
                  if (!item) return std::nullopt;
                  if (!arguments.keywords.empty())
                    refuse("map() has no argument {}", in_quotes(arguments.keywords.front().first));
                  if (!path) path.emplace(rt, attribute, false, fallback);
                  return path->of(rt, *item);
                });
}

Value map(Runtime& runtime, Bound& bound) {
  Arguments arguments = std::move(bound.rest());
  const bool by_attribute = arguments.positional.empty() &&
                            std::ranges::find(arguments.keywords, "attribute", &std::pair<std::string, Value>::first) !=
                                arguments.keywords.end();
  if (by_attribute) return map_attribute(runtime, bound[0], std::move(arguments));
  return lazily(
      runtime, bound[0],
      [input = Input(bound[0]), arguments = std::move(arguments)](Runtime& rt) mutable -> std::optional<Value> {
        const auto item = input.next(rt);
        if (!item) return std::nullopt;
        if (arguments.positional.empty()) refuse("map() needs the name of a filter");
        Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
        return rt.apply_filter(arguments.positional[0], *item, std::move(rest));
      });
}

// select, reject, selectattr, rejectattr
template <bool wanted, bool by_attribute>
Value select(Runtime& runtime, Bound& bound) {
  return lazily(
      runtime, bound[0],
      [input = Input(bound[0]), arguments = std::move(bound.rest()),
       path = std::optional<AttributePath>()](Runtime& rt) mutable -> std::optional<Value> {
        constexpr size_t kTest = by_attribute ? 1 : 0;
        while (auto item = input.next(rt)) {
          if (by_attribute && !path) {
            if (arguments.positional.empty()) refuse("the name of an attribute is missing");
            path.emplace(rt, arguments.positional[0]);
          }
          const Value tested = by_attribute ? path->of(rt, *item) : *item;
          bool holds = false;
          if (arguments.positional.size() > kTest) {
            Arguments rest{{arguments.positional.begin() + kTest + 1, arguments.positional.end()}, arguments.keywords};
            holds = rt.apply_test(arguments.positional[kTest], tested, std::move(rest));
          } else {
            holds = truth(tested);
          }
          if (holds == wanted) return item;
        }
        return std::nullopt;
      });
}

Value unique(Runtime& runtime, Bound& bound) {
  const AttributePath path(runtime, bound.value_or(2, None()), !bound.flag(1, false));
  return lazily(runtime, bound[0],
                [value = bound[0], path, items = IteratorRef(), seen = std::make_shared<Dict>(),
                 charge = std::make_shared<Charge>(runtime.budget(), 0)](Runtime& rt) mutable -> std::optional<Value> {
                  if (items == nullptr) items = iterate(rt, value);
                  while (auto item = items->next(rt)) {
                    Value key = path.of(rt, *item);
                    if (find_in_dict(rt, *seen, key) != nullptr) continue;
                    charge->grow(4 * sizeof(Value));
                    put_in_dict(rt, *seen, std::move(key), None());
                    return item;
                  }
                  return std::nullopt;
                });
}

Value items(Runtime& runtime, Bound& bound) {
  return lazily(runtime, bound[0],
                [value = bound[0], items = IteratorRef()](Runtime& rt) mutable -> std::optional<Value> {
                  if (value.is<Undefined>()) return std::nullopt;
                  const auto* dict = value.get<DictRef>();
                  if (dict == nullptr) refuse("a {} has no items", type_name(value));
                  if (items == nullptr) items = iterate(rt, DictView{*dict, DictView::Part::Items});
                  return items->next(rt);
                });
}

Value batch(Runtime& runtime, Bound& bound) {
  const Value fill = bound.value_or(2, None());
  return lazily(runtime, bound[0],
                [value = bound[0], count = bound[1], fill, items = IteratorRef(),
                 held = std::optional<Value>()](Runtime& rt) mutable -> std::optional<Value> {
                  if (items == nullptr) items = iterate(rt, value);
                  const auto size = as_float(count);
                  Items row(rt);
                  if (held) row.push(std::move(*held));
                  held.reset();
                  while (auto item = items->next(rt)) {
                    if (size && static_cast<double>(row.size()) == *size) {
                      held = std::move(item);
                      return rt.list(row.take());
                    }
                    row.push(std::move(*item));
                  }
                  if (row.size() == 0) return std::nullopt;
                  if (!fill.is<None>()) {
                    if (!size) refuse("batch() needs a number");
                    if (static_cast<double>(row.size()) < *size && !as_int(count)) refuse("batch() needs an int");
                    while (static_cast<double>(row.size()) < *size) row.push(fill);
                  }
                  return rt.list(row.take());
                });
}

Value slices(Runtime& runtime, Bound& bound) {
  const Value fill = bound.value_or(2, None());
  return lazily(runtime, bound[0],
                [value = bound[0], wanted = bound[1], fill, items = Value(), number = int64_t{0},
                 at = int64_t{0}](Runtime& rt) mutable -> std::optional<Value> {
                  if (items.is<Missing>()) items = rt.list(to_vector(rt, value));
                  const auto& all = items.sequence()->items;
                  const auto size = static_cast<int64_t>(all.size());
                  const auto count = as_int(wanted);
                  if (!count) refuse("slice() needs an int");
                  if (*count == 0) refuse("a division by zero");
                  if (number >= *count) return std::nullopt;
                  const int64_t longer = size % *count, length = size / *count + (number < longer ? 1 : 0);
                  Items row(rt);
                  for (int64_t i = 0; i < length; ++i) row.push(all[static_cast<size_t>(at + i)]);
                  if (!fill.is<None>() && number >= longer) row.push(fill);
                  at += length;
                  ++number;
                  return rt.list(row.take());
                });
}

}  // namespace

std::vector<Filter> lazy_filters() {
  return {
      {"batch", "value linecount fill_with?", batch},
      {"items", "value", items},
      {"map", "/ value *", map},
      {"reject", "/ value *", select<false, false>},
      {"rejectattr", "/ value *", select<false, true>},
      {"select", "/ value *", select<true, false>},
      {"selectattr", "/ value *", select<true, true>},
      {"slice", "value slices fill_with?", slices},
      {"unique", "value case_sensitive? attribute?", unique},
  };
}

}  // namespace lockstep::jinja
