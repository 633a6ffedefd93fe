// Making values, and binding arguments.
#include "text/jinja_runtime.h"

#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
void check_nesting(int depth, int most) {
  if (depth > most) throw Failure(ErrorKind::DoesNotFit, fmt::format("values nest more than {} deep", most));
}

namespace {

int depth_with(int depth, const Value& item) {
  depth = std::max(depth, depth_of(item) + 1);
  check_nesting(depth, kMostNesting);
  return depth;
}

}  // namespace

Iterator::Iterator(Runtime& runtime, const Value& source, size_t bytes)
    : charge_(runtime.budget(), kOverhead + bytes), depth_(depth_of(source) + 1) {
  check_nesting(depth_, 2 * kMostNesting);
}

Value Runtime::text(std::string bytes, bool safe) {
  budget_.spend_bytes(bytes.size());
  spend();
  Charge charge(budget_, kOverhead + bytes.size());
  const size_t length = count_characters(bytes);
  return Value(std::make_shared<const Text>(Text{std::move(bytes), length, safe, std::move(charge)}));
}

Value Runtime::sequence(std::vector<Value> items, bool is_tuple) {
  spend(1 + items.size() / 4);
  Charge charge(budget_, kOverhead + items.size() * sizeof(Value));
  int depth = 1;
  for (const Value& item : items) depth = depth_with(depth, item);
  const bool hashable = is_tuple && std::ranges::all_of(items, is_hashable);
  return Value(std::make_shared<const Sequence>(
      Sequence{std::move(items), is_tuple, false, hashable, depth, std::move(charge)}));
}

Value Runtime::group(const Value& name, const Value& items) {
  spend();
  Charge charge(budget_, kOverhead + 2 * sizeof(Value));
  const int depth = depth_with(depth_with(1, name), items);
  return Value(std::make_shared<const Sequence>(Sequence{{name, items}, true, true, false, depth, std::move(charge)}));
}

Value Runtime::dict(Dict&& entries) {
  spend(1 + entries.entries.size() / 4);
  Charge charge(budget_, kOverhead + entries.entries.size() * 2 * sizeof(Value) + entries.index.size() * 48);
  for (const auto& [key, value] : entries.entries) {
    entries.depth = std::max(depth_with(entries.depth, key), depth_with(entries.depth, value));
  }
  entries.charge = std::move(charge);
  return Value(std::make_shared<const Dict>(std::move(entries)));
}

void Output::append(size_t count, std::string_view text) {
  if (text.empty()) return;
  budget_.spend(count);  // and bounds the product
  budget_.spend_bytes(count * text.size());
  charge_.grow(count * text.size());
  for (; count > 0; --count) bytes_ += text;
}

int64_t Bound::integer(size_t i, int64_t fallback) const {
  if (!given(i)) return fallback;
  const auto value = as_int(values_[i]);
  if (!value) refuse("a {} is given where an int is wanted", type_name(values_[i]));
  return *value;
}

const Text& Bound::text(size_t i) const {
  const Text* text = values_[i].text();
  if (text == nullptr) refuse("a {} is given where a str is wanted", type_name(values_[i]));
  return *text;
}

const Text* Bound::text_or_none(size_t i) const {
  return !given(i) || values_[i].is<None>() ? nullptr : &text(i);
}

Bound bind(std::string_view what, std::string_view signature, Arguments arguments) {
  Bound bound;
  const size_t given = arguments.positional.size();
  size_t index = 0;
  bool takes_rest = false, named = true;
  while (!signature.empty()) {
    const std::string_view word = signature.substr(0, signature.find(' '));
    signature.remove_prefix(std::min(signature.size(), word.size() + 1));
    if (word == "*") {
      takes_rest = true;
      continue;
    }
    if (word == "/") {
      named = false;
      continue;
    }
    const bool optional = word.ends_with('?');
    const std::string_view name = word.substr(0, word.size() - (optional ? 1 : 0));
    const auto keyword = std::ranges::find(arguments.keywords, name, &std::pair<std::string, Value>::first);
    const bool by_name = named && keyword != arguments.keywords.end();
    if (index < given) {
      if (by_name) refuse("{}() gets '{}' twice", what, name);
      bound.values_[index] = std::move(arguments.positional[index]);
    } else if (by_name) {
      bound.values_[index] = std::move(keyword->second);
      arguments.keywords.erase(keyword);
    } else if (!optional) {
      refuse("{}() needs '{}'", what, name);
    }
    ++index;
  }
  arguments.positional.erase(arguments.positional.begin(),
                             arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(index, given)));
  if (takes_rest) {
    bound.extra_ = std::move(arguments);
    return bound;
  }
  if (!arguments.positional.empty()) refuse("{}() takes {} arguments at most", what, index);
  if (!arguments.keywords.empty()) {
    refuse("{}() has no argument {}", what, in_quotes(arguments.keywords.front().first));
  }
  return bound;
}

}  // namespace lockstep::jinja
