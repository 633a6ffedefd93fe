// A template may move, cut and repeat what people wrote, so nobody knows afterwards where that stands. Therefore
// characters of it are replaced before, by private-use characters that no message has; when the prompt is there, the
// characters come back, and their places are remembered: a special token that touches one is text. A template may also
// look at a character and do something else for a mark: marks count only where the prompt is the one without them.

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/quoted.h"
#include "base/utf8.h"
#include "text/pipeline.h"
#include "text/text.h"
#include "text/token_finder.h"
#include "text/unicode.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// The private-use characters of plane 16, 4 bytes of UTF-8 each, of which this is the first.
constexpr char32_t kFirstMark = 0x100000, kLastMark = 0x10FFFD;
constexpr size_t kMarkBytes = 4;
constexpr char kMarkLead = '\xF4';
constexpr int kMostDepth = 64;                   // of the input, which is walked recursively
constexpr std::string_view kBlanks = " \t\r\n";  // what templates trim before they join texts

bool is_ascii_punctuation(char c) {
  return c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z');
}

std::string reversed(std::string_view text) {
  return {text.rbegin(), text.rend()};
}

// Whether one of the texts, which are sorted, begins so.
bool one_begins_with(const std::vector<std::string>& sorted, std::string_view beginning) {
  const auto first = std::ranges::lower_bound(sorted, beginning, {}, [](const auto& s) { return std::string_view(s); });
  return first != sorted.end() && first->starts_with(beginning);
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

}  // namespace

// The special tokens as they are looked for in what people write.
class ChatEncoder::SpecialTexts {
 public:
  explicit SpecialTexts(const Pipeline& pipeline) : pipeline_(pipeline) {
    std::vector<TokenFinder::Token> tokens;
    for (TokenId token = 0; token < pipeline.tokens.size(); ++token) {
      const std::string_view text = pipeline.tokens.text(token);
      if (pipeline.tokens.kind(token) != TokenKind::Special || text.empty()) continue;
      tokens.push_back({text, 0});
      texts_.emplace_back(text);
      reversed_.push_back(reversed(text));
      longest_ = std::max(longest_, text.size());
      for (const char edge : {text.front(), text.back()}) {
        if (is_ascii_punctuation(edge)) edges_ += edge;
      }
    }
    std::ranges::sort(texts_);
    std::ranges::sort(reversed_);
    std::ranges::sort(edges_);
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    finder_ = std::make_unique<const TokenFinder>(tokens);
  }

  // Some are looked for in what the normalizer makes of a text.
  bool after_normalizer() const { return pipeline_.added.normalizes_special(); }

  struct Place {
    size_t at;              // the byte to be marked
    std::string_view part;  // of a special token
  };
  // In no order: where special tokens begin, those among them that its end cuts off; and the last
  // one of those that its beginning cuts off, where that is punctuation.
  std::vector<Place> places(std::string_view text) const {
    std::vector<Place> places;
    for (const auto& match : finder_->find(text))
      places.push_back({match.begin, text.substr(match.begin, match.length)});
    const size_t end = text.find_last_not_of(kBlanks) + 1;
    for (size_t at = end - std::min(end, longest_); at < end; ++at) {
      if (one_begins_with(texts_, text.substr(at, end - at))) places.push_back({at, text.substr(at, end - at)});
    }
    const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
    const std::string front = reversed(text.substr(begin, longest_));
    for (size_t length = 1; length <= front.size(); ++length) {
      const std::string_view cut = std::string_view(front).substr(front.size() - length);
      if (!is_ascii_punctuation(cut.front()) || !one_begins_with(reversed_, cut)) continue;
      places.push_back({begin + length - 1, text.substr(begin, length)});
    }
    return places;
  }

  // Punctuation that a special token begins or ends with, or what the normalizer makes such punctuation of.
  bool is_edge(std::string_view character) const {
    if (character.find_first_of(edges_) != character.npos) return true;
    if (!after_normalizer()) return false;
    return pipeline_.normalizer.apply(character).text.find_first_of(edges_) != std::string::npos;
  }

 private:
  const Pipeline& pipeline_;
  std::vector<std::string> texts_, reversed_;  // sorted
  size_t longest_ = 0;                         // bytes
  std::string edges_;
  std::unique_ptr<const TokenFinder> finder_;
};

// Which character each mark stands for.
class ChatEncoder::Marks {
 public:
  Marks(const SpecialTexts& specials, bool all_edges) : specials_(specials), all_edges_(all_edges) {}

  // What people use of the plane themselves marks nothing. For every text, before mark().
  void see(std::string_view text) {
    for (size_t at = find_mark(text, 0); at != text.npos; at = find_mark(text, at + kMarkBytes)) {
      used_.insert(mark_at(text, at));
    }
  }

  // text is valid UTF-8.
  std::string mark(std::string_view text) {
    std::vector<SpecialTexts::Place> places = specials_.places(text);
    std::ranges::sort(places, {}, &SpecialTexts::Place::at);
    if (example_.empty() && !places.empty()) example_ = places[0].part;
    std::string marked;
    size_t at = 0;
    auto place = places.begin();
    for_each_character(text, [&](char32_t code, std::string_view character) {
      const size_t end = at + character.size();
      bool wanted = all_edges_ && is_edge(code, character);
      for (; place != places.end() && place->at < end; ++place) wanted = true;
      if (wanted) {
        append_utf8(marked, mark_of(code));
      } else {
        marked += character;
      }
      at = end;
    });
    return marked;
  }

