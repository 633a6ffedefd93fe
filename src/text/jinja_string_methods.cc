// The methods of Python's str. Places are counted in characters; searching is done in bytes, which finds the same.
#include <algorithm>
#include <array>

#include "base/function_ref.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

// The text of a method's str, paid for: a method may look at all of it.
const Text& text_of(Runtime& runtime, const Value& self) {
  const Text& text = *self.text();
  runtime.budget().spend_bytes(text.bytes.size());
  return text;
}

// What a method of `self` returns: safe text makes safe text.
Value like(Runtime& runtime, const Text& self, std::string_view bytes) {
  return runtime.text(std::string(bytes), self.safe);
}

std::string for_html(Runtime& runtime, const Text& self, const Text& other) {
  if (!self.safe || other.safe) return other.bytes;
  const Charge scratch(runtime.budget(), 6 * other.bytes.size());
  return escape_html(other.bytes);
}

template <CaseOperation operation>
Value with_case(Runtime& runtime, const Value& self, Bound&) {
  const Text& text = text_of(runtime, self);
  if (!text.is_ascii()) runtime.spend(text.length);
  const Charge scratch(runtime.budget(), 8 * text.bytes.size());
  return like(runtime, text, change_case(text.bytes, operation));
}

template <CharacterTest test>
Value is_text(Runtime& runtime, const Value& self, Bound&) {
  const Text& text = text_of(runtime, self);
  const Charge scratch(runtime.budget(), 4 * text.bytes.size());
  return is_all(text.bytes, test);
}

enum Side { Left = 1, Right = 2, Both = 3 };

template <Side side>
Value strip(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  std::string_view rest = text.bytes;
  const Text* chars = arguments.text_or_none(0);
  if (chars == nullptr) {
    if ((side & Left) != 0) rest = strip_left(rest);
    if ((side & Right) != 0) rest = strip_right(rest);
    return like(runtime, text, rest);
  }
  runtime.spend(chars->length);
  std::u32string wanted = to_characters(chars->bytes);
  std::ranges::sort(wanted);
  const auto goes = [&](std::string_view at, size_t* bytes) {
    return std::ranges::binary_search(wanted, first_character(at, bytes));
  };
  size_t bytes = 0;
  if ((side & Left) != 0) {
    while (!rest.empty() && goes(rest, &bytes)) rest.remove_prefix(bytes);
  }
  if ((side & Right) != 0) {
    while (!rest.empty()) {
      size_t last = rest.size() - 1;
      while (is_continuation(rest[last])) --last;
      if (!goes(rest.substr(last), &bytes)) break;
      rest = rest.substr(0, last);
    }
  }
  return like(runtime, text, rest);
}

// ---- Splitting

// Splits at white space, from the left; `most` pieces are cut off, below 0: all. What is left keeps its far end.
void split_at_space(std::string_view text, int64_t most, FunctionRef<void(std::string_view)> put) {
  text = strip_left(text);
  while (!text.empty()) {
    if (most-- == 0) return put(text);
    std::string_view rest = text;
    size_t bytes = 0;
    while (!rest.empty() && !is_space(first_character(rest, &bytes))) rest.remove_prefix(bytes);
    put(text.substr(0, text.size() - rest.size()));
    text = strip_left(rest);
  }
}

void split_at_space_backwards(std::string_view text, int64_t most, FunctionRef<void(std::string_view)> put) {
  text = strip_right(text);
  while (!text.empty()) {
    if (most-- == 0) return put(text);
    std::string_view rest = text;
    while (!rest.empty()) {
      size_t last = rest.size() - 1, bytes = 0;
      while (is_continuation(rest[last])) --last;
      if (is_space(first_character(rest.substr(last), &bytes))) break;
      rest = rest.substr(0, last);
    }
    put(text.substr(rest.size()));
    text = strip_right(rest);
  }
}

std::string_view separator(const Bound& arguments, size_t i) {
  const Text& separator = arguments.text(i);
  if (separator.bytes.empty()) refuse("the separator is empty");
  return separator.bytes;
}

Value split(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  int64_t most = arguments.integer(1, -1);
  Items pieces(runtime);
  const auto put = [&](std::string_view piece) { pieces.push(like(runtime, text, piece)); };
  if (arguments.text_or_none(0) == nullptr) {
    split_at_space(text.bytes, most, put);
    return runtime.list(pieces.take());
  }
  const std::string_view at = separator(arguments, 0);
  std::string_view rest = text.bytes;
  while (most-- != 0) {
    const auto found = find_first(rest, at);
    if (!found) break;
    runtime.budget().spend_bytes(at.size());
    put(rest.substr(0, *found));
    rest.remove_prefix(*found + at.size());
  }
  put(rest);
  return runtime.list(pieces.take());
}

