// A model as the commands open it: the mapped checkpoint, what the network is, and its tokenizer.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "text/text.h"

namespace lockstep {

// Maps and checks the files; reads no weights. Throws Error(Usage) for an empty path.
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& path);

// The tokenizer in the checkpoint's metadata; nullptr when it has none. Throws Error(Malformed | Unsupported).
std::unique_ptr<Tokenizer> read_tokenizer(const Checkpoint& checkpoint);

// The same for a command that can do nothing without one: Error(Unsupported) when there is none.
std::unique_ptr<Tokenizer> need_tokenizer(const Checkpoint& checkpoint);

// A model that can run. It runs on token ids whether its tokenizer can be used or not.
struct Model {
  std::unique_ptr<Checkpoint> checkpoint;
  ModelSpec spec;
  std::unique_ptr<Tokenizer> tokenizer;  // null: there is none, or none that can be used
  std::string no_tokenizer;              // why it is null

  // For prompts that are text: throws Error(Unsupported) when there is no tokenizer, Error(Malformed) when it has ids
  // that the model has not. (Fewer are no fault: embeddings are often padded.)
  const Tokenizer& encoder() const;
};

Model open_model(const std::string& path);

}  // namespace lockstep
