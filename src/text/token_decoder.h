// From tokens back to text: a list of steps, as data, and one run of them. A run takes token after token and gives the
// text that is certain; the decode of a whole is the same run to its end, so a stream cannot differ from it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"

namespace lockstep {

namespace decode {

struct ByteLevel {};     // characters of the byte alphabet as their bytes; all tokens become one
struct ByteFallback {};  // <0x00> to <0xFF> as bytes: a run of them is text where it is UTF-8, else U+FFFD for each
struct Fuse {};          // all tokens become one
struct Strip {           // characters at the ends of every token
  std::string character;
  size_t left, right;  // at most so many
};
struct Replace {
  std::shared_ptr<const Pattern> pattern;
  std::string literal;  // the pattern's text, where it is no regular expression
  std::string content;
};
struct Metaspace {
  std::string replacement;  // becomes a space
  bool drop_in_first;       // nothing in the first token
};
struct WordPiece {
  std::string prefix;  // of tokens that continue a word; a space goes before the others
  bool clean_up;       // no space before punctuation and contractions
};
struct WordEnds {      // ("BPEDecoder")
  std::string suffix;  // becomes a space, nothing in the last token
};
struct Ctc {            // a token that comes twice in a row counts once
  std::string pad;      // is nothing
  std::string between;  // words: becomes a space where there is a clean-up
  bool clean_up;        // as WordPiece has it
};
struct JoinBySpaces {};  // where a file names no decoder
using Step =
    std::variant<ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, WordPiece, WordEnds, Ctc, JoinBySpaces>;

}  // namespace decode

// One stage of a run. Tokens come in pieces, whose last one is marked.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  // `literal`: no byte alphabet applies to the token.
  virtual void put(std::string_view text, bool ends, bool literal) = 0;
  virtual void finish() = 0;
};

class TokenDecoding {
 public:
  enum class Mode : uint8_t {
    Whole,   // a text from its beginning to its end
    Inside,  // tokens as they are inside a text, single bytes as they are: for listings
  };
  // `steps` must outlive it.
  TokenDecoding(const std::vector<decode::Step>& steps, Mode mode);
  ~TokenDecoding();

  void put(std::string_view token, bool literal) { first_->put(token, true, literal); }
  void finish() { first_->finish(); }
  // What is certain by now and has not been taken. Bytes, not necessarily UTF-8.
  std::string take();

 private:
  std::string out_;
  std::vector<std::unique_ptr<DecodeStage>> stages_;  // the last one first
  DecodeStage* first_;
};

}  // namespace lockstep