Value rsplit(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  int64_t most = arguments.integer(1, -1);
  Items pieces(runtime);
  const auto put = [&](std::string_view piece) { pieces.push(like(runtime, text, piece)); };
  if (arguments.text_or_none(0) == nullptr) {
    split_at_space_backwards(text.bytes, most, put);
  } else {
    const std::string_view at = separator(arguments, 0);
    std::string_view rest = text.bytes;
    while (most-- != 0) {
      runtime.budget().spend_bytes(rest.size());
      const Charge scratch(runtime.budget(), rest.size() + at.size());
      const auto found = find_last(rest, at);
      if (!found) break;
      put(rest.substr(*found + at.size()));
      rest = rest.substr(0, *found);
    }
    put(rest);
  }
  std::ranges::reverse(pieces.values());
  return runtime.list(pieces.take());
}

Value splitlines(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const bool keep = arguments.flag(0, false);
  Items lines(runtime);
  std::string_view rest = text.bytes;
  while (!rest.empty()) {
    size_t end = 0, bytes = 0;
    while (end < rest.size() && !is_line_break(first_character(rest.substr(end), &bytes))) end += bytes;
    size_t after = end < rest.size() ? end + bytes : end;
    if (rest.substr(end).starts_with("\r\n")) after = end + 2;
    lines.push(like(runtime, text, rest.substr(0, keep ? after : end)));
    rest.remove_prefix(after);
  }
  return runtime.list(lines.take());
}

Value partition(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const std::string_view bytes = text.bytes, at = separator(arguments, 0);
  const auto found = find_first(bytes, at);
  const size_t head = found.value_or(bytes.size());
  return runtime.tuple({like(runtime, text, bytes.substr(0, head)), like(runtime, text, found ? at : ""),
                        like(runtime, text, found ? bytes.substr(head + at.size()) : "")});
}

Value rpartition(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const std::string_view bytes = text.bytes, at = separator(arguments, 0);
  const Charge scratch(runtime.budget(), bytes.size() + at.size());
  const auto found = find_last(bytes, at);
  return runtime.tuple({like(runtime, text, found ? bytes.substr(0, *found) : ""), like(runtime, text, found ? at : ""),
                        like(runtime, text, found ? bytes.substr(*found + at.size()) : bytes)});
}

// ---- Searching

// The part of a text that "start" and "stop" name, and the character it begins at; nothing where start is behind stop.
struct Window {
  std::string_view bytes;
  int64_t start;
};

std::optional<Window> window(const Text& text, const Bound& arguments, size_t i) {
  const auto length = static_cast<int64_t>(text.length);
  const auto place = [&](size_t index, int64_t fallback) {
    if (!arguments.given(index) || arguments[index].is<None>()) return fallback;
    const int64_t at = arguments.integer(index, fallback);
    return at < 0 ? std::max<int64_t>(at + length, 0) : at;
  };
  const int64_t start = place(i, 0), stop = std::min(place(i + 1, length), length);
  if (start > stop) return std::nullopt;
  const std::string_view bytes = text.bytes;
  const auto offset = [&](int64_t at) {
    return text.is_ascii() ? static_cast<size_t>(at) : offset_of(bytes, static_cast<size_t>(at));
  };
  const size_t begin = offset(start);
  return Window{bytes.substr(begin, offset(stop) - begin), start};
}

template <bool backwards, bool required>
Value find(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const Text& part = arguments.text(0);
  runtime.budget().spend_bytes(part.bytes.size());
  if (const auto where = window(text, arguments, 1)) {
    const Charge scratch(runtime.budget(), backwards ? where->bytes.size() + part.bytes.size() : 0);
    const auto found = backwards ? find_last(where->bytes, part.bytes) : find_first(where->bytes, part.bytes);
    if (found) return where->start + static_cast<int64_t>(count_characters(where->bytes.substr(0, *found)));
  }
  if (required) refuse("the part {} is not found", in_quotes(part.bytes));
  return int64_t{-1};
}

