// A template may move, cut and repeat what people wrote, so nobody knows afterwards where that stands. Therefore the
// first character of every special token in it is replaced before, by a private-use character that no message has;
// when the prompt is there, the character comes back, and the place is remembered.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "base/utf8.h"
#include "text/pipeline.h"
#include "text/text.h"
#include "text/token_finder.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// The private-use characters of plane 16, 4 bytes of UTF-8 each, of which this is the first.
constexpr char32_t kFirstMark = 0x100000, kLastMark = 0x10FFFD;
constexpr size_t kMarkBytes = 4;
constexpr char kMarkLead = '\xF4';
constexpr int kMostDepth = 64;  // of the input, which is walked recursively

// The texts of special tokens as they are looked for in a text, sorted.
std::vector<std::string> special_texts(const Pipeline& pipeline) {
  std::vector<std::string> texts;
  for (TokenId token = 0; token < pipeline.tokens.size(); ++token) {
    if (pipeline.tokens.kind(token) != TokenKind::Special) continue;
    std::string text(pipeline.tokens.text(token));
    if (!text.empty()) texts.push_back(std::move(text));
  }
  std::ranges::sort(texts);
  return texts;
}

std::unique_ptr<const TokenFinder> finder_of(const std::vector<std::string>& texts) {
  std::vector<TokenFinder::Token> tokens;
  for (size_t i = 0; i < texts.size(); ++i) tokens.push_back({texts[i], static_cast<uint32_t>(i)});
  return std::make_unique<const TokenFinder>(tokens);
}

// Calls change() with every string of a JSON value, names of members among them.
template <class Change>
Json with_strings(const Json& value, const Change& change, int depth = 0) {
  if (depth > kMostDepth) fail(ErrorKind::Usage, "the conversation nests more than {} levels", kMostDepth);
  if (value.is_string()) return change(value.get_ref<const std::string&>());
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(with_strings(item, change, depth + 1));
    return list;
  }
  if (value.is_object()) {
    Json object = Json::object();
    for (const auto& [name, member] : value.items()) object[change(name)] = with_strings(member, change, depth + 1);
    return object;
  }
  return value;
}

bool is_mark(std::string_view text) {
  if (text.size() < kMarkBytes || next_utf8(text).kind != Utf8Kind::Character) return false;
  const char32_t c = decode_utf8(text.substr(0, kMarkBytes));
  return c >= kFirstMark && c <= kLastMark;
}

// The first private-use character of the plane at or after `begin`; npos when there is none.
size_t find_mark(std::string_view text, size_t begin) {
  size_t at = text.find(kMarkLead, begin);
  while (at != std::string_view::npos && !is_mark(text.substr(at))) at = text.find(kMarkLead, at + 1);
  return at;
}

char32_t mark_at(std::string_view text, size_t at) {
  return decode_utf8(text.substr(at, kMarkBytes));
}

size_t first_character_bytes(std::string_view text) {
  return next_utf8(text).length;
}

// Which character marks which special token.
class Marks {
 public:
  Marks(const std::vector<std::string>& specials, const TokenFinder& finder) : specials_(specials), finder_(finder) {}

  // What people use of the plane themselves marks nothing. For every text, before mark().
  void see(std::string_view text) {
    for (size_t at = find_mark(text, 0); at != text.npos; at = find_mark(text, at + kMarkBytes)) {
      used_.insert(mark_at(text, at));
    }
  }

  std::string mark(const std::string& text) {
    std::string marked;
    size_t done = 0;
    const auto put = [&](size_t begin, uint32_t special, size_t length) {
      marked.append(text, done, begin - done);
      append_utf8(marked, mark_of(special, length));
      done = begin + first_character_bytes(specials_[special]);
    };
    size_t end = 0;
    for (const auto& match : finder_.find(text)) {
      put(match.begin, match.index, match.length);
      end = match.begin + match.length;
    }
    if (const auto begun = begun_at_end(text, end)) put(begun->begin, begun->index, begun->length);
    return marked.append(text, done);
  }

  bool any() const { return !marks_.empty(); }
  // A special token that was written, or the beginning of one.
  std::string_view example() const {
    const auto& [special, length] = marks_.begin()->first;
    return std::string_view(specials_[special]).substr(0, length);
  }

