// Unicode normalisation form C: the one form tokenizers ask for.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// text is valid UTF-8 of less than 2^30 bytes. The work is at most length x log(length).
std::string to_nfc(std::string_view text);

}  // namespace lockstep
