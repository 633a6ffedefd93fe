// A checkpoint as Hugging Face and MLX publish it: a folder with config.json, and model.safetensors or the shards that
// model.safetensors.index.json lists.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint.h"

namespace lockstep {

// Does the name end in .safetensors or .safetensors.index.json?
bool is_safetensors_name(const std::filesystem::path& path);

// `path`: the folder, the index, or one .safetensors file, whose folder then has the config.json. Of a folder with
// both, model.safetensors is taken.
std::unique_ptr<Checkpoint> open_safetensors(const std::filesystem::path& path);

}  // namespace lockstep
