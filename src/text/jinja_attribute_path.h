// The "attribute" that filters take: a key, a number, or several with points between.
#pragma once

#include <vector>

#include "text/jinja_runtime.h"

namespace lockstep::jinja {

class AttributePath {
 public:
  // attribute: a str, an int, or None for the item itself. fallback: in place of what is undefined; Missing: none.
  AttributePath(Runtime& runtime, const Value& attribute, bool lower_case = false, Value fallback = Missing());
  Value of(Runtime& runtime, const Value& item) const;

 private:
  std::vector<Value> parts_;
  bool lower_case_;  // of text that is found
  Value fallback_;
};

}  // namespace lockstep::jinja
