// ICU composes; canonical ordering is done here first. ICU inserts each combining mark into its place one by one, which
// is quadratic in a run of marks, and such a run may come from anybody; after a stable sort every insertion is an
// append.
#include "text/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace lockstep {
namespace {

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

// Normalisation form D: every character decomposed, every run of marks in canonical order.
std::string decompose(const icu::Normalizer2& nfd, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<Mark> marks;
  const auto put = [&](char32_t character) {
    const uint8_t combining_class = nfd.getCombiningClass(static_cast<UChar32>(character));
    if (combining_class > 0) {
      marks.push_back({character, combining_class});
    } else {
      flush(marks, out);
      append_utf8(out, character);
    }
  };
  icu::UnicodeString parts;
  while (!text.empty()) {
    const size_t length = next_utf8(text).length;
    const char32_t character = decode_utf8(text.substr(0, length));
    text.remove_prefix(length);
    if (!nfd.getDecomposition(static_cast<UChar32>(character), parts)) {
      put(character);
      continue;
    }
    for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) put(static_cast<char32_t>(parts.char32At(i)));
  }
  flush(marks, out);
  return out;
}

}  // namespace

std::string to_nfc(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) return std::string(text);
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* const nfc = icu::Normalizer2::getNFCInstance(error);
  const icu::Normalizer2* const nfd = icu::Normalizer2::getNFDInstance(error);
  std::string composed;
  if (U_SUCCESS(error)) {
    icu::StringByteSink<std::string> sink(&composed);
    nfc->normalizeUTF8(0, decompose(*nfd, text), sink, nullptr, error);
  }
  if (U_FAILURE(error)) fail(ErrorKind::Internal, "Unicode normalisation failed: {}", u_errorName(error));
  return composed;
}

}  // namespace lockstep
