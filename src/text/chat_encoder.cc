// A template may move, cut and repeat what people wrote, so nobody knows afterwards where that stands. Therefore the
// first character of every special token in it is replaced before, by a private-use character that nothing else has;
// when the prompt is there, the character comes back, and the place is remembered.

#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
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

std::vector<std::string> special_texts(const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    if (!tokenizer.is_special(token)) continue;
    std::string text = tokenizer.piece(token);
    if (!text.empty()) texts.push_back(std::move(text));
  }
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

size_t first_character(std::string_view text) {
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
    for (const auto& match : finder_.find(text)) {
      marked.append(text, done, match.begin - done);
      append_utf8(marked, mark_of(match.index));
      done = match.begin + first_character(specials_[match.index]);
    }
    return marked.append(text, done);
  }

  // The prompt with its characters back, and where special tokens stand that people wrote.
  std::pair<std::string, std::vector<TextRange>> restore(std::string_view prompt) const {
    std::string text;
    std::vector<TextRange> written;
    size_t done = 0;
    for (size_t at = find_mark(prompt, 0); at != prompt.npos; at = find_mark(prompt, at + kMarkBytes)) {
      const auto found = special_of_.find(mark_at(prompt, at));
      if (found == special_of_.end()) continue;
      const std::string& special = specials_[found->second];
      text.append(prompt, done, at - done);
      written.push_back({text.size(), text.size() + special.size()});
      text.append(special, 0, first_character(special));
      done = at + kMarkBytes;
    }
    text.append(prompt, done);
    return {std::move(text), std::move(written)};
  }

 private:
  char32_t mark_of(uint32_t special) {
    const auto known = mark_of_.find(special);
    if (known != mark_of_.end()) return known->second;
    while (used_.contains(next_)) ++next_;
    if (next_ > kLastMark) fail(ErrorKind::DoesNotFit, "the conversation has too many kinds of special tokens in it");
    special_of_.emplace(next_, special);
    mark_of_.emplace(special, next_);
    return next_++;
  }

  const std::vector<std::string>& specials_;
  const TokenFinder& finder_;
  std::set<char32_t> used_;
  char32_t next_ = kFirstMark;
  std::map<char32_t, uint32_t> special_of_;
  std::map<uint32_t, char32_t> mark_of_;
};

}  // namespace

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, ChatTemplate chat_template)
    : tokenizer_(tokenizer),
      template_(std::move(chat_template)),
      specials_(special_texts(tokenizer)),
      finder_(finder_of(specials_)) {}

ChatEncoder::~ChatEncoder() = default;

ChatEncoder::Prompt ChatEncoder::encode(ChatInput input) const {
  Marks marks(specials_, *finder_);
  const auto see = [&marks](const std::string& text) {
    marks.see(text);
    return text;
  };
  const auto mark = [&marks](const std::string& text) { return marks.mark(text); };
  const std::array<Json*, 3> parts{&input.messages, &input.tools, &input.documents};
  for (const Json* part : parts) with_strings(*part, see);
  for (Json* part : parts) *part = with_strings(*part, mark);
  input.messages = normalized_messages(input.messages);
  input.special_tokens = tokenizer_.named_tokens();
  auto [text, written] = marks.restore(template_.render(input));
  if (const auto lost = tokenizer_.first_lost_byte(text, SpecialTokens::Parse)) {
    fail(ErrorKind::Unsupported, "the prompt has the byte {:#04x}, for which the vocabulary has no token", lost->byte);
  }
  std::vector<TokenId> tokens = tokenizer_.encode(text, SpecialTokens::Parse, written);
  return {std::move(text), std::move(tokens)};
}

}  // namespace lockstep
