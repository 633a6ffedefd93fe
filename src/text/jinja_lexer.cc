// The rules are those of jinja2's regular expressions, as a scanner that never goes back.
#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

constexpr size_t kMostSource = 1 << 19;  // bytes; published templates stay below 50,000

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Line breaks of all systems as \n, and one at the very end left out.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// Digits in groups that single underscores join; nothing where none begin at `at`.
std::optional<size_t> digits_end(std::string_view text, size_t at) {
  if (at >= text.size() || !is_digit(text[at])) return std::nullopt;
  while (true) {
    while (at < text.size() && is_digit(text[at])) ++at;
    if (at + 1 >= text.size() || text[at] != '_' || !is_digit(text[at + 1])) return at;
    ++at;
  }
}

// Where a number with a fraction or an exponent ends; nothing: there is none.
std::optional<size_t> float_end(std::string_view text, size_t at) {
  const auto whole = digits_end(text, at);
  if (!whole) return std::nullopt;
  size_t end = *whole;
  bool is_float = false;
  if (end < text.size() && text[end] == '.') {
    if (const auto fraction = digits_end(text, end + 1)) {
      end = *fraction;
      is_float = true;
    }
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    if (const auto exponent = digits_end(text, digits)) return exponent;
  }
  return is_float ? std::optional(end) : std::nullopt;
}

struct IntegerText {
  size_t end;
  int base;
  size_t digits;  // where they begin
};

IntegerText integer_text(std::string_view text, size_t at) {
  const auto run = [&](size_t from, auto is_one) {
    size_t end = from;
    while (true) {
      const size_t digit = end < text.size() && text[end] == '_' ? end + 1 : end;
      if (digit >= text.size() || !is_one(text[digit])) return end;
      end = digit + 1;
    }
  };
  if (text[at] == '0' && at + 1 < text.size()) {
    const char kind = static_cast<char>(text[at + 1] | 0x20);
    size_t end = at + 2;
    if (kind == 'b') end = run(at + 2, [](char c) { return c == '0' || c == '1'; });
    if (kind == 'o') end = run(at + 2, [](char c) { return c >= '0' && c <= '7'; });
    if (kind == 'x') end = run(at + 2, [](char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); });
    if (end > at + 2) return {end, kind == 'b' ? 2 : kind == 'o' ? 8 : 16, at + 2};
  }
  if (text[at] == '0') return {run(at + 1, [](char c) { return c == '0'; }), 10, at};
  return {run(at + 1, is_digit), 10, at};
}

// A backslash escape of Python at text[at], which is the backslash. Appends what it stands for.
size_t unescape(std::string_view text, size_t at, std::string& out) {
  const char kind = text[at + 1];
  const auto hex = [&](size_t digits) {
    uint32_t value = 0;
    const size_t begin = at + 2;
    const bool whole = begin + digits <= text.size();
    const char* const last = text.data() + std::min(begin + digits, text.size());
    const auto [end, error] = std::from_chars(text.data() + begin, last, value, 16);
    if (!whole || error != std::errc() || end != last) refuse("a string has a broken escape \\{}", kind);
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      unsupported("a string has the escape \\{} of what is no character: {:x}", kind, value);
    }
    append_utf8(out, value);
    return begin + digits;
  };
  constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
  if (const size_t i = kFrom.find(kind); i != std::string_view::npos) {
    out += kTo[i];
    return at + 2;
  }
  switch (kind) {
    case '\n':
      return at + 2;
    case 'x':
      return hex(2);
    case 'u':
      return hex(4);
    case 'U':
      return hex(8);
    case 'N':
      unsupported("a string has an escape \\N, a character by name");
    default:
      break;
  }
  if (kind >= '0' && kind <= '7') {
    uint32_t value = 0;
    size_t end = at + 1;
    while (end < text.size() && end < at + 4 && text[end] >= '0' && text[end] <= '7') {
      value = value * 8 + static_cast<uint32_t>(text[end++] - '0');
    }
    append_utf8(out, value);
    return end;
  }
  out += '\\';
  return at + 1;
}

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::Data:
      return "text";
    case TokenKind::VariableBegin:
      return "'{{'";
    case TokenKind::VariableEnd:
      return "'}}'";
    case TokenKind::BlockBegin:
      return "'{%'";
    case TokenKind::BlockEnd:
      return "'%}'";
    case TokenKind::End:
      return "the end of the template";
    case TokenKind::Integer:
      return "a number";
    case TokenKind::Float:
      return "a number";
    case TokenKind::String:
      return "a string";
    case TokenKind::Name:
    case TokenKind::Operator:
      break;
  }
  return in_quotes(token.text);
}

Lexer::Lexer(std::string_view source) {
  if (source.size() > kMostSource) {
    throw Failure(ErrorKind::DoesNotFit,
                  fmt::format("the template has {} bytes; at most {} are read", source.size(), kMostSource));
  }
  source_ = normalized(source);
  if (!is_utf8(source_)) refuse("the template is no UTF-8");
}

