// The door of text/: text to tokens and back.
//
// Tokenizers are made from plain data (constructors take values, not paths); they know no tensors and no engine. A
// tokenizer is immutable after construction and may be used by several threads at once. tokenizer.cc is the pipeline
// from text to tokens and back, whose parts are data: added_tokens, normalizer, pre_tokenizer, a token_model (bpe,
// unigram, word_piece, word_level), token_decoder. Two readers fill it: tokenizer_json*.cc and gguf_vocabulary.cc.
// stream_decoder.cc turns a sequence of tokens into whole characters; stop_matcher.cc ends a text at a stop string.
// chat_template.h is the other half of the door: from messages to text; chat_encoder.cc joins the two.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace lockstep {

using TokenId = int32_t;

// The vocabulary of a GGUF file, as its tokenizer.ggml.* keys hold it. The strings need to live only during
// construction.
struct GgufVocabulary {
  std::string file;                          // for messages
  std::string_view model;                    // "gpt2", "llama"
  std::string_view pre;                      // of "gpt2": "smollm", "llama-bpe", ...
  std::span<const std::string_view> tokens;  // [vocab], byte-level text for "gpt2"
  std::span<const int64_t> types;  // [vocab] or empty: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::span<const double> scores;  // [vocab], of "llama": what merges first
  std::span<const std::string_view> merges;  // of "gpt2": "left right", best first
  std::optional<int64_t> bos, eos, unknown, padding, end_of_turn;
  // tokenizer.ggml.add_eos_token is not read: a prompt is to be continued, so no end is ever put after it.
  std::optional<bool> add_bos;
  std::optional<bool> add_space_prefix;  // of "llama"
};

// A JSON file that lies beside a model. The text needs to live only during construction.
struct JsonFile {
  std::string name;       // for messages
  std::string_view text;  // empty: the file is not there
};

// The tokenizer of a Hugging Face folder.
struct TokenizerFiles {
  JsonFile tokenizer;            // tokenizer.json
  JsonFile config;               // tokenizer_config.json: names of special tokens, add_bos_token
  JsonFile special_tokens;       // special_tokens_map.json, which older folders have instead
  std::vector<int64_t> end_ids;  // eos_token_id of generation_config.json or config.json; those not in it are ignored
};

// What encode() does with special tokens that stand in the input. User-defined tokens are found either way, as in
// Hugging Face tokenizers.
enum class SpecialTokens {
  AsText,  // "<|im_start|>" in the input is twelve characters: the rule for text from users
  Parse,   // special tokens in the input become their ids: leftmost first, the longest where several begin
};

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

// A byte of a text. Where the tokenizer changes the text before it encodes it, offsets count the changed text from the
// last added token or byte that is no UTF-8 on.
struct LostByte {
  size_t offset = 0;
  uint8_t byte = 0;
};

struct Encoded {
  std::vector<TokenId> tokens;
  std::optional<LostByte> first_lost;  // left out for want of a token; nothing when none was
};

struct Pipeline;
class TokenDecoding;

class Tokenizer {
 public:
  explicit Tokenizer(std::unique_ptr<const Pipeline> pipeline);
  ~Tokenizer();

  // Throw Error(Malformed | Unsupported) that names the file, the key, the value found and the values known.
  static std::unique_ptr<Tokenizer> from_gguf(const GgufVocabulary& vocabulary);
  static std::unique_ptr<Tokenizer> from_files(const TokenizerFiles& files);

