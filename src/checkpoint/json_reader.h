// Reading a JSON object from outside, value by value, without keeping it: what it may cost is bounded before and while
// it is parsed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/header_budget.h"

namespace lockstep {

// One value and the keys that lead to it, from the outermost object on.
struct JsonValue {
  enum class Kind : uint8_t {
    Null,
    Scalar,
    List,   // an array of scalars, perhaps empty
    Other,  // any other array, and an object without keys; nothing inside is told
  };
  std::span<const std::string> path;
  Kind kind = Kind::Null;
  MetadataScalar scalar;                 // numbers as uint64_t, below 0 as int64_t, with fraction or exponent as double
  std::span<const MetadataScalar> list;  // of any kinds
};

// Calls use() with every value of the object that `text` must be, in its order; strings and spans hold during the call
// only. `subject` names the text in messages: "its header". Throws Error(Malformed) for text that is no JSON or no
// UTF-8, nests more than 32 levels, has a string above 1 MiB, an array above 65,536 elements, or a key twice in one
// object; Error(DoesNotFit) when the budget ends.
void read_json(std::span<const std::byte> text, const std::string& file, std::string_view subject, HeaderBudget& budget,
               FunctionRef<void(const JsonValue& value)> use);

}  // namespace lockstep
