// The list of families; each is defined in families/ARCHITECTURE.cc.
#pragma once

#include <vector>

#include "model/model.h"

namespace lockstep {

std::vector<const Family*> families();

const Family& llama_family();

}  // namespace lockstep