Token Lexer::next() {
  while (delayed_.empty() && (state_ == State::Root || state_ == State::Raw)) {
    if (at_ >= source_.size() && state_ == State::Root) return token(TokenKind::End);
    Token result;
    if (state_ == State::Raw ? raw_text(result) : next_outside(result)) return result;
  }
  if (!delayed_.empty()) {
    Token result = std::move(delayed_.back());
    delayed_.pop_back();
    return result;
  }
  return next_inside();
}

// Text up to the next tag, and into the tag.
bool Lexer::next_outside(Token& result) {
  const size_t begin = at_;
  size_t tag = source_.find('{', at_);
  while (
      tag != std::string::npos &&
      (tag + 1 >= source_.size() || (source_[tag + 1] != '{' && source_[tag + 1] != '%' && source_[tag + 1] != '#'))) {
    tag = source_.find('{', tag + 1);
  }
  const std::string_view text = std::string_view(source_).substr(begin, tag - begin);
  if (tag == std::string::npos) {
    result = token(TokenKind::Data, std::string(text));
    advance(source_.size());
    return true;
  }
  const char kind = source_[tag + 1];
  char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
  if (sign != '-' && sign != '+') sign = 0;
  size_t after = tag + 2 + (sign != 0 ? 1 : 0);
  size_t raw = 0;
  if (kind == '%') {
    char raw_sign = 0;
    raw = raw_tag_at(tag, "raw", &raw_sign, false);
    if (raw > 0) after = tag + raw;
  }
  result = token(TokenKind::Data, stripped(text, sign, kind == '{'));
  advance(after);
  line_starting_ = source_[after - 1] == '\n';
  if (raw > 0) {
    state_ = State::Raw;
  } else if (kind == '#') {
    skip_comment(line_);
  } else {
    state_ = kind == '{' ? State::Variable : State::Block;
    Token begins = token(kind == '{' ? TokenKind::VariableBegin : TokenKind::BlockBegin);
    if (result.text.empty()) {
      result = std::move(begins);
      return true;
    }
    delayed_.push_back(std::move(begins));
  }
  return !result.text.empty();
}

// Text without its white space before a tag, as the tag's sign and lstrip_blocks have it.
std::string Lexer::stripped(std::string_view text, char sign, bool is_variable) {
  if (sign == '-') return std::string(strip_right(text));
  if (sign == '+' || is_variable) return std::string(text);
  const size_t line_break = text.rfind('\n');
  const size_t line = line_break == std::string_view::npos ? 0 : line_break + 1;
  if (line == 0 && !line_starting_) return std::string(text);
  return std::string(strip_left(text.substr(line)).empty() ? text.substr(0, line) : text);
}

// Like a raw block, one that begins where the template ends is no error in jinja2.
void Lexer::skip_comment(int line) {
  if (at_ >= source_.size()) return;
  const auto end = find_first(source_, "#}", at_);
  if (!end) {
    line_ = line;
    broken("a comment has no end");
  }
  const bool strips = *end > at_ && source_[*end - 1] == '-';
  const bool keeps = *end > at_ && source_[*end - 1] == '+';
  advance(*end + 2);
  if (strips) {
    skip_space();
  } else if (!keeps && at("\n")) {
    advance(at_ + 1);
  }
  line_starting_ = source_[at_ - 1] == '\n';
}

size_t Lexer::raw_tag_at(size_t begin, std::string_view name, char* sign, bool is_end) const {
  std::string_view text = std::string_view(source_).substr(begin);
  const size_t size = text.size();
  if (!text.starts_with("{%")) return 0;
  text.remove_prefix(2);
  *sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? text[0] : '\0';
  if (*sign != 0) text.remove_prefix(1);
  text = strip_left(text);
  if (!text.starts_with(name)) return 0;
  text = strip_left(text.substr(name.size()));
  if (text.starts_with("-%}")) return size - strip_left(text.substr(3)).size();
  if (is_end && text.starts_with("+%}")) return size - text.size() + 3;
  if (!text.starts_with("%}")) return 0;
  text.remove_prefix(2);
  if (is_end && text.starts_with('\n')) text.remove_prefix(1);
  return size - text.size();
}

// What stands between {% raw %} and {% endraw %}.
bool Lexer::raw_text(Token& result) {
  if (at_ >= source_.size()) {
    state_ = State::Root;
    return false;
  }
  for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 2)) {
    char sign = 0;
    const size_t bytes = raw_tag_at(tag, "endraw", &sign, true);
    if (bytes == 0) continue;
    result = token(TokenKind::Data, stripped(std::string_view(source_).substr(at_, tag - at_), sign, false));
    advance(tag + bytes);
    line_starting_ = source_[at_ - 1] == '\n';
    state_ = State::Root;
    return !result.text.empty();
  }
  broken("a raw block has no end");
}

