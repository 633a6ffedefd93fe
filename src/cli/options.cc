// Strict reading of numbers and lists.
#include "cli/options.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

template <class T>
std::string describe(Range<T> range) {
  const std::string kind = std::integral<T> ? "an integer" : "a number";
  if (range.max == std::numeric_limits<T>::max()) return fmt::format("{}, {} or more", kind, range.min);
  return fmt::format("{} from {} to {}", kind, range.min, range.max);
}

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

template <class T>
T parse_number(std::string_view flag, std::string_view text, Range<T> range) {
  T value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  // Written so that NaN is outside every range.
  if (error != std::errc() || end != last || !(value >= range.min && value <= range.max)) {
    fail(ErrorKind::Usage, "{} is '{}'; it must be {}", flag, text, describe(range));
  }
  return value;
}

template <class T>
std::vector<T> parse_list(std::string_view flag, std::string_view text, Range<T> range, bool blanks_divide) {
  std::vector<T> values;
  text = trim(text);
  for (bool more = true; more;) {
    const size_t end = text.find_first_of(blanks_divide ? " \t\r\n," : ",");
    values.push_back(parse_number<T>(flag, trim(text.substr(0, end)), range));
    more = end != text.npos;
    if (!more) break;
    std::string_view rest = text.substr(end);
    if (blanks_divide) rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
    if (rest.starts_with(',')) rest.remove_prefix(1);
    text = trim(rest);
  }
  return values;
}

template int64_t parse_number(std::string_view, std::string_view, Range<int64_t>);
template uint64_t parse_number(std::string_view, std::string_view, Range<uint64_t>);
template double parse_number(std::string_view, std::string_view, Range<double>);
template std::vector<int64_t> parse_list(std::string_view, std::string_view, Range<int64_t>, bool);
template std::vector<double> parse_list(std::string_view, std::string_view, Range<double>, bool);

std::string long_name(std::string_view names) {
  return std::string(names.substr(names.rfind(',') + 1));
}

}  // namespace lockstep
