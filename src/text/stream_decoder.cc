// StreamDecoder: holds back what the tokenizer's decoder does, and the beginning of a character until the rest comes or
// can no longer come.
#include "base/utf8.h"
#include "text/pipeline.h"
#include "text/text.h"
#include "text/token_decoder.h"

namespace lockstep {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

std::unique_ptr<TokenDecoding> begin_of(const Pipeline& pipeline) {
  return std::make_unique<TokenDecoding>(pipeline.decoder, TokenDecoding::Mode::Whole);
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool show_special)
    : tokenizer_(tokenizer), show_special_(show_special), decoding_(begin_of(*tokenizer.pipeline_)) {}
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(TokenId token) {
  tokenizer_.decode({&token, 1}, show_special_, *decoding_);
  return whole_characters(decoding_->take());
}

std::string StreamDecoder::finish() {
  decoding_->finish();
  std::string text = whole_characters(decoding_->take());
  if (!pending_.empty()) text += kReplacement;
  pending_.clear();
  decoding_ = begin_of(*tokenizer_.pipeline_);
  return text;
}

// What `bytes` completes: maximal subparts that are no character become U+FFFD.
std::string StreamDecoder::whole_characters(std::string bytes) {
  pending_ += bytes;
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

}  // namespace lockstep
