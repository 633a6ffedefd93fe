// The models of tests/fixtures/families by name, one folder a family and format.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

// "llama.bf16", "llama.mlx4", ...; sorted.
inline std::vector<std::string> family_model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_FIXTURES "/families")) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// What of a model's folder is opened: its GGUF file, or the folder itself.
inline std::filesystem::path family_model_path(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "model.gguf") ? folder / "model.gguf" : folder;
}

// The name as a test's name may be.
inline std::string family_test_name(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace lockstep
