// Typed reads.
#include "text/json_field.h"

#include <algorithm>

#include "base/quoted.h"

namespace lockstep {

bool JsonField::has(std::string_view key) const {
  const auto found = value_.is_object() ? value_.find(key) : value_.end();
  return found != value_.end() && !found->is_null();
}

JsonField JsonField::at(std::string_view key) const {
  if (!value_.is_object()) malformed("is {}; it must be an object", found());
  const auto member = value_.find(key);
  std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  if (member == value_.end()) fail(ErrorKind::Malformed, "{}: {} is missing", file_, path);
  return {file_, std::move(path), *member};
}

std::string JsonField::string_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? string(key) : std::string(otherwise);
}

void JsonField::allow_only(std::initializer_list<std::string_view> keys) const {
  if (!value_.is_object()) malformed("is {}; it must be an object", found());
  for (const auto& [key, member] : value_.items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    fail(ErrorKind::Unsupported, "{} has {}, which is not known; the known ones are {}", where(), in_quotes(key),
         fmt::join(keys, ", "));
  }
}

std::vector<JsonField> JsonField::items() const {
  if (!value_.is_array()) malformed("is {}; it must be an array", found());
  std::vector<JsonField> items;
  for (size_t i = 0; i < value_.size(); ++i) items.emplace_back(file_, fmt::format("{}[{}]", path_, i), value_[i]);
  return items;
}

std::string JsonField::string() const {
  if (!value_.is_string()) malformed("is {}; it must be a string", found());
  return value_.get<std::string>();
}

bool JsonField::boolean() const {
  if (!value_.is_boolean()) malformed("is {}; it must be true or false", found());
  return value_.get<bool>();
}

int64_t JsonField::integer(int64_t min, int64_t max) const {
  const bool fits = value_.is_number_integer() && (!value_.is_number_unsigned() || value_.get<uint64_t>() <= INT64_MAX);
  if (!fits || value_.get<int64_t>() < min || value_.get<int64_t>() > max) {
    malformed("is {}; it must be a whole number from {} to {}", found(), min, max);
  }
  return value_.get<int64_t>();
}

void JsonField::unsupported(std::string_view known) const {
  fail(ErrorKind::Unsupported, "{} is {}, which is not known; the known ones are {}", where(), found(), known);
}

std::string JsonField::found() const {
  if (value_.is_string()) return in_quotes(value_.get_ref<const std::string&>());
  if (value_.is_object()) return "an object";
  if (value_.is_array()) return "an array";
  return value_.dump();
}

}  // namespace lockstep
