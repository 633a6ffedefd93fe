// Filters of one value: of text, of numbers, JSON.
#include <algorithm>
#include <cmath>

#include "text/jinja_builtins.h"
#include "text/jinja_numbers.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

// The method of str of this name, on str(value).
Value string_method(Runtime& runtime, const Value& value, std::string_view name, std::vector<Value> arguments) {
  Arguments all{std::move(arguments), {}};
  Value result;
  if (!call_method(runtime, Value(soft_str(runtime, value)), name, all, &result)) {
    fail(ErrorKind::Internal, "there is no method str.{}()", name);
  }
  return result;
}

Value upper(Runtime& runtime, Bound& arguments) {
  return string_method(runtime, arguments[0], "upper", {});
}
Value lower(Runtime& runtime, Bound& arguments) {
  return string_method(runtime, arguments[0], "lower", {});
}
Value capitalize(Runtime& runtime, Bound& arguments) {
  return string_method(runtime, arguments[0], "capitalize", {});
}
Value trim(Runtime& runtime, Bound& arguments) {
  return string_method(runtime, arguments[0], "strip", {arguments.value_or(1, None())});
}
Value center(Runtime& runtime, Bound& arguments) {
  return string_method(runtime, arguments[0], "center", {arguments.value_or(1, int64_t{80})});
}

