// The list of families.
#include "model/families.h"

namespace lockstep {

std::vector<const Family*> families() {
  return {&llama_family()};
}

}  // namespace lockstep
