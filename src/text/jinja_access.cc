// The parts of values: attributes, methods, items, slices; and walking over what can be walked over.
//
// A template reaches nothing that this file does not hand out. What jinja2's sandbox hides (names that begin with an
// underscore, methods that change a list or dict) is undefined here too.
#include <algorithm>
#include <array>

#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

const Method* find_method(const Value& object, std::string_view name) {
  std::span<const Method> methods;
  if (object.text() != nullptr) methods = string_methods();
  if (object.dict() != nullptr) methods = dict_methods();
  if (object.sequence() != nullptr) methods = sequence_methods();
  if (name == "copy" && object.sequence() != nullptr && object.sequence()->is_tuple) return nullptr;
  const auto found = std::ranges::find(methods, name, &Method::name);
  return found == methods.end() ? nullptr : &*found;
}

// Attributes that Python's types have and the sandbox hides.
bool is_hidden(const Value& object, std::string_view name) {
  constexpr std::array<std::string_view, 36> kOfAll{
      "__class__",    "__delattr__",      "__dir__",      "__doc__",     "__eq__",           "__format__",
      "__ge__",       "__getattribute__", "__gt__",       "__hash__",    "__init__",         "__init_subclass__",
      "__le__",       "__lt__",           "__ne__",       "__new__",     "__reduce__",       "__reduce_ex__",
      "__repr__",     "__setattr__",      "__sizeof__",   "__str__",     "__subclasshook__", "__getstate__",
      "__len__",      "__iter__",         "__contains__", "__getitem__", "__setitem__",      "__delitem__",
      "__reversed__", "__add__",          "__mul__",      "__rmul__",    "__iadd__",         "__imul__"};
  if (name.starts_with("__") && std::ranges::find(kOfAll, name) != kOfAll.end()) return true;
  constexpr std::array<std::string_view, 5> kOfDicts{"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::array<std::string_view, 8> kOfLists{"append", "clear",  "extend",  "insert",
                                                     "pop",    "remove", "reverse", "sort"};
  if (object.dict() != nullptr) return std::ranges::find(kOfDicts, name) != kOfDicts.end();
  const Sequence* sequence = object.sequence();
  return sequence != nullptr && !sequence->is_tuple && std::ranges::find(kOfLists, name) != kOfLists.end();
}

// Public attributes of numbers and the like, which templates do without.
bool is_known_attribute(const Value& object, std::string_view name) {
  constexpr std::array<std::string_view, 12> kOfNumbers{"real",        "imag",       "conjugate",        "numerator",
                                                        "denominator", "bit_length", "bit_count",        "to_bytes",
                                                        "from_bytes",  "fromhex",    "as_integer_ratio", "is_integer"};
  constexpr std::array<std::string_view, 5> kOfRanges{"start", "stop", "step", "count", "index"};
  constexpr std::array<std::string_view, 2> kOfViews{"mapping", "isdisjoint"};
  constexpr std::array<std::string_view, 6> kOfGenerators{"close",      "send",         "throw",
                                                          "gi_running", "gi_yieldfrom", "gi_suspended"};
  const auto in = [&](const auto& names) { return std::ranges::find(names, name) != names.end(); };
  if (object.is<bool>() || object.is<int64_t>()) return in(kOfNumbers) && name != "is_integer" && name != "fromhex";
  if (object.is<double>()) {
    return (in(kOfNumbers) && !name.starts_with("bit_") && !name.ends_with("ator") && !name.ends_with("_bytes")) ||
           name == "hex";
  }
  if (object.is<Range>()) return in(kOfRanges);
  if (object.is<DictView>()) return in(kOfViews);
  return object.is<IteratorRef>() && in(kOfGenerators);
}

class BoundMethod : public Object {
 public:
  BoundMethod(Value self, const Method& method) : self_(std::move(self)), method_(method) {}
  std::string_view type_name() const override { return "method"; }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override {
    Bound bound = bind(method_.name, method_.signature, std::move(arguments));
    return method_.call(runtime, self_, bound);
  }

 private:
  const Value self_;
  const Method& method_;
};