Value count(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const std::string_view part = arguments.text(0).bytes;
  const auto where = window(text, arguments, 1);
  if (!where) return int64_t{0};
  if (part.empty()) return static_cast<int64_t>(count_characters(where->bytes)) + 1;
  runtime.budget().spend_bytes(part.size());
  int64_t count = 0;
  std::string_view rest = where->bytes;
  while (const auto found = find_first(rest, part)) {
    ++count;
    rest.remove_prefix(*found + part.size());
  }
  return count;
}

template <bool at_end>
Value begins(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = *self.text();
  if (arguments.given(1)) runtime.budget().spend_bytes(text.bytes.size());
  const auto where = window(text, arguments, 1);
  const auto holds = [&](const Value& part) {
    if (part.text() == nullptr) refuse("a {} is given where a str is wanted", type_name(part));
    const std::string_view bytes = part.text()->bytes;
    runtime.spend();
    runtime.budget().spend_bytes(std::min(bytes.size(), text.bytes.size()));
    if (!where) return false;
    return at_end ? where->bytes.ends_with(bytes) : where->bytes.starts_with(bytes);
  };
  const Sequence* several = arguments[0].sequence();
  if (several == nullptr || !several->is_tuple) return holds(arguments[0]);
  return std::ranges::any_of(several->items, holds);
}

Value removeprefix(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const std::string_view part = arguments.text(0).bytes, bytes = text.bytes;
  return like(runtime, text, bytes.starts_with(part) ? bytes.substr(part.size()) : bytes);
}

Value removesuffix(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const std::string_view part = arguments.text(0).bytes, bytes = text.bytes;
  return like(runtime, text, bytes.ends_with(part) ? bytes.substr(0, bytes.size() - part.size()) : bytes);
}

// ---- Building

Value replace(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const std::string_view from = arguments.text(0).bytes;
  const std::string to = for_html(runtime, text, arguments.text(1));
  return replaced(runtime, text, from, to, arguments.integer(2, -1));
}

Value join(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  Output out(runtime);
  const IteratorRef items = iterate(runtime, arguments[0]);
  for (bool first = true; const auto item = items->next(runtime); first = false) {
    if (!first) out.append(text.bytes);
    if (text.safe)
      out.append(for_html(runtime, text, *soft_str(runtime, *item)));
    else if (item->text() != nullptr)
      out.append(item->text()->bytes);
    else
      refuse("join() finds a {} where a str is wanted", type_name(*item));
  }
  return runtime.text(std::move(out).take(), text.safe);
}

// Left and right of the text so many fills, until it has the width.
Value padded(Runtime& runtime, const Text& text, Bound& arguments, size_t left, size_t right) {
  std::string fill = " ";
  if (arguments.given(1)) fill = for_html(runtime, text, arguments.text(1));
  if (count_characters(fill) != 1) refuse("what fills a width must be one character");
  Output out(runtime);
  out.append(left, fill);
  out.append(text.bytes);
  out.append(right, fill);
  return runtime.text(std::move(out).take(), text.safe);
}

size_t missing_width(const Text& text, const Bound& arguments) {
  const int64_t width = arguments.integer(0, 0);
  return width > static_cast<int64_t>(text.length) ? static_cast<size_t>(width) - text.length : 0;
}

Value center(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const size_t missing = missing_width(text, arguments);
  // CPython puts the odd one to the left where the width is odd.
  const size_t left = missing / 2 + (missing & (text.length + missing) & 1);
  return padded(runtime, text, arguments, left, missing - left);
}

Value ljust(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  return padded(runtime, text, arguments, 0, missing_width(text, arguments));
}

Value rjust(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  return padded(runtime, text, arguments, missing_width(text, arguments), 0);
}

Value zfill(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const size_t missing = missing_width(text, arguments);
  const size_t sign = text.bytes.starts_with('-') || text.bytes.starts_with('+') ? 1 : 0;
  Output out(runtime);
  out.append(std::string_view(text.bytes).substr(0, sign));
  out.append(missing, "0");
  out.append(std::string_view(text.bytes).substr(sign));
  return runtime.text(std::move(out).take(), text.safe);
}

