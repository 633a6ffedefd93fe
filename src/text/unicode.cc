// ICU's tables. For the normal forms, characters that normalisation cannot change are copied, and of the rest the
// canonical order is made here: ICU inserts each combining mark into its place one by one, which is quadratic in a run
// of marks, and such a run may come from anybody; after a stable sort every insertion is an append.
#include "text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace lockstep {
namespace {

bool is_of(char32_t c, uint32_t categories) {
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & categories) != 0;
}

struct Mark {
  char32_t character;
  uint8_t combining_class;  // above 0
};

// Appends the marks of one run in canonical order and forgets them.
void flush(std::vector<Mark>& marks, std::string& out) {
  std::ranges::stable_sort(marks, {}, &Mark::combining_class);
  for (const Mark& mark : marks) append_utf8(out, mark.character);
  marks.clear();
}

// Appends every character decomposed as `decomposition` says, every run of marks in canonical order.
void decompose(const icu::Normalizer2& decomposition, std::string_view text, std::string& out) {
  std::vector<Mark> marks;
  const auto put = [&](char32_t character) {
    const uint8_t combining_class = u_getCombiningClass(static_cast<UChar32>(character));
    if (combining_class > 0) {
      marks.push_back({character, combining_class});
    } else {
      flush(marks, out);
      append_utf8(out, character);
    }
  };
  icu::UnicodeString parts;
  for_each_character(text, [&](char32_t character, std::string_view) {
    if (!decomposition.getDecomposition(static_cast<UChar32>(character), parts)) {
      put(character);
      return;
    }
    for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) put(static_cast<char32_t>(parts.char32At(i)));
  });
  flush(marks, out);
}

// The scripts whose consonants join across a linker (Indic_Conjunct_Break of Unicode 16, which ICU has since version 76
// alone), and whose vowels do so too.
constexpr std::array kConjunctScripts{USCRIPT_BENGALI, USCRIPT_DEVANAGARI, USCRIPT_GUJARATI, USCRIPT_MALAYALAM,
                                      USCRIPT_ORIYA,   USCRIPT_TELUGU,     USCRIPT_JAVANESE, USCRIPT_BALINESE};
constexpr std::array kStackingScripts{
    USCRIPT_CHAKMA,  USCRIPT_DIVES_AKURU,  USCRIPT_KAWI,    USCRIPT_KHAROSHTHI, USCRIPT_KHMER,           USCRIPT_LANNA,
    USCRIPT_MYANMAR, USCRIPT_MEITEI_MAYEK, USCRIPT_SOYOMBO, USCRIPT_SUNDANESE,  USCRIPT_ZANABAZAR_SQUARE};

enum class Conjunct : uint8_t { No, Consonant, Linker };

Conjunct conjunct_of(char32_t c) {
  if (c < 0x0900 || c >= 0x12000) return Conjunct::No;
  const auto code = static_cast<UChar32>(c);
  const auto syllabic = static_cast<UIndicSyllabicCategory>(u_getIntPropertyValue(code, UCHAR_INDIC_SYLLABIC_CATEGORY));
  UErrorCode error = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(code, &error);
  const bool stacks = std::ranges::find(kStackingScripts, script) != kStackingScripts.end();
  if (!stacks && std::ranges::find(kConjunctScripts, script) == kConjunctScripts.end()) return Conjunct::No;
  switch (syllabic) {
    case U_INSC_CONSONANT:
      return Conjunct::Consonant;
    case U_INSC_VOWEL_INDEPENDENT:
      return stacks || c == 0x1B0B || c == 0x1B0C ? Conjunct::Consonant : Conjunct::No;
    case U_INSC_VIRAMA:
    case U_INSC_INVISIBLE_STACKER:
      return Conjunct::Linker;
    default:
      return Conjunct::No;
  }
}

