// StreamDecoder: holds back the beginning of a character until the rest comes, or can no longer come.
#include "base/utf8.h"
#include "text/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool show_special)
    : tokenizer_(tokenizer), show_special_(show_special) {}

std::string StreamDecoder::push(TokenId token) {
  pending_ += tokenizer_.decode({&token, 1}, show_special_);
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const auto [kind, length] = next_utf8(rest);
    if (kind == Utf8Kind::Unfinished) break;
    text += kind == Utf8Kind::Character ? rest.substr(0, length) : kReplacement;
    rest.remove_prefix(length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string StreamDecoder::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace lockstep
