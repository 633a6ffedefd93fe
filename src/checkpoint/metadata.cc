// Typed reads of metadata: the wrong type or a value outside the range is an error that says what was found.
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "checkpoint/checkpoint.h"

namespace lockstep {
namespace {

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

std::string describe(const MetadataScalar& scalar) {
  return std::visit(Overloaded{[](bool value) { return fmt::format("the bool {}", value); },
                               [](int64_t value) { return fmt::format("the integer {}", value); },
                               [](uint64_t value) { return fmt::format("the integer {}", value); },
                               [](double value) { return fmt::format("the float {}", value); },
                               [](std::string_view value) { return fmt::format("the string {}", in_quotes(value)); }},
                    scalar);
}

std::string describe(const MetadataValue& value) {
  return std::visit(
      Overloaded{
          [](const MetadataScalar& scalar) { return describe(scalar); },
          [](const std::vector<bool>& list) { return fmt::format("an array of {} bools", list.size()); },
          [](const std::vector<int64_t>& list) { return fmt::format("an array of {} integers", list.size()); },
          [](const UnreadableList&) { return std::string("an array or object of several kinds of values"); },
          [](const std::vector<double>& list) { return fmt::format("an array of {} floats", list.size()); },
          [](const std::vector<std::string_view>& list) { return fmt::format("an array of {} strings", list.size()); }},
      value.value);
}

[[noreturn]] void fail_value(const Metadata& metadata, std::string_view key, const MetadataValue& found,
                             std::string_view wanted) {
  fail(ErrorKind::Malformed, "{}: metadata key {} is {}; it must be {}", metadata.file(), in_quotes(key),
       describe(found), wanted);
}

std::string integer_between(int64_t min, int64_t max) {
  return fmt::format("an integer from {} to {}", min, max);
}

// The value of a scalar key as T, when it is one.
template <class T>
const T* scalar_if(const MetadataValue& value) {
  const auto* scalar = std::get_if<MetadataScalar>(&value.value);
  return scalar == nullptr ? nullptr : std::get_if<T>(scalar);
}

template <class T>
std::optional<T> get_scalar(const Metadata& metadata, std::string_view key, std::string_view wanted) {
  const auto* found = metadata.find(key);
  if (found == nullptr) return std::nullopt;
  if (const auto* value = scalar_if<T>(*found)) return *value;
  fail_value(metadata, key, *found, wanted);
}

template <class T>
std::span<const T> get_array(const Metadata& metadata, std::string_view key, std::string_view wanted) {
  const auto* found = metadata.find(key);
  if (found == nullptr) return {};
  if (const auto* list = std::get_if<std::vector<T>>(&found->value)) return *list;
  fail_value(metadata, key, *found, wanted);
}

template <class T>
T require(const Metadata& metadata, std::string_view key, const std::optional<T>& value, std::string_view wanted) {
  if (!value) {
    fail(ErrorKind::NotFound, "{}: metadata key {} is missing; it must be {}", metadata.file(), in_quotes(key), wanted);
  }
  return *value;
}

}  // namespace

void Metadata::insert(std::string key, MetadataValue value) {
  const auto [place, inserted] = entries_.try_emplace(std::move(key));
  if (!inserted) {
    fail(ErrorKind::Malformed, "{}: metadata key {} is there twice; each key may be there once", file_,
         in_quotes(place->first));
  }
  place->second = std::move(value);
}

const MetadataValue* Metadata::find(std::string_view key) const {
  const auto place = entries_.find(key);
  return place == entries_.end() ? nullptr : &place->second;
}

bool Metadata::contains(std::string_view key) const {
  return find(key) != nullptr;
}

std::optional<int64_t> Metadata::get_int(std::string_view key, int64_t min, int64_t max) const {
  const auto* found = find(key);
  if (found == nullptr) return std::nullopt;
  std::optional<int64_t> value;
  if (const auto* number = scalar_if<int64_t>(*found)) value = *number;
  if (const auto* number = scalar_if<uint64_t>(*found); number != nullptr && std::in_range<int64_t>(*number)) {
    value = static_cast<int64_t>(*number);
  }
  if (!value || *value < min || *value > max) fail_value(*this, key, *found, integer_between(min, max));
  return value;
}

std::optional<double> Metadata::get_float(std::string_view key) const {
  const auto* found = find(key);
  if (found == nullptr) return std::nullopt;
  std::optional<double> value;
  if (const auto* number = scalar_if<double>(*found)) value = *number;
  if (const auto* number = scalar_if<int64_t>(*found)) value = static_cast<double>(*number);
  if (const auto* number = scalar_if<uint64_t>(*found)) value = static_cast<double>(*number);
  if (!value || !std::isfinite(*value)) fail_value(*this, key, *found, "a finite number");
  return value;
}

std::optional<bool> Metadata::get_bool(std::string_view key) const {
  return get_scalar<bool>(*this, key, "a bool");
}

std::optional<std::string_view> Metadata::get_string(std::string_view key) const {
  return get_scalar<std::string_view>(*this, key, "a string");
}

int64_t Metadata::require_int(std::string_view key, int64_t min, int64_t max) const {
  return require(*this, key, get_int(key, min, max), integer_between(min, max));
}

double Metadata::require_float(std::string_view key) const {
  return require(*this, key, get_float(key), "a finite number");
}

std::string_view Metadata::require_string(std::string_view key) const {
  return require(*this, key, get_string(key), "a string");
}

std::span<const std::string_view> Metadata::get_strings(std::string_view key) const {
  return get_array<std::string_view>(*this, key, "an array of strings");
}

std::span<const int64_t> Metadata::get_ints(std::string_view key) const {
  return get_array<int64_t>(*this, key, "an array of integers");
}

std::span<const double> Metadata::get_floats(std::string_view key) const {
  return get_array<double>(*this, key, "an array of floats");
}

std::vector<bool> Metadata::get_bools(std::string_view key) const {
  const auto* found = find(key);
  if (found == nullptr) return {};
  if (const auto* list = std::get_if<std::vector<bool>>(&found->value)) return *list;
  fail_value(*this, key, *found, "an array of bools");
}

}  // namespace lockstep
