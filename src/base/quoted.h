// Text that others wrote (in files, on command lines), made fit for a message: one line, of characters that a terminal
// can show.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Control characters, line separators and marks that reverse the direction of writing become \n, \t, \r, \xNN or
// \u{NNNN}; bytes that are no UTF-8 become \xNN. All else stays.
std::string one_line(std::string_view text);

// In single quotes, escaped as in one_line; quotes and backslashes get a backslash. Text that would fill more than 80
// bytes is cut at a character, and its size is named: 'abc...' (3000000 bytes).
std::string in_quotes(std::string_view text);

}  // namespace lockstep
