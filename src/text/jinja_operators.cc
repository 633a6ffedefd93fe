// Arithmetic, comparison, membership, dicts.
#include "text/jinja_operators.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja_numbers.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

[[noreturn]] void refuse_operands(std::string_view op, const Value& left, const Value& right) {
  if (const auto* undefined = left.get<Undefined>()) refuse("{}", describe(*undefined));
  if (const auto* undefined = right.get<Undefined>()) refuse("{}", describe(*undefined));
  refuse("'{}' cannot join a {} and a {}", op, type_name(left), type_name(right));
}

std::string_view symbol(Operator op) {
  constexpr std::string_view kSymbols[]{"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void too_large() {
  unsupported("an integer has more than 64 bits");
}

Value power_of_ints(Runtime& runtime, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) refuse("0 has no negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  if (base == 0 || base == 1) return int64_t{exponent == 0 ? 1 : base};
  if (base == -1) return int64_t{exponent % 2 == 0 ? 1 : -1};
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    runtime.spend();
    if (__builtin_mul_overflow(result, base, &result)) too_large();
  }
  return result;
}

Value arithmetic_of_ints(Runtime& runtime, Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::Add:
      if (__builtin_add_overflow(a, b, &result)) too_large();
      return result;
    case Operator::Sub:
      if (__builtin_sub_overflow(a, b, &result)) too_large();
      return result;
    case Operator::Mul:
      if (__builtin_mul_overflow(a, b, &result)) too_large();
      return result;
    case Operator::Pow:
      return power_of_ints(runtime, a, b);
    default:
      break;
  }
  if (b == 0) refuse("a division by zero");
  if (op == Operator::Div) return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
  if (b == -1) {
    if (op == Operator::Mod) return int64_t{0};
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) too_large();
    return result;
  }
  // Rounded down, where C rounds towards zero.
  const int64_t remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == Operator::Mod) return adjust ? remainder + b : remainder;
  return a / b - (adjust ? 1 : 0);
}

Value arithmetic_of_floats(Operator op, double a, double b) {
  switch (op) {
    case Operator::Add:
      return a + b;
    case Operator::Sub:
      return a - b;
    case Operator::Mul:
      return a * b;
    case Operator::Pow: {
      if (a == 0 && b < 0) refuse("0 has no negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && std::trunc(b) != b) {
        unsupported("a power of a negative number is complex");
      }
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) refuse("a power is too large");
      return result;
    }
    default:
      break;
  }
  if (b == 0) refuse("a division by zero");
  if (op == Operator::Div) return a / b;
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (op == Operator::Mod) return remainder;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

// for_html: what is not safe is escaped.
void append_escaped(Runtime& runtime, const Text& text, bool for_html, Output& out) {
  if (!for_html || text.safe) return out.append(text.bytes);
  const Charge scratch(runtime.budget(), 6 * text.bytes.size());
  out.append(escape_html(text.bytes));
}

Value join_texts(Runtime& runtime, const Text& left, const Text& right) {
  Output out(runtime);
  const bool safe = left.safe || right.safe;
  for (const Text* text : {&left, &right}) append_escaped(runtime, *text, safe, out);
  return runtime.text(std::move(out).take(), safe);
}

Value join_sequences(Runtime& runtime, const Sequence& left, const Sequence& right) {
  Items items(runtime);
  for (const Sequence* sequence : {&left, &right}) {
    for (const Value& item : sequence->items) items.push(item);
  }
  return left.is_tuple ? runtime.tuple(items.take()) : runtime.list(items.take());
}

// value * times; nothing where the value is no str, list or tuple.
std::optional<Value> repeated(Runtime& runtime, const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (const Text* text = value.text()) {
    Output out(runtime);
    out.append(count, text->bytes);
    return runtime.text(std::move(out).take(), text->safe);
  }
  if (const Sequence* sequence = value.sequence()) {
    Items items(runtime);
    for (size_t i = 0; i < count && !sequence->items.empty(); ++i) {
      for (const Value& item : sequence->items) items.push(item);
    }
    return sequence->is_tuple ? runtime.tuple(items.take()) : runtime.list(items.take());
  }
  return std::nullopt;
}

// -1, 0, 1; nothing where one is NaN.
std::optional<int> compare_numbers(const Value& left, const Value& right) {
  const auto li = as_int(left), ri = as_int(right);
  if (li && ri) return *li < *ri ? -1 : *li > *ri ? 1 : 0;
  const double l = *as_float(left), r = *as_float(right);
  if (std::isnan(l) || std::isnan(r)) return std::nullopt;
  if (li) return compare_int_float(*li, r);
  if (ri) return -compare_int_float(*ri, l);
  return l < r ? -1 : l > r ? 1 : 0;
}

bool is_number(const Value& value) {
  return value.is<bool>() || value.is<int64_t>() || value.is<double>();
}