const Method& usable(const Value& object, const Method& method) {
  if (method.call == nullptr) unsupported("the method {}.{}()", type_name(object), method.name);
  return method;
}

// The attribute proper; nothing: the object has none of this name.
std::optional<Value> attribute(Runtime& runtime, const Value& object, const TextRef& name) {
  if (is_hidden(object, name->bytes)) return Value(Undefined{Undefined::Why::Unsafe, name, 0});
  if (Object* other = object.object()) {
    if (name->bytes.starts_with('_')) return Value(Undefined{Undefined::Why::Unsafe, name, 0});
    return other->attribute(runtime, name->bytes);
  }
  if (const Method* method = find_method(object, name->bytes)) {
    return runtime.object<BoundMethod>(object, object, usable(object, *method));
  }
  if (const Sequence* group = object.sequence(); group != nullptr && group->is_group) {
    if (name->bytes == "grouper") return group->items[0];
    if (name->bytes == "list") return group->items[1];
  }
  if (is_known_attribute(object, name->bytes)) unsupported("{}.{}", type_name(object), name->bytes);
  return std::nullopt;
}

// object[index] proper; nothing where Python raises TypeError or LookupError.
std::optional<Value> item(Runtime& runtime, const Value& object, const Value& index) {
  if (const Dict* dict = object.dict()) {
    const Value* found = is_hashable(index) ? find_in_dict(runtime, *dict, index) : nullptr;
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const auto number = as_int(index);
  if (!number) return std::nullopt;
  const Text* text = object.text();
  const Sequence* sequence = object.sequence();
  const Range* range = object.get<Range>();
  if (text == nullptr && sequence == nullptr && range == nullptr) return std::nullopt;
  const int64_t length = *length_of(object);
  const int64_t at = *number < 0 ? *number + length : *number;
  if (at < 0 || at >= length) return std::nullopt;
  if (sequence != nullptr) return sequence->items[static_cast<size_t>(at)];
  if (range != nullptr) return Value(range->at(at));
  if (!text->is_ascii()) runtime.budget().spend_bytes(text->bytes.size());
  const auto index_of = static_cast<size_t>(at);
  const size_t begin = text->is_ascii() ? index_of : offset_of(text->bytes, index_of);
  size_t bytes = 0;
  first_character(std::string_view(text->bytes).substr(begin), &bytes);
  return runtime.text(text->bytes.substr(begin, bytes), text->safe);
}

void refuse_undefined(const Value& object) {
  if (const auto* undefined = object.get<Undefined>()) refuse("{}", describe(*undefined));
}

// The items of a slice of something of this length: the first, where they end, the step, how many.
struct Places {
  int64_t first, stop, step, count;
};

Places places(int64_t length, const Value& start, const Value& stop, const Value& step) {
  const auto whole = [](const Value& value) -> std::optional<int64_t> {
    if (value.is<Missing>() || value.is<None>()) return std::nullopt;
    const auto number = as_int(value);
    if (!number) refuse("a slice has a {} where an int is wanted", type_name(value));
    return *number;
  };
  const int64_t by = std::max(whole(step).value_or(1), -INT64_MAX);
  if (by == 0) refuse("the step of a slice is 0");
  const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? length : length - 1;
  const auto place = [&](const Value& value, int64_t fallback) {
    const auto number = whole(value);
    if (!number) return fallback;
    return std::clamp(*number < 0 ? *number + length : *number, lowest, highest);
  };
  const int64_t from = place(start, by > 0 ? lowest : highest), to = place(stop, by > 0 ? highest : lowest);
  return {from, to, by, Range{from, to, by}.size()};
}

Value slice_text(Runtime& runtime, const Text& text, const Places& where) {
  runtime.budget().spend_bytes(text.bytes.size());
  if (where.count == 0) return runtime.text("", text.safe);
  if (where.step == 1) {
    const auto first = static_cast<size_t>(where.first), count = static_cast<size_t>(where.count);
    const std::string_view bytes = text.bytes;
    if (text.is_ascii()) return runtime.text(std::string(bytes.substr(first, count)), text.safe);
    const std::string_view rest = bytes.substr(offset_of(bytes, first));
    return runtime.text(std::string(rest.substr(0, offset_of(rest, count))), text.safe);
  }
  const Charge scratch(runtime.budget(), 5 * text.bytes.size());
  runtime.spend(static_cast<size_t>(where.count) / 4);
  std::string out;
  const std::u32string characters = to_characters(text.bytes);
  for (int64_t i = 0; i < where.count; ++i) {
    append_utf8(out, characters[static_cast<size_t>(where.first + i * where.step)]);
  }
  return runtime.text(std::move(out), text.safe);
}

// ---- Iterators

class CharacterIterator : public Iterator {
 public:
  CharacterIterator(Runtime& runtime, TextRef text)
      : Iterator(runtime, Value(text), sizeof(*this)), text_(std::move(text)) {}
  std::optional<Value> next(Runtime& runtime) override {
    if (at_ >= text_->bytes.size()) return std::nullopt;
    size_t bytes = 0;
    first_character(std::string_view(text_->bytes).substr(at_), &bytes);
    at_ += bytes;
    return runtime.text(text_->bytes.substr(at_ - bytes, bytes));
  }

 private:
  const TextRef text_;
  size_t at_ = 0;
};

// Over anything that has a size and items by number.
template <class Container, class At>
class IndexIterator : public Iterator {
 public:
  IndexIterator(Runtime& runtime, const Value& source, Container container, int64_t size, bool backwards, At at)
      : Iterator(runtime, source, sizeof(*this)),
        container_(std::move(container)),
        at_(std::move(at)),
        size_(size),
        backwards_(backwards) {}
  std::optional<Value> next(Runtime& runtime) override {
    runtime.spend();
    if (next_ >= size_) return std::nullopt;
    const int64_t index = next_++;
    return at_(runtime, container_, backwards_ ? size_ - 1 - index : index);
  }

 private:
  const Container container_;
  const At at_;
  const int64_t size_;
  const bool backwards_;
  int64_t next_ = 0;
};

template <class Container, class At>
IteratorRef by_index(Runtime& runtime, const Value& source, Container container, int64_t size, bool backwards, At at) {
  return std::make_shared<IndexIterator<Container, At>>(runtime, source, std::move(container), size, backwards,
                                                        std::move(at));
}

Value part_of(Runtime& runtime, const DictView& view, int64_t i) {
  const auto& [key, value] = view.dict->entries[static_cast<size_t>(i)];
  if (view.part == DictView::Part::Keys) return key;
  if (view.part == DictView::Part::Values) return value;
  return runtime.tuple({key, value});
}

IteratorRef iterate_in_order(Runtime& runtime, const Value& value, bool backwards) {
  const auto size = length_of(value).value_or(0);
  if (const auto* sequence = value.get<SequenceRef>()) {
    return by_index(runtime, value, *sequence, size, backwards,
                    [](Runtime&, const SequenceRef& s, int64_t i) { return s->items[static_cast<size_t>(i)]; });
  }
  if (const auto* dict = value.get<DictRef>()) {
    return by_index(runtime, value, *dict, size, backwards,
                    [](Runtime&, const DictRef& d, int64_t i) { return d->entries[static_cast<size_t>(i)].first; });
  }
  if (const auto* view = value.get<DictView>()) return by_index(runtime, value, *view, size, backwards, part_of);
  if (const auto* range = value.get<Range>()) {
    return by_index(runtime, value, *range, size, backwards,
                    [](Runtime&, const Range& r, int64_t i) { return Value(r.at(i)); });
  }
  if (value.is<Undefined>()) return iterate_over(runtime, {});
  return nullptr;
}

}  // namespace