  bool any() const { return !marks_.empty(); }
  // A special token that was marked, or a part of one.
  const std::string& example() const { return example_; }

  // The prompt with its characters back, and where they stand.
  std::pair<std::string, std::vector<TextRange>> restore(std::string_view prompt) const {
    std::string text;
    std::vector<TextRange> written;
    size_t done = 0;
    for (size_t at = find_mark(prompt, 0); at != prompt.npos; at = find_mark(prompt, at + kMarkBytes)) {
      const auto found = marked_.find(mark_at(prompt, at));
      if (found == marked_.end()) continue;
      text.append(prompt, done, at - done);
      const size_t begin = text.size();
      append_utf8(text, found->second);
      written.push_back({begin, text.size()});
      done = at + kMarkBytes;
    }
    text.append(prompt, done);
    return {std::move(text), std::move(written)};
  }

 private:
  bool is_edge(char32_t code, std::string_view character) {
    const auto [known, is_new] = edges_.try_emplace(code, false);
    if (is_new) known->second = specials_.is_edge(character);
    return known->second;
  }

  char32_t mark_of(char32_t character) {
    const auto known = marks_.find(character);
    if (known != marks_.end()) return known->second;
    while (used_.contains(next_)) ++next_;
    if (next_ > kLastMark)
      fail(ErrorKind::DoesNotFit, "the conversation uses up the private-use characters of plane 16");
    marked_.emplace(next_, character);
    marks_.emplace(character, next_);
    return next_++;
  }

  const SpecialTexts& specials_;
  const bool all_edges_;
  std::string example_;
  std::set<char32_t> used_;
  char32_t next_ = kFirstMark;
  std::map<char32_t, bool> edges_;  // of characters that were asked for
  std::map<char32_t, char32_t> marked_, marks_;
};

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, ChatTemplate chat_template)
    : tokenizer_(tokenizer),
      template_(std::move(chat_template)),
      specials_(std::make_unique<const SpecialTexts>(*tokenizer.pipeline_)) {}

ChatEncoder::~ChatEncoder() = default;

std::string ChatEncoder::render(ChatInput input) const {
  input.messages = normalized_messages(input.messages);
  return template_.render(input);
}

bool ChatEncoder::has_special(std::string_view text) const {
  return std::ranges::any_of(tokenizer_.encode(text, SpecialTokens::Parse),
                             [this](TokenId token) { return tokenizer_.is_special(token); });
}

// All edges of special tokens are marked, or, where the template looks at them ("</think>" in a message), only special
// tokens and what joins to one.
std::vector<TextRange> ChatEncoder::find_written(const ChatInput& input, std::string_view prompt) const {
  std::string example;
  for (const bool all_edges : {true, false}) {
    ChatInput marked = input;
    const std::array<Json*, 4> parts{&marked.messages, &marked.tools, &marked.documents, &marked.variables};
    Marks marks(*specials_, all_edges);
    for (const Json* part : parts) marks.see(part->dump());
    const auto mark = [&](const std::string& text) {
      std::string result = marks.mark(text);
      if (specials_->after_normalizer() && has_special(result)) {
        fail(ErrorKind::Unsupported,
             "a message holds what the tokenizer's normalizer makes a special token of: leave {} out", in_quotes(text));
      }
      return result;
    };
    for (Json* part : parts) *part = with_strings(*part, mark);
    if (!marks.any()) return {};
    example = marks.example();
    try {
      auto [text, written] = marks.restore(render(std::move(marked)));
      if (text == prompt) return std::move(written);
    } catch (const Error&) {
      // A template that raises for marks looks at them.
    }
  }
  fail(
      ErrorKind::Unsupported,
      "{}: it changes the special tokens that a message holds, so that nobody can tell them from its own; leave {} out "
      "of the message",
      template_.name(), in_quotes(example));
}

// Cutting a text at what was written may change its tokens; where special tokens are looked for after normalizing,
// there is no other way to keep it apart, and it is taken only where it makes a difference.
Encoded ChatEncoder::encode_prompt(std::string_view prompt, std::span<const TextRange> written) const {
  Encoded apart = tokenizer_.encode_and_check(prompt, SpecialTokens::Parse, written);
  if (written.empty() || !specials_->after_normalizer()) return apart;
  Encoded whole = tokenizer_.encode_and_check(prompt, SpecialTokens::Parse);
  const auto specials = [this](std::vector<TokenId> tokens) {
    std::erase_if(tokens, [this](TokenId token) { return !tokenizer_.is_special(token); });
    return tokens;
  };
  return specials(whole.tokens) == specials(apart.tokens) ? whole : apart;
}

ChatEncoder::Prompt ChatEncoder::encode(ChatInput input, int64_t most_tokens) const {
  input.special_tokens = tokenizer_.named_tokens();
  std::string text = render(input);
  const auto least = static_cast<int64_t>(text.size() / tokenizer_.most_bytes_per_token());
  if (least > most_tokens) {
    fail(ErrorKind::DoesNotFit, "the conversation has {} bytes, which are at least {} tokens, but at most {} fit",
         text.size(), least, most_tokens);
  }
  const std::vector<TextRange> written = find_written(input, text);
  Encoded encoded = encode_prompt(text, written);
  if (encoded.first_lost) {
    fail(ErrorKind::Unsupported,
         "{}: its prompt has the byte {:#04x}, for which the vocabulary has no token; leave it out", template_.name(),
         encoded.first_lost->byte);
  }
  return {std::move(text), std::move(encoded.tokens)};
}

}  // namespace lockstep
