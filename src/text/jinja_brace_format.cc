// "{} and {name}".format(...), with jinja2's rules for attributes.
#include <algorithm>

#include "text/jinja_format.h"
#include "text/jinja_numbers.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, bool safe, const std::vector<Value>& positional, const Value& names)
      : runtime_(runtime), safe_(safe), positional_(positional), names_(names) {}

  void run(std::string_view format, int depth, Output& out) {
    if (depth < 0) refuse("the fields of a format nest too deeply");
    size_t at = 0;
    while (at < format.size()) {
      const size_t brace = format.find_first_of("{}", at);
      out.append(format.substr(at, brace - at));
      if (brace == std::string_view::npos) return;
      const bool doubled = brace + 1 < format.size() && format[brace + 1] == format[brace];
      if (doubled) {
        out.append(format.substr(brace, 1));
        at = brace + 2;
        continue;
      }
      if (format[brace] == '}') refuse("a format has a '}}' that closes nothing");
      size_t end = brace + 1;
      for (int open = 1; end < format.size(); ++end) {
        open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
        if (open == 0) break;
      }
      if (end >= format.size()) refuse("a format has a '{{' without an end");
      field(format.substr(brace + 1, end - brace - 1), depth, out);
      at = end + 1;
    }
  }

 private:
  void field(std::string_view field, int depth, Output& out) {
    runtime_.spend();
    // The name ends at "!" or ":", but not inside "[...]".
    size_t end = 0;
    for (bool inside = false; end < field.size(); ++end) {
      if (field[end] == '[') inside = true;
      if (field[end] == ']') inside = false;
      if (field[end] == '{') refuse("a format has a '{{' in the name of a field");
      if (!inside && (field[end] == '!' || field[end] == ':')) break;
    }
    Value value = look_up(field.substr(0, end));
    std::string_view rest = field.substr(end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) refuse("a format has a '!' that cannot be read");
      value = converted(rest[1], value);
      rest.remove_prefix(2);
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    Output spec(runtime_);
    run(rest, depth - 1, spec);
    const bool is_safe = value.text() != nullptr && value.text()->safe;
    if (safe_ && is_safe && spec.size() > 0) refuse("safe text takes no format");
    Output shown(runtime_);
    append_formatted(runtime_, value, spec.bytes(), shown);
    out.append(safe_ && !is_safe ? escape_html(shown.bytes()) : shown.bytes());
  }

  Value converted(char kind, const Value& value) {
    if (kind == 's') return runtime_.text(str_of(runtime_, value));
    if (kind == 'r') return runtime_.text(repr_of(runtime_, value));
    if (kind == 'a') unsupported("the conversion '!a' of a format");
    refuse("the conversion '!{}' of a format is not known", kind);
  }

  Value look_up(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first_part(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      if (name[0] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", 1), name.size());
        if (stop == 1) refuse("a format has an empty attribute");
        value = get_attribute(runtime_, value, make_text(std::string(name.substr(1, stop - 1))));
        name.remove_prefix(stop);
      } else if (name[0] == '[') {
        const size_t stop = name.find(']');
        if (stop == std::string_view::npos || stop == 1) refuse("a format has an index that cannot be read");
        const std::string_view index = name.substr(1, stop - 1);
        const auto number = as_index(index);
        value = get_item(runtime_, value, number ? Value(*number) : runtime_.text(std::string(index)));
        name.remove_prefix(stop + 1);
      } else {
        refuse("a format has something behind ']' that cannot be read");
      }
    }
    return value;
  }

  // Digits alone are a number.
  static std::optional<int64_t> as_index(std::string_view text) {
    size_t at = 0;
    const auto number = format_number(text, &at);
    return at == text.size() ? number : std::nullopt;
  }

  Value first_part(std::string_view name) {
    auto index = as_index(name);
    if (name.empty()) {
      if (numbered_ == Numbered::ByHand) refuse("a format mixes numbered fields and fields without a number");
      numbered_ = Numbered::Automatic;
      index = next_++;
    } else if (index) {
      if (numbered_ == Numbered::Automatic) refuse("a format mixes numbered fields and fields without a number");
      numbered_ = Numbered::ByHand;
    }
    if (index) {
      if (*index >= static_cast<int64_t>(positional_.size())) refuse("a format has no value number {}", *index);
      return positional_[static_cast<size_t>(*index)];
    }
    const Dict* dict = names_.dict();
    if (dict == nullptr) refuse("format_map() needs a dict");
    const Value* value = find_name_in_dict(runtime_, *dict, name);
    if (value == nullptr) refuse("a format has no value {}", in_quotes(name));
    return *value;
  }

  Runtime& runtime_;
  const bool safe_;
  const std::vector<Value>& positional_;
  const Value& names_;
  enum class Numbered { NotYet, Automatic, ByHand } numbered_ = Numbered::NotYet;
  int64_t next_ = 0;
};

}  // namespace

Value brace_format(Runtime& runtime, const Text& format, const std::vector<Value>& positional, const Value& keywords) {
  Output out(runtime);
  BraceFormatter(runtime, format.safe, positional, keywords).run(format.bytes, 2, out);
  return runtime.text(std::move(out).take(), format.safe);
}

}  // namespace lockstep::jinja
