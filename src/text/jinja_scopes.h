// Which variable a name means.
//
// jinja2 compiles templates to Python functions, and its rules for names follow from that:
// - The template, a macro, a called block and a recursive loop are functions. Loops, with, filter and set blocks are
//   scopes inside one; if is none.
// - What a scope assigns is its own. It begins as a copy of the variable of that name further out, as it is when the
//   scope is entered (in a loop: at every turn), and what is assigned to it is gone when the scope is left.
// - Where there is none further out, it begins as nothing; but where the scope reads the name before it assigns to it,
//   or assigns only inside an if, it begins as what the caller gave the template under that name.
// - Functions see the variables around them as they are at the time of the call.
#pragma once

#include "text/jinja_ast.h"

namespace lockstep::jinja {

// Fills in every Slot, ScopeEntry and Function of the tree. Throws Failure for a filter or test that is not known,
// outside an if, as jinja2 does.
void resolve_names(Template& tree);

}  // namespace lockstep::jinja
