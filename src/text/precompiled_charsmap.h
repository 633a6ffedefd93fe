// SentencePiece's table of what characters become (`precompiled_charsmap`, builder.h and normalizer.h of
// https://github.com/google/sentencepiece): a uint32, the bytes of a trie; the trie, uint32 units of a Darts-clone
// double array (https://github.com/s-yata/darts-clone); replacements, each with a NUL behind it. All little endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class PrecompiledCharsmap {
 public:
  // Throws Error(Malformed), whose message begins with `where`.
  static PrecompiledCharsmap from_base64(std::string_view text, std::string_view where);

  // What stands for the shortest key that `text` begins with. The work is linear in the text, whatever the trie says.
  std::optional<std::string_view> replacement(std::string_view text) const;
  // Some replacement is empty.
  bool drops_text() const { return drops_text_; }

 private:
  PrecompiledCharsmap() = default;
  void check_units(std::string_view where);

  // A node at place p with label c is a unit: bits 0..7 c, bit 8 whether a key ends here, bits 9 and up an offset. Its
  // child of label c is at p ^ offset ^ c, the value of its key at p ^ offset: bit 31, and below it a place in
  // replacements_. The root is at 0.
  std::vector<uint32_t> units_;
  std::string replacements_;  // valid UTF-8, whose last byte is NUL; every value is the beginning of a character
  bool drops_text_ = false;
};

}  // namespace lockstep
