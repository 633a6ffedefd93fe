// A model as the commands open it: the mapped checkpoint, what the network is, and its tokenizer.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "text/text.h"

namespace lockstep {

// The tokenizer in the checkpoint's metadata; nullptr when it has none. Throws Error(Malformed | Unsupported).
std::unique_ptr<Tokenizer> read_tokenizer(const Checkpoint& checkpoint);

struct Model {
  std::unique_ptr<Checkpoint> checkpoint;
  ModelSpec spec;
  std::unique_ptr<Tokenizer> tokenizer;  // may be null
};

// Maps and checks the files; reads no weights.
Model open_model(const std::string& path);

}  // namespace lockstep
