// The list of families; each is defined in families/MODEL_TYPE.cc.
#pragma once

#include <vector>

#include "model/model.h"

namespace lockstep {

std::vector<const Family*> families();

const Family& ernie4_5_family();
const Family& gemma3_text_family();
const Family& gemma4_text_family();
const Family& granite_family();
const Family& hunyuan_v1_dense_family();
const Family& llama_family();
const Family& qwen2_family();
const Family& qwen3_family();
const Family& qwen3_5_text_family();
const Family& seed_oss_family();
const Family& smollm3_family();

}  // namespace lockstep
