// From a template's source to its tree, by recursive descent, with jinja2's grammar.
#pragma once

#include <string_view>

#include "text/jinja_ast.h"

namespace lockstep::jinja {

// Throws Failure (with the line) for a template that jinja2 refuses, that uses a tag, filter or test unknown here, that
// nests too deeply or is too large. The work is linear in the source.
Template parse(std::string_view source);

}  // namespace lockstep::jinja
