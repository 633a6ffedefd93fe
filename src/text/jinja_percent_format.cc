// format % values: the formats of C, as Python has them.
#include <algorithm>

#include "text/jinja_format.h"
#include "text/jinja_numbers.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& values)
      : runtime_(runtime), format_(format.bytes), safe_(format.safe), values_(values), out_(runtime) {
    if (const Sequence* sequence = values.sequence(); sequence != nullptr && sequence->is_tuple) tuple_ = sequence;
  }

  Value run() {
    size_t at = 0;
    while (true) {
      const size_t percent = format_.find('%', at);
      out_.append(format_.substr(at, percent - at));
      if (percent == std::string_view::npos) break;
      at = percent + 1;
      field(&at);
    }
    // What Python takes for a mapping may stay unused.
    const bool may_remain = tuple_ == nullptr && (values_.dict() != nullptr || values_.sequence() != nullptr ||
                                                  values_.is<Range>() || values_.is<Undefined>());
    const size_t given = tuple_ != nullptr ? tuple_->items.size() : 1;
    if (used_ < given && !may_remain) refuse("not all values of a '%' are used by its format");
    return runtime_.text(std::move(out_).take(), safe_);
  }

 private:
  const Value& next() {
    if (tuple_ == nullptr) {
      if (used_++ > 0) refuse("a '%' has too few values for its format");
      return values_;
    }
    if (used_ >= tuple_->items.size()) refuse("a '%' has too few values for its format");
    return tuple_->items[used_++];
  }

  int64_t number(size_t* at) {
    if (*at >= format_.size() || format_[*at] != '*') return format_number(format_, at).value_or(0);
    ++*at;
    const Value& value = next();
    if (!as_int(value)) refuse("a '*' in a format needs an int");
    return *as_int(value);
  }

  void field(size_t* at) {
    runtime_.spend();
    const auto look = [&] { return *at < format_.size() ? format_[*at] : '\0'; };
    const Value* value = nullptr;
    if (look() == '(') {
      size_t end = *at + 1;
      for (int open = 1; end < format_.size(); ++end) {
        open += format_[end] == '(' ? 1 : format_[end] == ')' ? -1 : 0;
        if (open == 0) break;
      }
      if (end >= format_.size()) refuse("a format has a name without an end");
      const Dict* dict = values_.dict();
      if (dict == nullptr) refuse("a format with names needs a dict");
      const std::string_view key = format_.substr(*at + 1, end - *at - 1);
      value = find_name_in_dict(runtime_, *dict, key);
      if (value == nullptr) refuse("there is no value {} for a format", in_quotes(key));
      *at = end + 1;
    }
    Spec spec;
    bool left = false;
    for (bool flag = true; flag;) {
      switch (look()) {
        case '-':
          left = true;
          break;
        case '+':
          spec.sign = '+';
          break;
        case ' ':
          if (spec.sign != '+') spec.sign = ' ';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          spec.zero = true;
          break;
        default:
          flag = false;
      }
      if (flag) ++*at;
    }
    spec.field.width = number(at);
    if (spec.field.width < 0) {
      left = true;
      spec.field.width = std::min(-spec.field.width, kMostWidth);
    }
    if (look() == '.') {
      ++*at;
      spec.precision = std::max<int64_t>(number(at), 0);
    }
    if (look() == 'h' || look() == 'l' || look() == 'L') ++*at;
    const char type = look();
    ++*at;
    if (type == '%') return out_.append("%");
    if (value == nullptr && type != 0) value = &next();
    if (left) spec.zero = false;
    spec.field.align = left ? '<' : '>';
    spec.has_align = left;
    conversion(type, spec, value);
  }

  void conversion(char type, Spec spec, const Value* value) {
    switch (type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text = type == 's' ? str_of(runtime_, *value) : repr_of(runtime_, *value);
        if (type == 'a') unsupported("the format '%a'");
        const bool safe = value->text() != nullptr && value->text()->safe && type == 's';
        if (safe_ && !safe) text = escape_html(text);
        std::string_view shown = text;
        if (spec.precision) shown = shown.substr(0, offset_of(shown, static_cast<size_t>(*spec.precision)));
        return append_padded("", shown, spec.field, out_);
      }
      case 'c': {
        const Text* text = value->text();
        if (text != nullptr && text->length != 1) refuse("'%c' needs one character");
        if (text != nullptr) return append_padded("", text->bytes, spec.field, out_);
        const auto number = as_int(*value);
        if (!number || *number < 0 || *number > 0x10FFFF || (*number >= 0xD800 && *number < 0xE000)) {
          refuse("'%c' needs a character or the number of one");
        }
        std::string character;
        append_utf8(character, static_cast<char32_t>(*number));
        return append_padded("", character, spec.field, out_);
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return whole_number(type, spec, *value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        const auto number = as_float(*value);
        if (!number) refuse_number(*value);
        spec.type = type;
        return append_float(spec, *number, out_);
      }
      default:
        refuse("a format cannot be read at '%{}'", type);
    }
  }

  void whole_number(char type, const Spec& spec, const Value& value) {
    auto number = as_int(value);
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (const auto* d = value.get<double>(); d != nullptr && decimal) number = float_to_int(*d);
    if (!number) refuse_number(value);
    const int base = decimal ? 10 : type == 'o' ? 8 : 16;
    std::string digits = int_digits(magnitude(*number), base, type == 'X');
    if (spec.precision) {
      if (*spec.precision > kMostPrecision) unsupported("a precision above {}", kMostPrecision);
      const auto wanted = static_cast<size_t>(*spec.precision);
      if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
    }
    std::string prefix(sign_of(spec, *number < 0));
    if (spec.alternate && !decimal) prefix += type == 'o' ? "0o" : type == 'x' ? "0x" : "0X";
    FieldWidth field = spec.field;
    if (spec.zero) {
      field.align = '=';
      field.fill = '0';
    }
    append_padded(prefix, digits, field, out_);
  }

  [[noreturn]] static void refuse_number(const Value& value) {
    if (const auto* undefined = value.get<Undefined>()) refuse("{}", describe(*undefined));
    refuse("a format wants a number and finds a {}", type_name(value));
  }

  Runtime& runtime_;
  const std::string_view format_;
  const bool safe_;
  const Value& values_;
  const Sequence* tuple_ = nullptr;
  size_t used_ = 0;
  Output out_;
};

}  // namespace

Value percent_format(Runtime& runtime, const Text& format, const Value& values) {
  return PercentFormatter(runtime, format, values).run();
}

}  // namespace lockstep::jinja
