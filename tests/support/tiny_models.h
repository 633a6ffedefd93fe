// The tiny models of tests/fixtures/tiny, opened.
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/model.h"

namespace lockstep {

// Their names, without ".gguf"; sorted.
inline std::vector<std::string> tiny_model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_FIXTURES "/tiny")) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct TinyModel {
  explicit TinyModel(const std::string& name)
      : TinyModel(Checkpoint::open(LOCKSTEP_FIXTURES "/tiny/" + name + ".gguf")) {}
  explicit TinyModel(std::unique_ptr<Checkpoint> opened)
      : checkpoint(std::move(opened)), spec(read_model(*checkpoint)) {}
  std::unique_ptr<Checkpoint> checkpoint;
  ModelSpec spec;
};

}  // namespace lockstep