  // The prompt with its characters back, and where special tokens stand that people wrote.
  std::pair<std::string, std::vector<TextRange>> restore(std::string_view prompt) const {
    std::string text;
    std::vector<TextRange> written;
    size_t done = 0;
    for (size_t at = find_mark(prompt, 0); at != prompt.npos; at = find_mark(prompt, at + kMarkBytes)) {
      const auto found = marked_.find(mark_at(prompt, at));
      if (found == marked_.end()) continue;
      const auto& [special, length] = found->second;
      text.append(prompt, done, at - done);
      written.push_back({text.size(), text.size() + length});
      text.append(specials_[special], 0, first_character_bytes(specials_[special]));
      done = at + kMarkBytes;
    }
    text.append(prompt, done);
    return {std::move(text), std::move(written)};
  }

 private:
  // A special token that begins where the text ends, behind `from`: templates join texts, and trim them.
  std::optional<TokenFinder::Match> begun_at_end(std::string_view text, size_t from) const {
    const size_t end = text.find_last_not_of(" \t\r\n") + 1;
    const size_t longest = specials_.empty() ? 0 : std::ranges::max(specials_, {}, &std::string::size).size();
    for (size_t begin = std::max(from, end - std::min(end, longest)); begin < end; ++begin) {
      const std::string_view rest = text.substr(begin, end - begin);
      const auto special =
          std::ranges::lower_bound(specials_, rest, {}, [](const auto& s) { return std::string_view(s); });
      if (special == specials_.end() || !special->starts_with(rest)) continue;
      if (rest.size() < first_character_bytes(*special)) continue;
      return TokenFinder::Match{begin, rest.size(), static_cast<uint32_t>(special - specials_.begin())};
    }
    return std::nullopt;
  }

  using Key = std::pair<uint32_t, size_t>;  // index of the special token, bytes of it that were written
  char32_t mark_of(uint32_t special, size_t length) {
    const auto known = marks_.find({special, length});
    if (known != marks_.end()) return known->second;
    while (used_.contains(next_)) ++next_;
    if (next_ > kLastMark) fail(ErrorKind::DoesNotFit, "the conversation has too many kinds of special tokens in it");
    marked_.emplace(next_, Key{special, length});
    marks_.emplace(Key{special, length}, next_);
    return next_++;
  }

  const std::vector<std::string>& specials_;
  const TokenFinder& finder_;
  std::set<char32_t> used_;
  char32_t next_ = kFirstMark;
  std::map<char32_t, Key> marked_;
  std::map<Key, char32_t> marks_;
};

}  // namespace

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, ChatTemplate chat_template)
    : tokenizer_(tokenizer),
      template_(std::move(chat_template)),
      specials_(special_texts(*tokenizer.pipeline_)),
      finder_(finder_of(specials_)) {}

ChatEncoder::~ChatEncoder() = default;

ChatEncoder::Prompt ChatEncoder::encode(ChatInput input) const {
  Marks marks(specials_, *finder_);
  const auto mark = [&marks](const std::string& text) { return marks.mark(text); };
  const std::array<Json*, 4> parts{&input.messages, &input.tools, &input.documents, &input.variables};
  for (const Json* part : parts) marks.see(part->dump(-1, ' ', false, Json::error_handler_t::replace));
  ChatInput as_written = input;
  for (Json* part : parts) *part = with_strings(*part, mark);
  input.messages = normalized_messages(input.messages);
  input.special_tokens = tokenizer_.named_tokens();
  auto [text, written] = marks.restore(template_.render(input));
  if (marks.any()) {
    ChatInput plain = std::move(as_written);
    plain.messages = normalized_messages(plain.messages);
    plain.special_tokens = input.special_tokens;
    if (template_.render(plain) != text) {
      fail(
          ErrorKind::Unsupported,
          "{}: it changes the special tokens that a message holds, so that nobody can tell them from its own; leave {} "
          "out of the message",
          template_.name(), in_quotes(marks.example()));
    }
  }
  Encoded encoded = tokenizer_.encode_and_check(text, SpecialTokens::Parse, written);
  if (encoded.first_lost) {
    fail(ErrorKind::Unsupported,
         "{}: its prompt has the byte {:#04x}, for which the vocabulary has no token; leave it out", template_.name(),
         encoded.first_lost->byte);
  }
  return {std::move(text), std::move(encoded.tokens)};
}

}  // namespace lockstep