// Words begin after white space and some brackets, which is not what str.title() thinks.
Value title(Runtime& runtime, Bound& arguments) {
  const TextRef text = soft_str(runtime, arguments[0]);
  runtime.spend(text->length);
  const Charge scratch(runtime.budget(), 8 * text->bytes.size());
  const auto separates = [](char32_t c) {
    return is_space(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
  };
  Output out(runtime);
  std::string_view rest = text->bytes;
  while (!rest.empty()) {
    size_t first = 0, end = 0;
    const bool between = separates(first_character(rest, &first));
    for (size_t bytes = first; end < rest.size(); end += bytes) {
      if (separates(first_character(rest.substr(end), &bytes)) != between) break;
    }
    out.append(change_case(rest.substr(0, first), CaseOperation::Upper));
    out.append(change_case(rest.substr(first, end - first), CaseOperation::Lower));
    rest.remove_prefix(end);
  }
  return runtime.text(std::move(out).take());
}

Value string(Runtime& runtime, Bound& arguments) {
  return soft_str(runtime, arguments[0]);
}

Value replace(Runtime& runtime, Bound& arguments) {
  const TextRef text = soft_str(runtime, arguments[0]);
  const std::string from = str_of(runtime, arguments[1]), to = str_of(runtime, arguments[2]);
  const bool all = !arguments.given(3) || arguments[3].is<None>();
  const Value result = replaced(runtime, *text, from, to, all ? -1 : arguments.integer(3, -1));
  return text->safe ? runtime.text(result.text()->bytes) : result;
}

Value indent(Runtime& runtime, Bound& arguments) {
  const Text& text = arguments.text(0);
  std::string margin;
  if (const Text* given = arguments[1].text()) {
    margin = given->bytes;
  } else {
    const int64_t width = arguments.integer(1, 4);
    const Charge scratch(runtime.budget(), static_cast<size_t>(std::max<int64_t>(width, 0)));
    margin.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool blank = arguments.flag(3, false);
  Arguments none;
  Value lines;
  call_method(runtime, runtime.text(text.bytes + "\n"), "splitlines", none, &lines);
  Output out(runtime);
  if (arguments.flag(2, false)) out.append(margin);
  bool first = true;
  for (const Value& line : lines.sequence()->items) {
    const std::string& bytes = line.text()->bytes;
    if (!first) {
      out.append("\n");
      if (blank || !bytes.empty()) out.append(margin);
    }
    out.append(bytes);
    first = false;
  }
  return runtime.text(std::move(out).take(), text.safe);
}

Value truncate(Runtime& runtime, Bound& arguments) {
  const auto size = length_of(arguments[0]);
  if (!size) refuse("a {} has no length", type_name(arguments[0]));
  const Value end = arguments.value_or(3, runtime.text("..."));
  if (end.text() == nullptr) refuse("what ends a truncated text must be a str");
  const auto end_length = static_cast<int64_t>(end.text()->length);
  const int64_t length = arguments.integer(1, 255);
  const int64_t leeway = !arguments.given(4) || arguments[4].is<None>() ? 5 : arguments.integer(4, 5);
  if (length < end_length || leeway < 0) refuse("truncate() cannot make a text so short");
  if (*size <= length || *size - length <= leeway) return arguments[0];
  if (arguments[0].text() == nullptr) refuse("a {} cannot be truncated", type_name(arguments[0]));
  Value kept = slice(runtime, arguments[0], Missing(), length - end_length, Missing());
  if (!arguments.flag(2, false)) {
    const Text& text = *kept.text();
    kept = runtime.text(text.bytes.substr(0, text.bytes.rfind(' ')), text.safe);
  }
  return binary(runtime, Operator::Add, kept, end);
}

Value wordcount(Runtime& runtime, Bound& arguments) {
  const TextRef text = soft_str(runtime, arguments[0]);
  runtime.spend(text->length);
  int64_t words = 0;
  bool inside = false;
  for (std::string_view rest = text->bytes; !rest.empty();) {
    size_t bytes = 0;
    const bool word = is_word(first_character(rest, &bytes));
    words += word && !inside ? 1 : 0;
    inside = word;
    rest.remove_prefix(bytes);
  }
  return words;
}

Value format(Runtime& runtime, Bound& arguments) {
  Arguments& rest = arguments.rest();
  if (!rest.positional.empty() && !rest.keywords.empty()) refuse("format takes values or names, not both");
  const TextRef text = soft_str(runtime, arguments[0]);
  if (rest.keywords.empty()) return percent_format(runtime, *text, runtime.tuple(std::move(rest.positional)));
  Dict names;
  for (auto& [name, value] : rest.keywords) put_in_dict(runtime, names, runtime.text(name), value);
  return percent_format(runtime, *text, runtime.dict(std::move(names)));
}

Value escape(Runtime& runtime, Bound& arguments) {
  const TextRef text = soft_str(runtime, arguments[0]);
  if (text->safe) return text;
  const Charge scratch(runtime.budget(), 6 * text->bytes.size());
  return runtime.text(escape_html(text->bytes), true);
}

Value forceescape(Runtime& runtime, Bound& arguments) {
  const TextRef text = soft_str(runtime, arguments[0]);
  const Charge scratch(runtime.budget(), 6 * text->bytes.size());
  return runtime.text(escape_html(text->bytes), true);
}

Value safe(Runtime& runtime, Bound& arguments) {
  return runtime.text(str_of(runtime, arguments[0]), true);
}

void append_url(std::string_view text, bool query, Output& out) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~";
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos || (c == '/' && !query))
      out.append(std::string_view(&c, 1));
    else if (c == ' ' && query)
      out.append("+");
    else
      out.append(fmt::format("%{:02X}", static_cast<unsigned char>(c)));
  }
}

Value urlencode(Runtime& runtime, Bound& arguments) {
  const Value& value = arguments[0];
  Output out(runtime);
  runtime.spend();
  if (value.text() != nullptr || !is_iterable(value)) {
    append_url(str_of(runtime, value), false, out);
    return runtime.text(std::move(out).take());
  }
  const auto* dict = value.get<DictRef>();
  const IteratorRef items = iterate(runtime, dict == nullptr ? value : DictView{*dict, DictView::Part::Items});
  for (bool first = true; const auto item = items->next(runtime); first = false) {
    const auto pair = to_vector(runtime, *item);
    if (pair.size() != 2) refuse("urlencode() needs pairs");
    if (!first) out.append("&");
    append_url(str_of(runtime, pair[0]), true, out);
    out.append("=");
    append_url(str_of(runtime, pair[1]), true, out);
  }
  return runtime.text(std::move(out).take());
}

