// The parts of Python's data model that need no rendering: truth, length, names of types.
#include "text/jinja_value.h"

#include <array>

#include "text/jinja_unicode.h"

namespace lockstep::jinja {

TextRef make_text(std::string bytes, bool safe) {
  const size_t length = count_characters(bytes);
  return std::make_shared<const Text>(Text{std::move(bytes), length, safe, {}});
}

namespace {

// In the order of Value::Data.
constexpr std::array<std::string_view, std::variant_size_v<Value::Data>> kAlternatives{
    "Undefined", "Undefined", "None",      "bool",  "int",       "float", "str",
    "list",      "dict",      "dict view", "range", "generator", "object"};

}  // namespace

std::string describe(const Undefined& undefined) {
  const std::string name = undefined.name == nullptr ? "" : in_quotes(undefined.name->bytes);
  switch (undefined.why) {
    case Undefined::Why::Name:
      return fmt::format("{} is undefined", name);
    case Undefined::Why::Attribute:
      return fmt::format("a {} has no attribute or key {}", kAlternatives[undefined.owner], name);
    case Undefined::Why::Element:
      return fmt::format("a {} has no such element", kAlternatives[undefined.owner]);
    case Undefined::Why::Parameter:
      return fmt::format("the parameter {} was not given", name);
    case Undefined::Why::Unsafe:
      return fmt::format("the attribute {} is not for templates", name);
    case Undefined::Why::NoElse:
      return "an inline if was false and has no else";
    case Undefined::Why::Empty:
      break;
  }
  return "the sequence is empty";
}

int64_t Range::size() const {
  // In 128 bits: stop - start may not fit in 64.
  const __int128 span = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  if (span <= 0) return 0;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = (span + stride - 1) / stride;
  return count > INT64_MAX ? INT64_MAX : static_cast<int64_t>(count);
}

std::optional<Value> Object::attribute(Runtime&, std::string_view) {
  return std::nullopt;
}

Value Object::call(Runtime&, Arguments) {
  refuse("a {} is called, which is not a function", type_name());
}

std::string Object::repr(Runtime&, int) {
  unsupported("a {} is printed, whose text in Python is another on every run", type_name());
}

int depth_of(const Value& value) {
  if (const auto* sequence = value.sequence()) return sequence->depth;
  if (const auto* dict = value.dict()) return dict->depth;
  if (const auto* view = value.get<DictView>()) return view->dict->depth;
  if (const auto* iterator = value.get<IteratorRef>()) return (*iterator)->depth();
  if (const auto* object = value.object()) return object->depth;
  return 0;
}

std::string_view type_name(const Value& value) {
  struct Name {
    std::string_view operator()(const Missing&) const { return "Undefined"; }
    std::string_view operator()(const Undefined&) const { return "Undefined"; }
    std::string_view operator()(const None&) const { return "NoneType"; }
    std::string_view operator()(const bool&) const { return "bool"; }
    std::string_view operator()(const int64_t&) const { return "int"; }
    std::string_view operator()(const double&) const { return "float"; }
    std::string_view operator()(const TextRef&) const { return "str"; }
    std::string_view operator()(const SequenceRef& s) const { return s->is_tuple ? "tuple" : "list"; }
    std::string_view operator()(const DictRef&) const { return "dict"; }
    std::string_view operator()(const DictView& view) const {
      switch (view.part) {
        case DictView::Part::Keys:
          return "dict_keys";
        case DictView::Part::Values:
          return "dict_values";
        case DictView::Part::Items:
          break;
      }
      return "dict_items";
    }
    std::string_view operator()(const Range&) const { return "range"; }
    std::string_view operator()(const IteratorRef&) const { return "generator"; }
    std::string_view operator()(const ObjectRef& object) const { return object->type_name(); }
  };
  return std::visit(Name(), value.data());
}

bool is_hashable(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->is_hashable;
  if (const auto* view = value.get<DictView>()) return view->part == DictView::Part::Values;
  return !value.is<DictRef>();
}

bool truth(const Value& value) {
  if (const auto* b = value.get<bool>()) return *b;
  if (const auto* i = value.get<int64_t>()) return *i != 0;
  if (const auto* d = value.get<double>()) return *d != 0;
  if (value.is<None>() || value.is<Undefined>()) return false;
  if (const auto length = length_of(value)) return *length > 0;
  return true;
}

std::optional<int64_t> as_int(const Value& value) {
  if (const auto* i = value.get<int64_t>()) return *i;
  if (const auto* b = value.get<bool>()) return *b ? 1 : 0;
  return std::nullopt;
}

std::optional<double> as_float(const Value& value) {
  if (const auto* d = value.get<double>()) return *d;
  if (const auto i = as_int(value)) return static_cast<double>(*i);
  return std::nullopt;
}

std::optional<int64_t> length_of(const Value& value) {
  if (const auto* text = value.text()) return static_cast<int64_t>(text->length);
  if (const auto* sequence = value.sequence()) return static_cast<int64_t>(sequence->items.size());
  if (const auto* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (const auto* view = value.get<DictView>()) return static_cast<int64_t>(view->dict->entries.size());
  if (const auto* range = value.get<Range>()) return range->size();
  if (value.is<Undefined>()) return 0;
  return std::nullopt;
}

}  // namespace lockstep::jinja
