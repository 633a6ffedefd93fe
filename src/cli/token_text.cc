// Text between two threads: the engine's leader writes it down, the command's takes it.
#include "cli/token_text.h"

#include <fmt/format.h>

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

TokenText::TokenText(const Tokenizer* tokenizer, const std::vector<std::string>& stops)
    : tokenizer_(tokenizer), stops_(stops) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
}

std::string TokenText::push(TokenId token) {
  if (!decoder_) return fmt::format("{} ", token);
  // A vocabulary may be padded with ids that no text belongs to.
  return token < tokenizer_->vocab_size() ? stops_.push(decoder_->push(token)) : "";
}

std::string TokenText::finish() {
  if (!decoder_) return {};
  std::string text = stops_.push(decoder_->finish());
  return text + stops_.finish();
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
