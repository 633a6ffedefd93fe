// The text of values: str(), repr() and json.dumps().
#include <algorithm>

#include "text/jinja_numbers.h"
#include "text/jinja_operators.h"
#include "text/jinja_unicode.h"

namespace lockstep::jinja {
namespace {

void append_escape(std::string& out, char32_t c) {
  if (c < 0x100)
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
  else if (c < 0x10000)
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  else
    out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
}

// In single quotes, unless there are some in it and no double ones.
std::string quoted(std::string_view text) {
  const bool doubled = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  while (!text.empty()) {
    size_t bytes = 0;
    const char32_t c = first_character(text, &bytes);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x80 ? c >= 0x20 && c != 0x7F : is_printable(c)) {
      out += text.substr(0, bytes);
    } else {
      append_escape(out, c);
    }
    text.remove_prefix(bytes);
  }
  return out + quote;
}

void append_items(Runtime& runtime, const std::vector<Value>& items, Output& out, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(runtime, items[i], out, depth + 1);
  }
}

void append_view(Runtime& runtime, const DictView& view, Output& out, int depth) {
  out.append(type_name(Value(view)));
  out.append("([");
  bool first = true;
  for (const auto& [key, value] : view.dict->entries) {
    if (!std::exchange(first, false)) out.append(", ");
    const bool both = view.part == DictView::Part::Items;
    if (both) out.append("(");
    if (view.part != DictView::Part::Values) append_repr(runtime, key, out, depth + 1);
    if (both) out.append(", ");
    if (view.part != DictView::Part::Keys) append_repr(runtime, value, out, depth + 1);
    if (both) out.append(")");
  }
  out.append("])");
}

// ---- JSON

std::string json_string(std::string_view text, bool ascii) {
  std::string out = "\"";
  while (!text.empty()) {
    size_t bytes = 0;
    const char32_t c = first_character(text, &bytes);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000)) {
          out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
        } else if (ascii && c >= 0x10000) {
          const uint32_t pair = static_cast<uint32_t>(c) - 0x10000;
          out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (pair >> 10), 0xDC00 + (pair & 0x3FF));
        } else {
          out += text.substr(0, bytes);
        }
    }
    text.remove_prefix(bytes);
  }
  return out + '"';
}

std::string json_float(double value) {
  const std::string text = float_repr(value);
  if (text == "nan") return "NaN";
  if (text == "inf") return "Infinity";
  return text == "-inf" ? "-Infinity" : text;
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style, Output& out) : runtime_(runtime), style_(style), out_(out) {}

  void write(const Value& value, size_t level) {
    runtime_.spend();
    if (const Text* text = value.text()) {
      const Charge scratch(runtime_.budget(), 6 * text->bytes.size());
      out_.append(json_string(text->bytes, style_.ascii));
    } else if (value.is<None>()) {
      out_.append("null");
    } else if (const auto* b = value.get<bool>()) {
      out_.append(*b ? "true" : "false");
    } else if (const auto* i = value.get<int64_t>()) {
      out_.append(fmt::format("{}", *i));
    } else if (const auto* d = value.get<double>()) {
      out_.append(json_float(*d));
    } else if (const Sequence* sequence = value.sequence()) {
      write_list(*sequence, level);
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict, level);
    } else {
      if (const auto* undefined = value.get<Undefined>()) refuse("{}", describe(*undefined));
      refuse("a {} has no JSON", type_name(value));
    }
  }

 private:
  void write_list(const Sequence& sequence, size_t level) {
    if (sequence.items.empty()) return out_.append("[]");
    out_.append("[");
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      separate(i == 0, level + 1);
      write(sequence.items[i], level + 1);
    }
    close("]", level);
  }

  void write_dict(const Dict& dict, size_t level) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sorted) {
      std::ranges::stable_sort(entries, [&](auto* a, auto* b) { return less(runtime_, a->first, b->first); });
    }
    out_.append("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      separate(i == 0, level + 1);
      write_key(entries[i]->first);
      out_.append(style_.key_separator);
      write(entries[i]->second, level + 1);
    }
    close("}", level);
  }

  void write_key(const Value& key) {
    if (key.is<None>() || key.is<bool>() || key.is<int64_t>() || key.is<double>()) {
      out_.append("\"");
      write(key, 0);
      out_.append("\"");
    } else if (key.text() != nullptr) {
      write(key, 0);
    } else {
      refuse("a {} cannot be a key in JSON", type_name(key));
    }
  }

  void separate(bool first, size_t level) {
    if (!first) out_.append(style_.item_separator);
    break_line(level);
  }
  void close(std::string_view bracket, size_t level) {
    break_line(level);
    out_.append(bracket);
  }
  void break_line(size_t level) {
    if (!style_.indent) return;
    out_.append("\n");
    out_.append(level, *style_.indent);
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  Output& out_;
};

}  // namespace

