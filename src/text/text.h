// The door of text/: text to tokens and back.
//
// Tokenizers are made from plain data (constructors take values, not paths); they know no tensors and no engine. A
// tokenizer is immutable after construction and may be used by several threads at once. bpe.cc is byte-level BPE as
// published by GPT-2; pre_tokenizer.cc holds the split patterns GGUF files name; stream_decoder.cc turns a sequence of
// tokens into whole characters; stop_matcher.cc ends a text at a stop string.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

using TokenId = int32_t;

// The vocabulary of a GGUF file, as its tokenizer.ggml.* keys hold it. The strings need to live only during
// construction.
struct GgufVocabulary {
  std::string file;                          // for messages
  std::string_view model;                    // "gpt2"
  std::string_view pre;                      // "smollm", "llama-bpe", ...
  std::span<const std::string_view> tokens;  // [vocab], byte-level text
  std::span<const int64_t> types;  // [vocab] or empty: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::span<const std::string_view> merges;  // "left right", best first
  std::optional<int64_t> bos, eos, unknown, padding, end_of_turn;
  // tokenizer.ggml.add_eos_token is not read: a prompt is to be continued, so no end is ever put after it.
  std::optional<bool> add_bos;
};

// What encode() does with control tokens that stand in the input. User-defined tokens are found either way, as in
// Hugging Face tokenizers.
enum class SpecialTokens {
  AsText,  // "<|im_start|>" in the input is twelve characters: the rule for text from users
  Parse,   // control tokens in the input become their ids: leftmost first, the longest where several begin
};

// A byte of a text. Where the vocabulary asks for NFC, offsets after a character that it changes count its normal form.
struct LostByte {
  size_t offset = 0;
  uint8_t byte = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Throws Error(Malformed | Unsupported) that names the file, the key, the value found and the values known.
  static std::unique_ptr<Tokenizer> from_gguf(const GgufVocabulary& vocabulary);

  // No beginning-of-sequence token is added. text may be any bytes; the work is at most length x log(length). A byte
  // that is no UTF-8 is a token by itself. decode(encode(x)) is x, but for two things Hugging Face does too: a byte for
  // which the vocabulary has no token leaves nothing (SmolLM2 lacks 21 of them), and "qwen2" normalises to NFC first.
  // Throws Error(DoesNotFit) above 1 GiB.
  virtual std::vector<TokenId> encode(std::string_view text, SpecialTokens special) const = 0;
  // The first byte that encode() leaves out for want of a token; nothing when it leaves out none.
  virtual std::optional<LostByte> first_lost_byte(std::string_view text, SpecialTokens special) const = 0;
  // Most bytes of text that one token can stand for. A text that loses no byte has at least its size divided by this
  // many tokens, which is known without encoding it.
  virtual size_t most_bytes_per_token() const = 0;
  // The bytes of the tokens, one after another (not necessarily UTF-8 at the ends). Special tokens give their text when
  // `show_special`, else nothing. Throws Error(Usage) for an id outside the vocabulary.
  virtual std::string decode(std::span<const TokenId> tokens, bool show_special) const = 0;
  // How the token is shown in listings: its bytes, special tokens as their text.
  virtual std::string piece(TokenId token) const = 0;

  virtual int64_t vocab_size() const = 0;
  virtual std::string_view description() const = 0;  // "byte-level BPE (smollm)"
  virtual bool is_special(TokenId token) const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  // Whether a prompt begins with bos(): as the file says, or where it says nothing, as the pre-tokenizer's family does.
  virtual bool add_bos() const = 0;
  // Tokens that end a generation: eos, end of turn, and control tokens whose text is known to end an answer:
  // <|im_end|>, <|eot_id|>, <|eom_id|>, <|end_of_text|>, <|endoftext|>.
  virtual std::span<const TokenId> stop_tokens() const = 0;
};

// Turns a stream of tokens into text that only ever ends between characters. One sequence, one thread.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool show_special = false);
  // The text that is certain after this token: whole UTF-8 characters; bytes that can never become a character are
  // given as U+FFFD, as in the decode of the whole.
  std::string push(TokenId token);
  // What is left at the end: an unfinished character becomes U+FFFD.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  const bool show_special_;
  std::string pending_;  // at most three bytes: the beginning of a character
};

// Finds where stop strings end a text that arrives in pieces; how it is cut makes no difference. The first byte at
// which some stop string is complete decides; of those that are complete there, the longest counts. The text ends
// before it. One text, one thread; the work is at most bytes of the text x stop strings.
class StopMatcher {
 public:
  // Any number of them; any bytes. Throws Error(Usage) for an empty one.
  explicit StopMatcher(const std::vector<std::string>& stops);
  // The text that is certain after this piece: all but the longest end that may still become a stop string. Nothing
  // once the text has ended.
  std::string push(std::string_view text);
  // What is left when no more comes.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  struct Stop {
    std::string text;
    std::vector<size_t> borders;  // [n]: bytes of the longest proper prefix of text[0, n) that also ends it
    size_t matched = 0;           // bytes of the longest prefix that the text so far ends with; below the whole
    void advance(char byte);
  };
  std::vector<Stop> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace lockstep
