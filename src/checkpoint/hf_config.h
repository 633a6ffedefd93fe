// The JSON files beside safetensors: config.json and generation_config.json as metadata, and the index of shards.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/header_budget.h"

namespace lockstep {

// Metadata made of JSON objects. The keys of nested objects are joined by dots ("rope_scaling.factor"); null and empty
// arrays are left out, and of arrays that hold more than scalars of one kind it is known that they are there. Whole and
// other numbers in one array become floats.
class HfConfig {
 public:
  explicit HfConfig(const std::string& file) : metadata_(file) {}

  // `prefix` comes before every key: "", "generation.". Throws Error(Malformed | DoesNotFit) that names `file`.
  void add(std::span<const std::byte> text, const std::string& file, std::string_view prefix, HeaderBudget& budget);
  const Metadata& metadata() const { return metadata_; }

 private:
  std::string_view keep(std::string_view text) { return strings_.emplace_back(text); }

  Metadata metadata_;
  std::deque<std::string> strings_;  // which the metadata views
};

// model.safetensors.index.json: {"metadata": {...}, "weight_map": {TENSOR: SHARD}}. The tensors of every shard, whose
// names are those of plain files ending in .safetensors. Throws Error(Malformed | DoesNotFit).
std::map<std::string, std::vector<std::string>> parse_index(std::span<const std::byte> text, const std::string& file,
                                                            HeaderBudget& budget);

}  // namespace lockstep
