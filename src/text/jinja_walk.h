// Walks over the tree that the scopes pass needs: the names of an expression, the filters in it, and whether a body
// reads a name that nothing before has assigned.
#pragma once

#include <string_view>

#include "base/function_ref.h"
#include "text/jinja_ast.h"

namespace lockstep::jinja {

// Every expression below and with this one, in the order in which it is written. expr may be null.
void for_each_expr(const ExprRef& expr, FunctionRef<void(Expr&)> visit);
void for_each_name(const ExprRef& expr, FunctionRef<void(Name&)> visit);

// Throws Failure for a filter or test that is not known; soft: only where it stands outside an inline if and not even
// then, if soft is set for the whole expression.
void check_filters(const ExprRef& expr, bool soft);

// As jinja2 decides whether a macro takes "caller", "kwargs" or "varargs": is the name read before, in the order of the
// text, it is assigned or is a parameter?
bool reads_undeclared(const Body& body, std::string_view name);

}  // namespace lockstep::jinja
