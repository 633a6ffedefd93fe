// StopMatcher: one Knuth-Morris-Pratt automaton a stop string, all of them fed with every byte.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/text.h"

namespace lockstep {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& text : stops) {
    if (text.empty()) fail(ErrorKind::Usage, "a stop string is empty; it must have at least one byte");
    // A border of text's first bytes is what the automaton of text matches in them, begun at the second byte.
    Stop stop{text, std::vector<size_t>(text.size() + 1), 0};
    for (size_t i = 1; i < text.size(); ++i) {
      stop.advance(text[i]);
      stop.borders[i + 1] = stop.matched;
    }
    stop.matched = 0;
    stops_.push_back(std::move(stop));
  }
}

void StopMatcher::Stop::advance(char byte) {
  while (matched > 0 && text[matched] != byte) matched = borders[matched];
  if (text[matched] == byte) ++matched;
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  for (const char byte : text) {
    held_ += byte;
    size_t complete = 0;  // bytes of the longest stop string that ends here
    for (Stop& stop : stops_) {
      stop.advance(byte);
      if (stop.matched == stop.text.size()) complete = std::max(complete, stop.matched);
    }
    if (complete > 0) {
      stopped_ = true;
      held_.resize(held_.size() - complete);
      return std::exchange(held_, {});
    }
  }
  size_t open = 0;  // bytes at the end that may become a stop string
  for (const Stop& stop : stops_) open = std::max(open, stop.matched);
  std::string certain = held_.substr(0, held_.size() - open);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace lockstep