// ---- Numbers

[[noreturn]] void refuse_number(const Value& value) {
  if (const auto* undefined = value.get<Undefined>()) refuse("{}", describe(*undefined));
  refuse("a {} is no number", type_name(value));
}

Value to_int(Runtime&, Bound& arguments) {
  const Value& value = arguments[0];
  if (value.is<Undefined>()) refuse_number(value);
  if (const Text* text = value.text()) {
    if (const auto whole = parse_int(text->bytes, arguments.integer(2, 10))) return *whole;
    const auto number = parse_float(text->bytes);
    if (number && std::isfinite(*number)) return float_to_int(*number);
    return arguments.value_or(1, int64_t{0});
  }
  if (const auto whole = as_int(value)) return *whole;
  if (const auto* number = value.get<double>(); number != nullptr && !std::isnan(*number)) {
    return float_to_int(*number);  // Python has an error for infinity here, too
  }
  return arguments.value_or(1, int64_t{0});
}

Value to_float(Runtime&, Bound& arguments) {
  const Value& value = arguments[0];
  if (value.is<Undefined>()) refuse_number(value);
  std::optional<double> number = as_float(value);
  if (const Text* text = value.text()) number = parse_float(text->bytes);
  return number ? Value(*number) : arguments.value_or(1, 0.0);
}

Value absolute(Runtime&, Bound& arguments) {
  const Value& value = arguments[0];
  if (const auto* number = value.get<double>()) return std::fabs(*number);
  const auto whole = as_int(value);
  if (!whole) refuse_number(value);
  return *whole < 0 ? signed_value(true, value) : Value(*whole);
}

// An int, to a power of ten; halves go to the even neighbour.
Value round_int(int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return int64_t{0};
  int64_t unit = 1;
  for (; digits < 0; ++digits) unit *= 10;
  const int64_t rest = ((value % unit) + unit) % unit;
  int64_t below = 0, above = 0;
  const bool fits = !__builtin_sub_overflow(value, rest, &below) && !__builtin_add_overflow(below, unit, &above);
  if (!fits) unsupported("an integer has more than 64 bits");
  const bool odd = (below / unit) % 2 != 0;
  const bool up = rest * 2 > unit || (rest * 2 == unit && odd);
  return up ? above : below;
}

Value round(Runtime& runtime, Bound& arguments) {
  const Value& value = arguments[0];
  const int64_t digits = arguments.integer(1, 0);
  const std::string method = arguments.given(2) ? str_of(runtime, arguments[2]) : "common";
  if (method == "common") {
    if (const auto* number = value.get<double>()) return round_float(*number, digits);
    const auto whole = as_int(value);
    if (!whole) refuse_number(value);
    return round_int(*whole, digits);
  }
  if (method != "ceil" && method != "floor") refuse("round() knows common, ceil and floor");
  const Value unit = binary(runtime, Operator::Pow, int64_t{10}, digits);
  Value scaled = binary(runtime, Operator::Mul, value, unit);
  if (const auto* number = scaled.get<double>()) {
    scaled = float_to_int(method == "ceil" ? std::ceil(*number) : std::floor(*number));
  } else if (!as_int(scaled)) {
    refuse_number(value);
  }
  return binary(runtime, Operator::Div, scaled, unit);
}

Value filesizeformat(Runtime& runtime, Bound& arguments) {
  std::optional<double> bytes = as_float(arguments[0]);
  if (const Text* text = arguments[0].text()) bytes = parse_float(text->bytes);
  if (!bytes) refuse_number(arguments[0]);
  const bool binary = arguments.flag(1, false);
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return runtime.text("1 Byte");
  if (*bytes < base) return runtime.text(fmt::format("{} Bytes", float_to_int(*bytes)));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && *bytes >= unit; ++i) unit *= base;
  const char prefix = binary ? static_cast<char>(std::toupper(kPrefixes[i])) : kPrefixes[i];
  return runtime.text(fmt::format("{:.1f} {}{}B", base * *bytes / unit, prefix, binary ? "i" : ""));
}

