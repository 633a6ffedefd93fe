// Flattening config.json, and reading the index.
#include "checkpoint/hf_config.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "checkpoint/json_reader.h"

namespace lockstep {
namespace {

constexpr uint64_t kKeyMemory = 192;    // a map node and what the allocator adds
constexpr uint64_t kStringMemory = 64;  // a string and what the allocator adds
constexpr std::string_view kShardEnding = ".safetensors";

std::string joined(std::string_view prefix, std::span<const std::string> path) {
  std::string key(prefix);
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0) key += '.';
    key += path[i];
  }
  return key;
}

std::optional<int64_t> whole_number(const MetadataScalar& scalar) {
  if (const auto* value = std::get_if<int64_t>(&scalar)) return *value;
  const auto* value = std::get_if<uint64_t>(&scalar);
  if (value != nullptr && std::in_range<int64_t>(*value)) return static_cast<int64_t>(*value);
  return std::nullopt;
}

std::optional<double> number(const MetadataScalar& scalar) {
  if (const auto* value = std::get_if<double>(&scalar)) return *value;
  if (const auto* value = std::get_if<int64_t>(&scalar)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<uint64_t>(&scalar)) return static_cast<double>(*value);
  return std::nullopt;
}

template <class T>
std::optional<T> exactly(const MetadataScalar& scalar) {
  const auto* value = std::get_if<T>(&scalar);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

// The elements as `as` reads them; empty when it cannot read one.
template <class T>
std::vector<T> all_as(std::span<const MetadataScalar> list, std::optional<T> (*as)(const MetadataScalar&)) {
  std::vector<T> values;
  values.reserve(list.size());
  for (const MetadataScalar& scalar : list) {
    const std::optional<T> value = as(scalar);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

}  // namespace

void HfConfig::add(std::span<const std::byte> text, const std::string& file, std::string_view prefix,
                   HeaderBudget& budget) {
  const auto charge_string = [&](std::string_view string) { budget.charge(file, kStringMemory + string.size()); };
  const auto insert = [&](const JsonValue& value, MetadataValue converted) {
    std::string key = joined(prefix, value.path);
    budget.charge(file, kKeyMemory + key.size() + value.list.size() * sizeof(std::string_view));
    metadata_.insert(std::move(key), std::move(converted));
  };
  read_json(text, file, "it", budget, [&](const JsonValue& value) {
    if (value.kind == JsonValue::Kind::Scalar) {
      MetadataScalar scalar = value.scalar;
      if (const auto* string = std::get_if<std::string_view>(&scalar)) {
        charge_string(*string);
        scalar = keep(*string);
      }
      insert(value, {scalar});
    } else if (value.kind == JsonValue::Kind::List) {
      if (auto flags = all_as(value.list, &exactly<bool>); !flags.empty()) {
        insert(value, {std::move(flags)});
      } else if (auto whole = all_as(value.list, &whole_number); !whole.empty()) {
        insert(value, {std::move(whole)});
      } else if (auto numbers = all_as(value.list, &number); !numbers.empty()) {
        insert(value, {std::move(numbers)});
      } else if (auto strings = all_as(value.list, &exactly<std::string_view>); !strings.empty()) {
        for (std::string_view& string : strings) {
          charge_string(string);
          string = keep(string);
        }
        insert(value, {std::move(strings)});
      } else if (!value.list.empty()) {
        insert(value, {UnreadableList{}});
      }
    } else if (value.kind == JsonValue::Kind::Other) {
      insert(value, {UnreadableList{}});
    }
  });
}

std::map<std::string, std::vector<std::string>> parse_index(std::span<const std::byte> text, const std::string& file,
                                                            HeaderBudget& budget) {
  std::map<std::string, std::vector<std::string>> shards;
  read_json(text, file, "it", budget, [&](const JsonValue& value) {
    if (value.path[0] != "weight_map") return;
    const auto* shard = std::get_if<std::string_view>(&value.scalar);
    if (value.path.size() != 2 || value.kind != JsonValue::Kind::Scalar || shard == nullptr) {
      fail(ErrorKind::Malformed, "{}: its weight_map is no object of strings", file);
    }
    // A plain name cannot lead out of the folder, and a NUL cannot end it early.
    const bool plain = shard->find_first_of(std::string_view("/\0", 2)) == shard->npos;
    if (!plain || !shard->ends_with(kShardEnding)) {
      fail(ErrorKind::Malformed,
           "{}: its weight_map says that tensor {} is in {}; a shard is named by the plain name of a file in the same "
           "folder that ends in {}",
           file, in_quotes(value.path[1]), in_quotes(*shard), kShardEnding);
    }
    budget.charge(file, kStringMemory + value.path[1].size());
    auto place = shards.find(std::string(*shard));
    if (place == shards.end()) {
      budget.charge(file, kKeyMemory + shard->size());
      place = shards.emplace(*shard, std::vector<std::string>()).first;
    }
    place->second.push_back(value.path[1]);
  });
  if (shards.empty()) fail(ErrorKind::Malformed, "{}: it has no weight_map, or an empty one", file);
  return shards;
}

}  // namespace lockstep