bool equal_sequences(Runtime& runtime, const Sequence& left, const Sequence& right) {
  if (&left == &right) return true;
  if (left.is_tuple != right.is_tuple || left.items.size() != right.items.size()) return false;
  for (size_t i = 0; i < left.items.size(); ++i) {
    if (!equal(runtime, left.items[i], right.items[i])) return false;
  }
  return true;
}

bool equal_dicts(Runtime& runtime, const Dict& left, const Dict& right) {
  if (&left == &right) return true;
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [key, value] : left.entries) {
    const Value* other = find_in_dict(runtime, right, key);
    if (other == nullptr || !equal(runtime, value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  const int64_t size = left.size();
  return size == right.size() && (size == 0 || left.start == right.start) && (size < 2 || left.step == right.step);
}

// left op right for what has an order; op is one of <, <=, >, >=.
bool ordered(Runtime& runtime, Comparison op, const Value& left, const Value& right) {
  const auto holds = [op](int order) {
    switch (op) {
      case Comparison::Lt:
        return order < 0;
      case Comparison::Le:
        return order <= 0;
      case Comparison::Gt:
        return order > 0;
      default:
        return order >= 0;
    }
  };
  runtime.spend();
  if (is_number(left) && is_number(right)) {
    const auto order = compare_numbers(left, right);
    return order && holds(*order);
  }
  const Text *lt = left.text(), *rt = right.text();
  if (lt != nullptr && rt != nullptr) {
    runtime.budget().spend_bytes(std::min(lt->bytes.size(), rt->bytes.size()));
    return holds(lt->bytes.compare(rt->bytes));  // the order of UTF-8 is that of its characters
  }
  const Sequence *ls = left.sequence(), *rs = right.sequence();
  if (ls != nullptr && rs != nullptr && ls->is_tuple == rs->is_tuple) {
    const size_t common = std::min(ls->items.size(), rs->items.size());
    for (size_t i = 0; i < common; ++i) {
      if (!equal(runtime, ls->items[i], rs->items[i])) return ordered(runtime, op, ls->items[i], rs->items[i]);
    }
    const auto l = ls->items.size(), r = rs->items.size();
    return holds(l < r ? -1 : l > r ? 1 : 0);
  }
  constexpr std::string_view kSymbols[]{"==", "!=", "<", "<=", ">", ">="};
  refuse_operands(kSymbols[static_cast<size_t>(op)], left, right);
}

constexpr size_t kIndexedFrom = 8;  // entries; fewer are looked through

}  // namespace

Value binary(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  const Text *lt = left.text(), *rt = right.text();
  if (op == Operator::Mod && lt != nullptr) return percent_format(runtime, *lt, right);
  if (op == Operator::Add) {
    const Sequence *ls = left.sequence(), *rs = right.sequence();
    if (lt != nullptr && rt != nullptr) return join_texts(runtime, *lt, *rt);
    if (ls != nullptr && rs != nullptr && ls->is_tuple == rs->is_tuple) return join_sequences(runtime, *ls, *rs);
  }
  if (op == Operator::Mul) {
    const auto li = as_int(left), ri = as_int(right);
    if (ri && !li) {
      if (auto value = repeated(runtime, left, *ri)) return *value;
    }
    if (li && !ri) {
      if (auto value = repeated(runtime, right, *li)) return *value;
    }
  }
  if (!is_number(left) || !is_number(right)) {
    const bool sets = left.is<DictView>() && right.is<DictView>() && op == Operator::Sub;
    if (sets) unsupported("sets of keys are subtracted");
    refuse_operands(symbol(op), left, right);
  }
  const auto li = as_int(left), ri = as_int(right);
  if (li && ri) return arithmetic_of_ints(runtime, op, *li, *ri);
  return arithmetic_of_floats(op, *as_float(left), *as_float(right));
}

Value signed_value(bool negative, const Value& operand) {
  if (const auto* d = operand.get<double>()) return negative ? -*d : *d;
  if (const auto i = as_int(operand)) {
    if (negative && *i == INT64_MIN) too_large();
    return negative ? -*i : *i;
  }
  if (const auto* undefined = operand.get<Undefined>()) refuse("{}", describe(*undefined));
  refuse("a {} has no sign", type_name(operand));
}

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  runtime.spend();
  if (is_number(left) && is_number(right)) return compare_numbers(left, right) == 0;
  if (left.data().index() != right.data().index()) return false;
  if (const Text* text = left.text()) {
    const Text* other = right.text();
    if (text->bytes.size() != other->bytes.size()) return false;
    runtime.budget().spend_bytes(text->bytes.size());
    return text->bytes == other->bytes;
  }
  if (const Sequence* sequence = left.sequence()) return equal_sequences(runtime, *sequence, *right.sequence());
  if (const Dict* dict = left.dict()) return equal_dicts(runtime, *dict, *right.dict());
  if (const auto* range = left.get<Range>()) return equal_ranges(*range, *right.get<Range>());
  if (left.is<IteratorRef>()) return *left.get<IteratorRef>() == *right.get<IteratorRef>();
  if (left.is<ObjectRef>()) return *left.get<ObjectRef>() == *right.get<ObjectRef>();
  if (const auto* view = left.get<DictView>()) {
    if (view->part == DictView::Part::Values) return false;  // not even to itself
    unsupported("views of dicts are compared");
  }
  return true;  // None and None, undefined and undefined
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
  return ordered(runtime, Comparison::Lt, left, right);
}

