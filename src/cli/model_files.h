// A model as the commands open it: the mapped checkpoint, what the network is, and its tokenizer.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "text/text.h"

namespace lockstep {

// Maps and checks the files; reads no weights. Throws Error(Usage) for an empty path.
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& path);

// Whether a file that may lie beside a model is there.
bool is_file(const std::filesystem::path& path);

// The tokenizer in a GGUF file's metadata, or in the tokenizer.json beside config.json; nullptr when there is none.
// Throws Error(Malformed | Unsupported), the latter also for a folder with nothing but a tokenizer.model.
std::unique_ptr<Tokenizer> read_tokenizer(const Checkpoint& checkpoint);

// The tokenizer alone: of a model, of a folder with a tokenizer.json but no weights, or that file itself. Throws
// Error(Unsupported) when there is none.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path);

// A model that can run. It runs on token ids whether its tokenizer can be used or not.
struct Model {
  std::unique_ptr<Checkpoint> checkpoint;
  ModelSpec spec;
  std::unique_ptr<Tokenizer> tokenizer;  // null: there is none, or none that can be used
  std::string no_tokenizer;              // why it is null

  // For prompts that are text: throws Error(Unsupported) when there is no tokenizer, Error(Malformed) when text can
  // become an id that the model has not. (Fewer are no fault: embeddings are often padded. Nor are special tokens
  // beyond in a folder: Gemma 3's has one for images, of which models of text know nothing.) way_out: what the user may
  // do instead, the end of the message.
  const Tokenizer& encoder(std::string_view way_out) const;
};

Model open_model(const std::string& path);

}  // namespace lockstep
