// Is a string well-formed UTF-8 (RFC 3629: shortest form, no surrogates, at most U+10FFFF)?
#pragma once

#include <string_view>

namespace lockstep {

bool is_utf8(std::string_view text);

}  // namespace lockstep