bool compare(Runtime& runtime, Comparison op, const Value& left, const Value& right) {
  switch (op) {
    case Comparison::Eq:
      return equal(runtime, left, right);
    case Comparison::Ne:
      return !equal(runtime, left, right);
    case Comparison::In:
      return contains(runtime, right, left);
    case Comparison::NotIn:
      return !contains(runtime, right, left);
    default:
      return ordered(runtime, op, left, right);
  }
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  runtime.spend();
  if (const Text* text = container.text()) {
    const Text* part = item.text();
    if (part == nullptr) refuse("a {} is looked for in a str", type_name(item));
    runtime.budget().spend_bytes(text->bytes.size() + part->bytes.size());
    return find_first(text->bytes, part->bytes).has_value();
  }
  if (const Dict* dict = container.dict()) return find_in_dict(runtime, *dict, item) != nullptr;
  if (const auto* view = container.get<DictView>(); view != nullptr && view->part == DictView::Part::Keys) {
    return find_in_dict(runtime, *view->dict, item) != nullptr;
  }
  const IteratorRef items = iterate(runtime, container);
  while (const auto value = items->next(runtime)) {
    if (equal(runtime, *value, item)) return true;
  }
  return false;
}

size_t hash_of(Runtime& runtime, const Value& value) {
  runtime.spend();
  if (!is_hashable(value)) refuse("a {} cannot be a key", type_name(value));
  if (const Text* text = value.text()) {
    runtime.budget().spend_bytes(text->bytes.size());
    return std::hash<std::string_view>()(text->bytes);
  }
  if (const auto* d = value.get<double>()) {
    const bool whole = std::trunc(*d) == *d && std::fabs(*d) < 0x1p63;
    return whole ? std::hash<int64_t>()(static_cast<int64_t>(*d)) : std::hash<double>()(*d);
  }
  if (const auto i = as_int(value)) return std::hash<int64_t>()(*i);
  if (const Sequence* sequence = value.sequence()) {
    size_t hash = sequence->items.size();
    for (const Value& item : sequence->items) hash = hash * 1'000'003 + hash_of(runtime, item);
    return hash;
  }
  if (const auto* object = value.get<ObjectRef>()) return std::hash<ObjectRef>()(*object);
  return value.data().index();
}

namespace {

// Of the entry with this key; nothing where there is none.
std::optional<size_t> place_in_dict(Runtime& runtime, const Dict& dict, const Value& key) {
  if (!is_hashable(key)) refuse("a {} cannot be a key", type_name(key));
  if (dict.index.empty()) {
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (equal(runtime, dict.entries[i].first, key)) return i;
    }
    return std::nullopt;
  }
  const auto [begin, end] = dict.index.equal_range(hash_of(runtime, key));
  for (auto it = begin; it != end; ++it) {
    if (equal(runtime, dict.entries[it->second].first, key)) return it->second;
  }
  return std::nullopt;
}

}  // namespace

const Value* find_in_dict(Runtime& runtime, const Dict& dict, const Value& key) {
  const auto place = place_in_dict(runtime, dict, key);
  return place ? &dict.entries[*place].second : nullptr;
}

const Value* find_name_in_dict(Runtime& runtime, const Dict& dict, std::string_view key) {
  const auto is_key = [&](const Value& k) { return k.text() != nullptr && k.text()->bytes == key; };
  if (dict.index.empty()) {
    runtime.spend(dict.entries.size());
    for (const auto& [k, value] : dict.entries) {
      if (is_key(k)) return &value;
    }
    return nullptr;
  }
  const auto [begin, end] = dict.index.equal_range(std::hash<std::string_view>()(key));
  for (auto it = begin; it != end; ++it) {
    runtime.spend();
    if (is_key(dict.entries[it->second].first)) return &dict.entries[it->second].second;
  }
  return nullptr;
}

void put_in_dict(Runtime& runtime, Dict& dict, Value key, Value value) {
  if (const auto place = place_in_dict(runtime, dict, key)) {
    dict.entries[*place].second = std::move(value);
    return;
  }
  runtime.spend();
  dict.entries.emplace_back(std::move(key), std::move(value));
  const size_t count = dict.entries.size();
  if (count < kIndexedFrom) return;
  for (size_t i = count == kIndexedFrom ? 0 : count - 1; i < count; ++i) {
    dict.index.emplace(hash_of(runtime, dict.entries[i].first), i);
  }
}

}  // namespace lockstep::jinja
