// Text between two threads: the engine's leader writes it down, the command's takes it.
#include "cli/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kInterval{5};

// A slow terminal or pipe must not hold up the ranks: the lock is never held while anything is printed.
class TextTape {
 public:
  void push(std::string_view text) {
    const std::lock_guard lock(mutex_);
    text_ += text;
  }
  // What was pushed since the last call.
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, {});
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

}  // namespace

TokenText::TokenText(const Tokenizer* tokenizer, const std::vector<std::string>& stops, std::vector<TokenId> shown)
    : tokenizer_(tokenizer), stops_(stops), shown_(std::move(shown)) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
}

std::string TokenText::push(TokenId token) {
  if (!decoder_) return fmt::format("{} ", token);
  if (std::ranges::find(shown_, token) != shown_.end()) {
    const std::string before = decoder_->finish();
    return stops_.push(before + tokenizer_->piece(token));
  }
  // A vocabulary may be padded with ids that no text belongs to.
  return token < tokenizer_->vocab_size() ? stops_.push(decoder_->push(token)) : "";
}

std::string TokenText::finish() {
  if (!decoder_) return {};
  std::string text = stops_.push(decoder_->finish());
  return text + stops_.finish();
}

int64_t decoded_tokens(const Completion& completion) {
  const auto drawn = static_cast<int64_t>(completion.tokens.size()) + (completion.reason == FinishReason::Stop ? 1 : 0);
  return std::max<int64_t>(0, drawn - 1);
}

Completion run_request(Engine& engine, Request request, TokenText& text,
                       FunctionRef<void(std::string_view piece)> write, std::stop_source cancel) {
  TextTape tape;
  request.cancel = cancel.get_token();
  request.on_token = [&text, &tape](const PickedToken& picked) {
    tape.push(text.push(picked.token));
    return !text.stopped();
  };
  auto done = engine.submit(std::move(request));
  try {
    while (done.wait_for(kInterval) != std::future_status::ready) write(tape.take());
  } catch (...) {
    cancel.request_stop();
    done.wait();  // the callback uses what is on this stack
    throw;
  }
  write(tape.take() + text.finish());
  return done.get();
}

}  // namespace lockstep