// ---- Others

Value fallback(Runtime& runtime, Bound& arguments) {
  const bool missing = arguments[0].is<Undefined>() || (arguments.flag(2, false) && !truth(arguments[0]));
  return missing ? arguments.value_or(1, runtime.text("")) : arguments[0];
}

Value length(Runtime&, Bound& arguments) {
  if (const auto length = length_of(arguments[0])) return *length;
  if (Object* object = arguments[0].object(); object != nullptr && object->type_name() == "LoopContext") {
    unsupported("the length of a loop, but as loop.length");
  }
  refuse("a {} has no length", type_name(arguments[0]));
}

Value attr(Runtime& runtime, Bound& arguments) {
  const auto* name = arguments[1].get<TextRef>();
  if (name == nullptr) refuse("the name of an attribute must be a str");
  return get_only_attribute(runtime, arguments[0], *name);
}

Value tojson(Runtime& runtime, Bound& arguments) {
  JsonStyle style;
  style.ascii = arguments.flag(1, false);
  style.sorted = arguments.flag(4, false);
  if (arguments.given(2) && !arguments[2].is<None>()) {
    style.item_separator = std::string(1, ',');
    if (const Text* text = arguments[2].text()) {
      style.indent = text->bytes;
    } else {
      const int64_t width = std::max<int64_t>(arguments.integer(2, 0), 0);
      if (width > 1000) throw Failure(ErrorKind::DoesNotFit, "tojson() indents by more than 1000");
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
  }
  if (arguments.given(3) && !arguments[3].is<None>()) {
    const auto separators = to_vector(runtime, arguments[3]);
    if (separators.size() != 2 || separators[0].text() == nullptr || separators[1].text() == nullptr) {
      refuse("tojson() needs two strs as separators");
    }
    style.item_separator = separators[0].text()->bytes;
    style.key_separator = separators[1].text()->bytes;
  }
  Output out(runtime);
  append_json(runtime, arguments[0], style, out);
  return runtime.text(std::move(out).take());
}

}  // namespace

std::vector<Filter> text_filters() {
  return {
      {"abs", "/ x", absolute},
      {"attr", "obj name", attr},
      {"capitalize", "s", capitalize},
      {"center", "value width?", center},
      {"count", "/ obj", length},
      {"d", "value default_value? boolean?", fallback},
      {"default", "value default_value? boolean?", fallback},
      {"e", "/ s", escape},
      {"escape", "/ s", escape},
      {"filesizeformat", "value binary?", filesizeformat},
      {"float", "value default?", to_float},
      {"forceescape", "value", forceescape},
      {"format", "/ value *", format},
      {"indent", "s width? first? blank?", indent},
      {"int", "value default? base?", to_int},
      {"length", "/ obj", length},
      {"lower", "s", lower},
      {"pprint", "*", nullptr},
      {"random", "*", nullptr},
      {"replace", "s old new count?", replace},
      {"round", "value precision? method?", round},
      {"safe", "value", safe},
      {"string", "/ object", string},
      {"striptags", "*", nullptr},
      {"title", "s", title},
      {"tojson", "x ensure_ascii? indent? separators? sort_keys?", tojson},
      {"trim", "value chars?", trim},
      {"truncate", "s length? killwords? end? leeway?", truncate},
      {"upper", "s", upper},
      {"urlencode", "value", urlencode},
      {"urlize", "*", nullptr},
      {"wordcount", "s", wordcount},
      {"wordwrap", "*", nullptr},
      {"xmlattr", "*", nullptr},
  };
}

}  // namespace lockstep::jinja