Value get_attribute(Runtime& runtime, const Value& object, const TextRef& name) {
  runtime.spend();
  if (!is_hidden(object, name->bytes)) refuse_undefined(object);
  if (auto found = attribute(runtime, object, name)) return std::move(*found);
  if (const Dict* dict = object.dict()) {
    if (const Value* found = find_name_in_dict(runtime, *dict, name->bytes)) return *found;
  }
  return Undefined{Undefined::Why::Attribute, name, static_cast<uint8_t>(object.data().index())};
}

Value get_only_attribute(Runtime& runtime, const Value& object, const TextRef& name) {
  refuse_undefined(object);
  return attribute(runtime, object, name)
      .value_or(Undefined{Undefined::Why::Attribute, name, static_cast<uint8_t>(object.data().index())});
}

Value get_item(Runtime& runtime, const Value& object, const Value& index) {
  runtime.spend();
  refuse_undefined(object);
  if (auto found = item(runtime, object, index)) return std::move(*found);
  const auto owner = static_cast<uint8_t>(object.data().index());
  const auto* name = index.get<TextRef>();
  if (name == nullptr) return Undefined{Undefined::Why::Element, nullptr, owner};
  return attribute(runtime, object, *name).value_or(Undefined{Undefined::Why::Attribute, *name, owner});
}

Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  refuse_undefined(object);
  const Text* text = object.text();
  const Sequence* sequence = object.sequence();
  const Range* range = object.get<Range>();
  if (text == nullptr && sequence == nullptr && range == nullptr) refuse("a {} has no slices", type_name(object));
  const Places where = places(*length_of(object), start, stop, step);
  if (text != nullptr) return slice_text(runtime, *text, where);
  if (range != nullptr) {
    int64_t by = 0;
    if (__builtin_mul_overflow(range->step, where.step, &by)) unsupported("an integer has more than 64 bits");
    return Range{range->at(where.first), range->at(where.stop), by};
  }
  Items items(runtime);
  for (int64_t i = 0; i < where.count; ++i) {
    items.push(sequence->items[static_cast<size_t>(where.first + i * where.step)]);
  }
  return sequence->is_tuple ? runtime.tuple(items.take()) : runtime.list(items.take());
}