void append_repr(Runtime& runtime, const Value& value, Output& out, int depth) {
  runtime.spend();
  if (depth > 2 * kMostNesting) throw Failure(ErrorKind::DoesNotFit, "what is printed nests too deeply");
  if (const Text* text = value.text()) {
    const Charge scratch(runtime.budget(), 6 * text->bytes.size());
    out.append(text->safe ? "Markup(" + quoted(text->bytes) + ")" : quoted(text->bytes));
  } else if (const Sequence* sequence = value.sequence()) {
    out.append(sequence->is_tuple ? "(" : "[");
    append_items(runtime, sequence->items, out, depth);
    out.append(!sequence->is_tuple ? "]" : sequence->items.size() == 1 ? ",)" : ")");
  } else if (const Dict* dict = value.dict()) {
    out.append("{");
    bool first = true;
    for (const auto& [key, item] : dict->entries) {
      if (!std::exchange(first, false)) out.append(", ");
      append_repr(runtime, key, out, depth + 1);
      out.append(": ");
      append_repr(runtime, item, out, depth + 1);
    }
    out.append("}");
  } else if (const auto* view = value.get<DictView>()) {
    append_view(runtime, *view, out, depth);
  } else if (const auto* range = value.get<Range>()) {
    out.append(fmt::format("range({}, {}", range->start, range->stop));
    out.append(range->step == 1 ? ")" : fmt::format(", {})", range->step));
  } else if (Object* object = value.object()) {
    out.append(object->repr(runtime, depth));
  } else if (value.is<IteratorRef>()) {
    unsupported("a generator is printed, whose text in Python is another on every run");
  } else if (value.is<Undefined>()) {
    out.append("Undefined");
  } else if (const auto* b = value.get<bool>()) {
    out.append(*b ? "True" : "False");
  } else if (const auto* i = value.get<int64_t>()) {
    out.append(fmt::format("{}", *i));
  } else if (const auto* d = value.get<double>()) {
    out.append(float_repr(*d));
  } else {
    out.append("None");
  }
}

std::string repr_of(Runtime& runtime, const Value& value) {
  Output out(runtime);
  append_repr(runtime, value, out);
  return std::move(out).take();
}

void append_str(Runtime& runtime, const Value& value, Output& out) {
  if (const Text* text = value.text())
    out.append(text->bytes);
  else if (!value.is<Undefined>())
    append_repr(runtime, value, out);
}

std::string str_of(Runtime& runtime, const Value& value) {
  Output out(runtime);
  append_str(runtime, value, out);
  return std::move(out).take();
}

TextRef soft_str(Runtime& runtime, const Value& value) {
  if (const auto* text = value.get<TextRef>()) return *text;
  return *runtime.text(str_of(runtime, value)).get<TextRef>();
}

void append_json(Runtime& runtime, const Value& value, const JsonStyle& style, Output& out) {
  JsonWriter(runtime, style, out).write(value, 0);
}

}  // namespace lockstep::jinja
