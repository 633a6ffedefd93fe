// The kinds of flags there are, each declared in one call: numbers within a range, names from a table, lists. Values
// are read strictly (the whole text, within the range) and refused with Error(Usage) that says what is allowed.
#pragma once

#include <CLI/App.hpp>
#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/quoted.h"

namespace lockstep {

template <class T>
struct Bounds {
  T min;
  T max;
};

// "0 or more", "from 1 to 4096".
template <class T>
std::string describe(Bounds<T> range);
extern template std::string describe(Bounds<int64_t>);
extern template std::string describe(Bounds<uint64_t>);
extern template std::string describe(Bounds<double>);

// The whole text as a number within the range. `flag` is for the message.
template <class T>
T parse_number(std::string_view flag, std::string_view text, Bounds<T> range);
extern template int64_t parse_number(std::string_view, std::string_view, Bounds<int64_t>);
extern template uint64_t parse_number(std::string_view, std::string_view, Bounds<uint64_t>);
extern template double parse_number(std::string_view, std::string_view, Bounds<double>);

// The pieces between the dividers: one more than there are dividers.
std::vector<std::string_view> split(std::string_view text, char divider);

// Items between commas, blanks around them ignored; with `blanks_divide`, blanks alone divide items too. An empty item
// is refused. Messages count items from 1.
template <class T>
std::vector<T> parse_list(std::string_view flag, std::string_view text, Bounds<T> range, bool blanks_divide = false);
extern template std::vector<int64_t> parse_list(std::string_view, std::string_view, Bounds<int64_t>, bool);
extern template std::vector<double> parse_list(std::string_view, std::string_view, Bounds<double>, bool);

// A name and what it stands for. Tables of choices are arrays that live as long as the program.
template <class T>
struct Choice {
  std::string_view name;
  T value;
};

template <class T>
std::string join_names(std::span<const Choice<T>> choices, std::string_view separator) {
  std::string names;
  for (const Choice<T>& choice : choices) names.append(names.empty() ? "" : separator).append(choice.name);
  return names;
}

// The value that `text` names.
template <class T>
T parse_choice(std::string_view flag, std::string_view text, std::span<const Choice<T>> choices) {
  for (const Choice<T>& choice : choices) {
    if (choice.name == text) return choice.value;
  }
  fail(ErrorKind::Usage, "{} is {}; this version has {}", flag, in_quotes(text), join_names(choices, ", "));
}

// The long name of "-n,--max-tokens", for messages.
std::string long_name(std::string_view names);

// The help of a flag, and behind it the numbers that are allowed.
template <class T>
std::string with_range(const std::string& help, Bounds<T> range) {
  return fmt::format("{} ({})", help, describe(range));
}

// Each of the following declares a flag that is read into `target`, which must outlive the parsing. The help shows the
// allowed values and, if `target` has a value when the flag is declared, that as the default.
template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& names, T& target, Bounds<T> range, const std::string& help) {
  const auto read = [&target, range, flag = long_name(names)](const std::string& text) {
    target = parse_number<T>(flag, text, range);
  };
  return app.add_option_function<std::string>(names, read, with_range(help, range))
      ->type_name("N")
      ->default_str(fmt::format("{}", target));
}

template <class T>
CLI::Option* add_number(CLI::App& app, const std::string& names, std::optional<T>& target, Bounds<T> range,
                        const std::string& help) {
  const auto read = [&target, range, flag = long_name(names)](const std::string& text) {
    target = parse_number<T>(flag, text, range);
  };
  return app.add_option_function<std::string>(names, read, with_range(help, range))->type_name("N");
}

// A list of numbers that replaces what `target` holds.
template <class T>
CLI::Option* add_list(CLI::App& app, const std::string& names, std::vector<T>& target, Bounds<T> range,
                      const std::string& help) {
  const auto read = [&target, range, flag = long_name(names)](const std::string& text) {
    target = parse_list<T>(flag, text, range);
  };
  return app.add_option_function<std::string>(names, read, with_range(help, range))->type_name("N,N,...");
}

// A flag that may be given several times, each time with one value of any characters.
template <class Read>
void add_repeatable(CLI::App& app, const std::string& name, const std::string& type, Read read,
                    const std::string& help) {
  const auto read_all = [read](const CLI::results_t& values) {
    for (const std::string& value : values) read(value);
    return true;
  };
  app.add_option(name, read_all, help)->type_name(type)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// Target: T or std::optional<T>.
template <class T, size_t N, class Target>
CLI::Option* add_choice(CLI::App& app, const std::string& names, Target& target,
                        const std::array<Choice<T>, N>& choices, const std::string& help) {
  const std::span<const Choice<T>> table(choices);
  const auto read = [&target, table, flag = long_name(names)](const std::string& text) {
    target = parse_choice(flag, text, table);
  };
  CLI::Option* option = app.add_option_function<std::string>(names, read, help)->type_name(join_names(table, "|"));
  if constexpr (std::same_as<T, Target>) {
    for (const Choice<T>& choice : choices) {
      if (choice.value == target) option->default_str(std::string(choice.name));
    }
  }
  return option;
}

}  // namespace lockstep