  // The text alone: prefix() and suffix() are the caller's. text may be any bytes; the work is at most length x
  // log(length). A byte that is no UTF-8 is a token by itself where the vocabulary has tokens for bytes. At byte level
  // decode(encode(x)) is x, but for what the tokenizer normalises, and for two things Hugging Face does too: a
  // character for which the vocabulary has nothing leaves nothing (SmolLM2 lacks 21 bytes), or the token for what is
  // unknown. Throws Error(DoesNotFit) above 1 GiB, Error(Unsupported) when a pattern of the file costs too much.
  // Where special tokens are parsed, those that touch a `written` range (ascending, apart from each other) are text.
  Encoded encode_and_check(std::string_view text, SpecialTokens special, std::span<const TextRange> written = {}) const;
  std::vector<TokenId> encode(std::string_view text, SpecialTokens special) const {
    return encode_and_check(text, special).tokens;
  }
  // Most bytes of text that one token can stand for; SIZE_MAX where there is no bound. A text that loses no byte has
  // at least its size divided by this many tokens, which is known without encoding it.
  size_t most_bytes_per_token() const;
  // The text of the tokens (where tokens are bytes, not necessarily UTF-8). Special tokens give their text when
  // `show_special`, else nothing. Throws Error(Usage) for an id outside the vocabulary.
  std::string decode(std::span<const TokenId> tokens, bool show_special) const;
  // How the token is shown in listings: its bytes as inside a text, special tokens as their text.
  std::string piece(TokenId token) const;

  int64_t vocab_size() const;            // the largest id, and one
  std::string_view description() const;  // "byte-level BPE (smollm)"
  bool is_special(TokenId token) const;
  std::optional<TokenId> bos() const;
  // What the model's prompts begin and end with, as the file says: often bos, and nothing. A prompt that is to be
  // continued takes only the first.
  std::span<const TokenId> prefix() const;
  std::span<const TokenId> suffix() const;
  // Tokens that end a generation: eos, end of turn, and special tokens whose text is known to end an answer.
  std::span<const TokenId> stop_tokens() const;
  // The special tokens that have names, as chat templates use them: "bos_token" -> "<s>".
  const std::map<std::string, std::string>& named_tokens() const;

 private:
  friend class StreamDecoder;
  friend class ChatEncoder;
  void decode(std::span<const TokenId> tokens, bool show_special, TokenDecoding& decoding) const;
  Encoded encode_apart(std::string_view text, SpecialTokens special, std::span<const TextRange> written) const;

  std::unique_ptr<const Pipeline> pipeline_;
};

// From a conversation to the tokens of a prompt. What people wrote never becomes a special token: only the template's
// own text may hold some (docs/chat.md says how far that goes). Immutable; several threads may encode at once.
class ChatEncoder {
 public:
  // The tokenizer must outlive it.
  ChatEncoder(const Tokenizer& tokenizer, ChatTemplate chat_template);
  ~ChatEncoder();

  struct Prompt {
    std::string text;
    std::vector<TokenId> tokens;  // of the text alone: templates write bos themselves
  };
  // `input` without special_tokens, which are the tokenizer's; what its variables hold counts as written, too. Throws
  // as ChatTemplate::render() and Tokenizer::encode() do, Error(Unsupported) for a byte that the vocabulary has no
  // token for, and Error(DoesNotFit), before much is done, for a text that must have more than most_tokens.
  Prompt encode(ChatInput input, int64_t most_tokens = INT64_MAX) const;

 private:
  class SpecialTexts;
  class Marks;
  std::string render(ChatInput input) const;
  bool has_special(std::string_view text) const;
  std::vector<TextRange> find_written(const ChatInput& input, std::string_view prompt) const;
  Encoded encode_prompt(std::string_view prompt, std::span<const TextRange> written) const;

  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  std::unique_ptr<const SpecialTexts> specials_;
};

// Turns a stream of tokens into text that only ever ends between characters. One sequence, one thread.
class StreamDecoder {
 public:
  // The tokenizer must outlive it.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool show_special = false);
  ~StreamDecoder();
  // The text that is certain after this token: whole UTF-8 characters; bytes that can never become a character are
  // given as U+FFFD, as in the decode of the whole.
  std::string push(TokenId token);
  // What is left at the end: an unfinished character becomes U+FFFD. The next token begins a new text.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  const bool show_special_;
  std::unique_ptr<TokenDecoding> decoding_;
  std::string whole_characters(std::string bytes);
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
