// Strict reading of numbers and lists.
#include "cli/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

template <class T>
std::string describe(Bounds<T> range) {
  if (range.max == std::numeric_limits<T>::max()) return fmt::format("{} or more", range.min);
  return fmt::format("from {} to {}", range.min, range.max);
}

template <class T>
T parse_number(std::string_view flag, std::string_view text, Bounds<T> range) {
  T value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  // Written so that NaN is outside every range.
  if (error != std::errc() || end != last || !(value >= range.min && value <= range.max)) {
    const std::string most = error == std::errc::result_out_of_range && std::integral<T> && !text.starts_with('-')
                                 ? fmt::format(" and at most {}", range.max)
                                 : "";
    fail(ErrorKind::Usage, "{} is {}; it must be {}, {}{}", flag, in_quotes(text),
         std::integral<T> ? "an integer" : "a number", describe(range), most);
  }
  return value;
}

std::vector<std::string_view> split(std::string_view text, char divider) {
  std::vector<std::string_view> pieces;
  for (size_t end = text.find(divider); end != text.npos; end = text.find(divider)) {
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  pieces.push_back(text);
  return pieces;
}

template <class T>
std::vector<T> parse_list(std::string_view flag, std::string_view text, Bounds<T> range, bool blanks_divide) {
  std::vector<T> values;
  for (std::string_view item : split(text, ',')) {
    do {  // once also for an empty item, which is refused
      item = trim(item);
      const size_t end = blanks_divide ? std::min(item.find_first_of(kBlanks), item.size()) : item.size();
      const std::string place = fmt::format("{}: item {}", flag, values.size() + 1);
      values.push_back(parse_number<T>(place, item.substr(0, end), range));
      item.remove_prefix(end);
    } while (!item.empty());
  }
  return values;
}

template std::string describe(Bounds<int64_t>);
template std::string describe(Bounds<uint64_t>);
template std::string describe(Bounds<double>);
template int64_t parse_number(std::string_view, std::string_view, Bounds<int64_t>);
template uint64_t parse_number(std::string_view, std::string_view, Bounds<uint64_t>);
template double parse_number(std::string_view, std::string_view, Bounds<double>);
template std::vector<int64_t> parse_list(std::string_view, std::string_view, Bounds<int64_t>, bool);
template std::vector<double> parse_list(std::string_view, std::string_view, Bounds<double>, bool);

std::string long_name(std::string_view names) {
  return std::string(names.substr(names.rfind(',') + 1));
}

}  // namespace lockstep