// A grapheme cluster as far as it is known, by rules GB3 to GB13.
class Grapheme {
 public:
  explicit Grapheme(char32_t first) { add(first, break_of(first)); }

  // Whether c, which comes next, belongs to it. If so, it is added.
  bool take(char32_t c) {
    const UGraphemeClusterBreak kind = break_of(c);
    if (!joins(c, kind)) return false;
    add(c, kind);
    return true;
  }

 private:
  static UGraphemeClusterBreak break_of(char32_t c) {
    if (c == 0x11A3A) return U_GCB_OTHER;  // since Unicode 16; U_GCB_PREPEND before
    return static_cast<UGraphemeClusterBreak>(
        u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_GRAPHEME_CLUSTER_BREAK));
  }
  static bool is_pictograph(char32_t c) {
    return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_EXTENDED_PICTOGRAPHIC) != 0;
  }
  static bool is_control(UGraphemeClusterBreak kind) {
    return kind == U_GCB_CONTROL || kind == U_GCB_CR || kind == U_GCB_LF;
  }

  bool joins(char32_t c, UGraphemeClusterBreak kind) const {
    if (is_control(last_) || is_control(kind)) return last_ == U_GCB_CR && kind == U_GCB_LF;
    if (kind == U_GCB_EXTEND || kind == U_GCB_ZWJ || kind == U_GCB_SPACING_MARK || last_ == U_GCB_PREPEND) return true;
    switch (kind) {
      case U_GCB_L:
      case U_GCB_LV:
      case U_GCB_LVT:
        return last_ == U_GCB_L;
      case U_GCB_V:
        return last_ == U_GCB_L || last_ == U_GCB_LV || last_ == U_GCB_V;
      case U_GCB_T:
        return last_ == U_GCB_LV || last_ == U_GCB_V || last_ == U_GCB_LVT || last_ == U_GCB_T;
      case U_GCB_REGIONAL_INDICATOR:
        return odd_flags_;
      default:
        return (joined_emoji_ && is_pictograph(c)) || (linked_ && conjunct_of(c) == Conjunct::Consonant);
    }
  }

  void add(char32_t c, UGraphemeClusterBreak kind) {
    last_ = kind;
    odd_flags_ = kind == U_GCB_REGIONAL_INDICATOR && !odd_flags_;
    joined_emoji_ = kind == U_GCB_ZWJ && emoji_;
    if (kind != U_GCB_EXTEND) emoji_ = kind == U_GCB_OTHER && is_pictograph(c);
    const Conjunct conjunct = conjunct_of(c);
    if (conjunct == Conjunct::Linker) {
      linked_ = consonant_;
    } else if (conjunct == Conjunct::Consonant || (kind != U_GCB_EXTEND && kind != U_GCB_ZWJ) || c == 0x200C) {
      consonant_ = conjunct == Conjunct::Consonant;
      linked_ = false;
    }
  }

  UGraphemeClusterBreak last_;
  bool odd_flags_ = false;                   // half a flag at the end
  bool emoji_ = false;                       // a pictograph and what extends it, at the end
  bool joined_emoji_ = false;                // and then a joiner
  bool consonant_ = false, linked_ = false;  // one and what extends it, at the end; a linker among that
};

}  // namespace

// Hugging Face's table is that of Unicode 9.0, which had four characters in other scripts than ICU has them.
std::optional<int32_t> script_of(char32_t c) {
  switch (c) {
    case ' ':
      return std::nullopt;
    case 0x0589:
    case 0x061C:
      return USCRIPT_COMMON;
    case 0x0953:
    case 0x0954:
      return USCRIPT_DEVANAGARI;
    case 0x30FC:
      return USCRIPT_HAN;
    default:
      break;
  }
  UVersionInfo since{};
  u_charAge(static_cast<UChar32>(c), since);
  if (since[0] > 9) return std::nullopt;
  UErrorCode error = U_ZERO_ERROR;
  switch (const UScriptCode script = uscript_getScript(static_cast<UChar32>(c), &error)) {
    case USCRIPT_UNKNOWN:
      return std::nullopt;
    case USCRIPT_HIRAGANA:
    case USCRIPT_KATAKANA:
      return USCRIPT_HAN;
    default:
      return script;
  }
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE) != 0;
}