bool call_method(Runtime& runtime, const Value& object, std::string_view name, Arguments& arguments, Value* result) {
  const Method* method = find_method(object, name);
  if (method == nullptr) return false;
  runtime.spend(2);
  Bound bound = bind(name, usable(object, *method).signature, std::move(arguments));
  *result = method->call(runtime, object, bound);
  return true;
}

Value call(Runtime& runtime, const Value& callee, Arguments arguments) {
  runtime.spend(2);
  refuse_undefined(callee);
  if (Object* object = callee.object()) return object->call(runtime, std::move(arguments));
  refuse("a {} is called, which is not a function", type_name(callee));
}

bool is_iterable(const Value& value) {
  return length_of(value).has_value() || value.is<IteratorRef>();
}

IteratorRef iterate(Runtime& runtime, const Value& value) {
  runtime.spend();
  if (const auto* iterator = value.get<IteratorRef>()) return *iterator;
  if (const auto* text = value.get<TextRef>()) return std::make_shared<CharacterIterator>(runtime, *text);
  if (IteratorRef iterator = iterate_in_order(runtime, value, false)) return iterator;
  if (value.object() != nullptr && value.object()->type_name() == "LoopContext") {
    unsupported("the variable 'loop' is gone through like a list");
  }
  refuse("a {} is no sequence to go through", type_name(value));
}

IteratorRef iterate_backwards(Runtime& runtime, const Value& value) {
  if (value.text() != nullptr) {
    Items items(runtime);
    const IteratorRef characters = iterate(runtime, value);
    while (auto character = characters->next(runtime)) items.push(std::move(*character));
    std::ranges::reverse(items.values());
    return iterate_over(runtime, items.take());
  }
  return iterate_in_order(runtime, value, true);
}

IteratorRef iterate_over(Runtime& runtime, std::vector<Value> values) {
  return iterate(runtime, runtime.list(std::move(values)));
}

std::vector<Value> to_vector(Runtime& runtime, const Value& value) {
  Items items(runtime);
  const IteratorRef iterator = iterate(runtime, value);
  while (auto item = iterator->next(runtime)) items.push(std::move(*item));
  return items.take();
}

}  // namespace lockstep::jinja