Value expandtabs(Runtime& runtime, const Value& self, Bound& arguments) {
  const Text& text = text_of(runtime, self);
  const int64_t size = arguments.integer(0, 8);
  Output out(runtime);
  int64_t column = 0;
  std::string_view rest = text.bytes;
  while (!rest.empty()) {
    size_t bytes = 0;
    const char32_t c = first_character(rest, &bytes);
    if (c == '\t') {
      const int64_t blanks = size > 0 ? size - column % size : 0;
      out.append(static_cast<size_t>(blanks), " ");
      column += blanks;
    } else {
      out.append(rest.substr(0, bytes));
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    rest.remove_prefix(bytes);
  }
  return runtime.text(std::move(out).take(), text.safe);
}

Value format(Runtime& runtime, const Value& self, Bound& arguments) {
  Dict names;
  for (auto& [name, value] : arguments.rest().keywords) put_in_dict(runtime, names, runtime.text(name), value);
  return brace_format(runtime, text_of(runtime, self), arguments.rest().positional, runtime.dict(std::move(names)));
}

Value format_map(Runtime& runtime, const Value& self, Bound& arguments) {
  return brace_format(runtime, text_of(runtime, self), {}, arguments[0]);
}

}  // namespace

Value replaced(Runtime& runtime, const Text& text, std::string_view from, std::string_view to, int64_t most) {
  Output out(runtime);
  std::string_view rest = text.bytes;
  runtime.budget().spend_bytes(text.bytes.size() + from.size());
  if (from.empty()) {  // between all characters
    while (most-- != 0) {
      out.append(to);
      runtime.spend();
      if (rest.empty()) break;
      size_t bytes = 0;
      first_character(rest, &bytes);
      out.append(rest.substr(0, bytes));
      rest.remove_prefix(bytes);
    }
  } else {
    while (most-- != 0) {
      const auto found = find_first(rest, from);
      if (!found) break;
      runtime.spend();
      out.append(rest.substr(0, *found));
      out.append(to);
      rest.remove_prefix(*found + from.size());
    }
  }
  out.append(rest);
  return runtime.text(std::move(out).take(), text.safe);
}

std::span<const Method> string_methods() {
  using enum CaseOperation;
  static constexpr std::array<Method, 49> kMethods{{
      {"strip", "/ chars?", strip<Both>},
      {"split", "sep? maxsplit?", split},
      {"startswith", "/ prefix start? end?", begins<false>},
      {"endswith", "/ suffix start? end?", begins<true>},
      {"replace", "/ old new count?", replace},
      {"lstrip", "/ chars?", strip<Left>},
      {"rstrip", "/ chars?", strip<Right>},
      {"upper", "", with_case<Upper>},
      {"lower", "", with_case<Lower>},
      {"title", "", with_case<Title>},
      {"capitalize", "", with_case<Capitalize>},
      {"swapcase", "", with_case<Swap>},
      {"casefold", "", with_case<Fold>},
      {"join", "/ iterable", join},
      {"format", "*", format},
      {"format_map", "/ mapping", format_map},
      {"find", "/ sub start? end?", find<false, false>},
      {"rfind", "/ sub start? end?", find<true, false>},
      {"index", "/ sub start? end?", find<false, true>},
      {"rindex", "/ sub start? end?", find<true, true>},
      {"count", "/ sub start? end?", count},
      {"rsplit", "sep? maxsplit?", rsplit},
      {"splitlines", "keepends?", splitlines},
      {"partition", "/ sep", partition},
      {"rpartition", "/ sep", rpartition},
      {"removeprefix", "/ prefix", removeprefix},
      {"removesuffix", "/ suffix", removesuffix},
      {"center", "/ width fillchar?", center},
      {"ljust", "/ width fillchar?", ljust},
      {"rjust", "/ width fillchar?", rjust},
      {"zfill", "/ width", zfill},
      {"expandtabs", "tabsize?", expandtabs},
      {"isalnum", "", is_text<CharacterTest::Alnum>},
      {"isalpha", "", is_text<CharacterTest::Alpha>},
      {"isascii", "", is_text<CharacterTest::Ascii>},
      {"isdecimal", "", is_text<CharacterTest::Decimal>},
      {"isdigit", "", is_text<CharacterTest::Digit>},
      {"isidentifier", "", is_text<CharacterTest::Identifier>},
      {"islower", "", is_text<CharacterTest::Lower>},
      {"isnumeric", "", is_text<CharacterTest::Numeric>},
      {"isprintable", "", is_text<CharacterTest::Printable>},
      {"isspace", "", is_text<CharacterTest::Space>},
      {"istitle", "", is_text<CharacterTest::Title>},
      {"isupper", "", is_text<CharacterTest::Upper>},
      {"encode", "*", nullptr},
      {"maketrans", "*", nullptr},
      {"translate", "*", nullptr},
      {"unescape", "*", nullptr},
      {"striptags", "*", nullptr},
  }};
  return kMethods;
}

}  // namespace lockstep::jinja