bool is_word(char32_t c) {
  if (is_of(c, U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_NL_MASK | U_GC_PC_MASK)) return true;
  return c == 0x200C || c == 0x200D || u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC) != 0;
}

bool is_numeric(char32_t c) {
  return is_of(c, U_GC_N_MASK);
}
bool is_mark(char32_t c) {
  return is_of(c, U_GC_M_MASK);
}
bool is_nonspacing_mark(char32_t c) {
  return is_of(c, U_GC_MN_MASK);
}
bool is_other(char32_t c) {
  return is_of(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7F && !is_of(c, U_GC_L_MASK | U_GC_N_MASK);
  return is_of(c, U_GC_P_MASK);
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void append_lower_case(std::string& out, char32_t c) {
  append_utf8(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
  if (c == 0x130) append_utf8(out, 0x307);  // the one character whose lower case is two
}

size_t first_grapheme(std::string_view text) {
  const Character first = first_character(text);
  size_t end = first.length;
  const auto is_ascii = [&](size_t i) { return static_cast<unsigned char>(text[i]) < 0x80; };
  if (is_ascii(0) && (text.size() == 1 || is_ascii(1))) return text.starts_with("\r\n") ? 2 : 1;
  Grapheme grapheme(first.code);
  while (end < text.size()) {
    const Character next = first_character(text.substr(end));
    if (!grapheme.take(next.code)) break;
    end += next.length;
  }
  return end;
}

std::string to_normal_form(std::string_view text, NormalForm form) {
  UErrorCode error = U_ZERO_ERROR;
  const bool compatible = form == NormalForm::KC || form == NormalForm::KD;
  const bool composed = form == NormalForm::C || form == NormalForm::KC;
  const icu::Normalizer2* const composition =
      compatible ? icu::Normalizer2::getNFKCInstance(error) : icu::Normalizer2::getNFCInstance(error);
  const icu::Normalizer2* const decomposition =
      compatible ? icu::Normalizer2::getNFKDInstance(error) : icu::Normalizer2::getNFDInstance(error);
  const icu::Normalizer2* const wanted = composed ? composition : decomposition;
  const UProperty quick_check = compatible ? (composed ? UCHAR_NFKC_QUICK_CHECK : UCHAR_NFKD_QUICK_CHECK)
                                           : (composed ? UCHAR_NFC_QUICK_CHECK : UCHAR_NFD_QUICK_CHECK);
  std::string out, canonical;
  out.reserve(text.size());
  while (!text.empty() && U_SUCCESS(error)) {
    // A span: a character and those behind it that may combine with it.
    const Character first = first_character(text);
    size_t end = first.length;
    while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80) {
      const Character next = first_character(text.substr(end));
      if (wanted->hasBoundaryBefore(static_cast<UChar32>(next.code))) break;
      end += next.length;
    }
    const std::string_view span = text.substr(0, end);
    text.remove_prefix(end);
    const auto code = static_cast<UChar32>(first.code);
    if (end == first.length && (code < 0x80 || u_getIntPropertyValue(code, quick_check) == int32_t{UNORM_YES})) {
      out += span;
    } else if (composed) {
      canonical.clear();
      decompose(*decomposition, span, canonical);
      icu::StringByteSink<std::string> sink(&out);
      composition->normalizeUTF8(0, canonical, sink, nullptr, error);
    } else {
      decompose(*decomposition, span, out);
    }
  }
  if (U_FAILURE(error)) fail(ErrorKind::Internal, "Unicode normalisation failed: {}", u_errorName(error));
  return out;
}

}  // namespace lockstep
