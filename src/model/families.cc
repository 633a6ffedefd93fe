// The list of families.
#include "model/families.h"

namespace lockstep {

std::vector<const Family*> families() {
  return {&ernie4_5_family(),         &gemma3_text_family(), &gemma4_text_family(), &granite_family(),
          &hunyuan_v1_dense_family(), &llama_family(),       &qwen2_family(),       &qwen3_family(),
          &qwen3_5_text_family(),     &seed_oss_family(),    &smollm3_family()};
}

}  // namespace lockstep