Token Lexer::next_inside() {
  skip_space();
  if (at_ >= source_.size()) return token(TokenKind::End);
  const bool variable = state_ == State::Variable;
  const std::string_view end = variable ? "}}" : "%}";
  if (open_.empty()) {
    const bool strips = at("-") && std::string_view(source_).substr(at_ + 1).starts_with(end);
    const bool keeps = !variable && at("+") && std::string_view(source_).substr(at_ + 1).starts_with(end);
    if (strips || keeps || at(end)) {
      const Token result = token(variable ? TokenKind::VariableEnd : TokenKind::BlockEnd);
      advance(at_ + 2 + (strips || keeps ? 1 : 0));
      if (strips)
        skip_space();
      else if (!keeps && !variable && at("\n"))
        advance(at_ + 1);
      line_starting_ = source_[at_ - 1] == '\n';
      state_ = State::Root;
      return result;
    }
  }
  const char c = source_[at_];
  if (is_digit(c)) return number();
  if (c == '\'' || c == '"') return string(c);
  size_t bytes = 0;
  const std::string_view rest = std::string_view(source_).substr(at_);
  if (is_identifier_start(first_character(rest, &bytes))) {
    size_t length = bytes;
    while (length < rest.size() && is_identifier_part(first_character(rest.substr(length), &bytes))) length += bytes;
    const Token result = token(TokenKind::Name, std::string(rest.substr(0, length)));
    advance(at_ + length);
    return result;
  }
  constexpr std::array<std::string_view, 26> kOperators{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                        "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                        ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
  for (const std::string_view op : kOperators) {
    if (!at(op)) continue;
    if (op == "(") open_.push_back(')');
    if (op == "[") open_.push_back(']');
    if (op == "{") open_.push_back('}');
    if (op == ")" || op == "]" || op == "}") {
      if (open_.empty()) broken(fmt::format("'{}' closes nothing", op));
      if (open_.back() != op[0]) broken(fmt::format("'{}' stands where '{}' should", op, open_.back()));
      open_.pop_back();
    }
    const Token result = token(TokenKind::Operator, std::string(op));
    advance(at_ + op.size());
    return result;
  }
  broken(fmt::format("{} cannot stand in a tag", in_quotes(rest.substr(0, next_utf8(rest).length))));
}

Token Lexer::number() {
  const std::string_view text = source_;
  const bool after_dot = at_ > 0 && text[at_ - 1] == '.';
  const auto without_underscores = [&](size_t from, size_t to) {
    std::string digits(text.substr(from, to - from));
    std::erase(digits, '_');
    return digits;
  };
  if (const auto end = float_end(text, at_); end && !after_dot) {
    Token result = token(TokenKind::Float);
    const std::string digits = without_underscores(at_, *end);
    // Beyond the largest double it is infinite, as in Python; from_chars leaves it as it was.
    const auto [_, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result.number);
    if (error == std::errc::result_out_of_range) result.number = std::strtod(digits.c_str(), nullptr);
    advance(*end);
    return result;
  }
  const auto [end, base, first] = integer_text(text, at_);
  Token result = token(TokenKind::Integer);
  const std::string digits = without_underscores(first, end);
  const auto [_, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result.integer, base);
  if (error != std::errc()) {
    throw Failure(ErrorKind::Unsupported, fmt::format("the integer {} has more than 64 bits", in_quotes(digits)),
                  line_);
  }
  advance(end);
  return result;
}

Token Lexer::string(char quote) {
  size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) broken("a string has no end");
  const std::string_view body = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
  Token result = token(TokenKind::String);
  for (size_t i = 0; i < body.size();) {
    if (body[i] != '\\') {
      result.text += body[i++];
    } else if (static_cast<unsigned char>(body[i + 1]) < 0x80) {
      try {
        i = unescape(body, i, result.text);
      } catch (Failure& failure) {
        failure.line = line_;
        throw;
      }
    } else {
      // jinja2 writes the character as an escape before it undoes escapes: the backslash escapes that one's backslash.
      size_t bytes = 0;
      const auto c = static_cast<uint32_t>(first_character(body.substr(i + 1), &bytes));
      result.text += c < 0x100     ? fmt::format("\\x{:02x}", c)
                     : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                                   : fmt::format("\\U{:08x}", c);
      i += 1 + bytes;
    }
  }
  advance(end + 1);
  return result;
}

void Lexer::skip_space() {
  const std::string_view rest = std::string_view(source_).substr(at_);
  advance(at_ + rest.size() - strip_left(rest).size());
}

void Lexer::advance(size_t to) {
  line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                       source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
  at_ = to;
}

Token Lexer::token(TokenKind kind, std::string text) const {
  Token result;
  result.kind = kind;
  result.line = line_;
  result.text = std::move(text);
  return result;
}

void Lexer::broken(std::string message) const {
  throw Failure(ErrorKind::Malformed, std::move(message), line_);
}

}  // namespace lockstep::jinja
