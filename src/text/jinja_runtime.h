// What the operations of the language share while a template is rendered: the budget, ways to make values, and how the
// arguments of a call reach what is called.
#pragma once

#include <array>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace lockstep::jinja {

constexpr int kMostNesting = 100;  // of containers; messages and tools of users stay below 20
constexpr int kMostDepth = 1000;   // of the interpreter: nested nodes, over all calls
// What an allocation costs beside its content: the heap's own bytes, a control block, the object.
constexpr size_t kOverhead = 96;

struct Filter;
struct Test;

// Throws Failure where depth is above `most`.
void check_nesting(int depth, int most);

class Runtime {
 public:
  Runtime(size_t steps, size_t bytes, const std::tm& now) : budget_(steps, bytes), now_(now) {}
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Budget& budget() { return budget_; }
  void spend(size_t steps = 1) { budget_.spend(steps); }
  const std::tm& now() const { return now_; }

  // All values of a rendering are made here. Text is well-formed UTF-8.
  Value text(std::string bytes, bool safe = false);
  Value list(std::vector<Value> items) { return sequence(std::move(items), false); }
  Value tuple(std::vector<Value> items) { return sequence(std::move(items), true); }
  Value group(const Value& name, const Value& items);
  Value dict(Dict&& entries);
  // content: what the object holds.
  template <class T, class... Args>
  Value object(const Value& content, Args&&... args) {
    spend();
    check_nesting(depth_of(content) + 1, 2 * kMostNesting);
    auto made = std::make_shared<T>(std::forward<Args>(args)...);
    made->charge = Charge(budget_, kOverhead + sizeof(T));
    made->depth = depth_of(content) + 1;
    return Value(ObjectRef(std::move(made)));
  }
  // A namespace, which may come to hold itself: it lives as long as the rendering.
  virtual Value make_namespace() = 0;

  // Filters and tests by name, for map("upper") and select("odd").
  Value apply(const Filter& filter, Value input, Arguments arguments);
  bool apply(const Test& test, Value input, Arguments arguments);
  Value apply_filter(const Value& name, const Value& input, Arguments arguments);
  bool apply_test(const Value& name, const Value& input, Arguments arguments);

  // One level deeper, for as long as it lives.
  class Deeper {
   public:
    explicit Deeper(Runtime& runtime) : runtime_(runtime) {
      if (++runtime.depth_ > kMostDepth) {
        throw Failure(ErrorKind::DoesNotFit, "it calls itself more deeply than a template may");
      }
    }
    ~Deeper() { --runtime_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  Value sequence(std::vector<Value> items, bool is_tuple);

  Budget budget_;
  const std::tm now_;
  int depth_ = 0;
};

// Text that grows, on the budget.
class Output {
 public:
  explicit Output(Runtime& runtime) : budget_(runtime.budget()), charge_(budget_, 0) {}

  void append(std::string_view text) {
    budget_.spend_bytes(text.size());
    charge_.grow(text.size());
    bytes_ += text;
  }
  void append(size_t count, std::string_view text);  // many times
  size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  // The text has a part that is no text: an error, once it is taken. (A loop that is left early may drop it before.)
  void spoil(Failure failure) { failure_ = std::move(failure); }
  std::string take() && {
    if (failure_) throw *failure_;
    return std::move(bytes_);
  }

 private:
  Budget& budget_;
  Charge charge_;
  std::string bytes_;
  std::optional<Failure> failure_;
};

// Items that grow, on the budget.
class Items {
 public:
  explicit Items(Runtime& runtime) : runtime_(runtime), charge_(runtime.budget(), 0) {}
  void push(Value value) {
    runtime_.spend();
    charge_.grow(sizeof(Value));
    values_.push_back(std::move(value));
  }
  size_t size() const { return values_.size(); }
  std::vector<Value>& values() { return values_; }
  std::vector<Value> take() { return std::move(values_); }

 private:
  Runtime& runtime_;
  Charge charge_;
  std::vector<Value> values_;
};

// The arguments of a call, in the order of the parameters of what is called.
class Bound {
 public:
  static constexpr size_t kMost = 6;

  bool given(size_t i) const { return !values_[i].is<Missing>(); }
  const Value& operator[](size_t i) const { return values_[i]; }
  Value value_or(size_t i, Value fallback) const { return given(i) ? values_[i] : std::move(fallback); }
  bool flag(size_t i, bool fallback) const { return given(i) ? truth(values_[i]) : fallback; }
  int64_t integer(size_t i, int64_t fallback) const;         // an int is required where it is given
  const Text& text(size_t i) const;                          // a str is required
  const Text* text_or_none(size_t i) const;                  // null: not given, or None
  std::vector<Value>& extra() { return extra_.positional; }  // for signatures that end in "*"
  Arguments& rest() { return extra_; }

 private:
  friend Bound bind(std::string_view what, std::string_view signature, Arguments arguments);
  std::array<Value, kMost> values_;
  Arguments extra_;
};

// signature: names of parameters with blanks between, those with "?" need not be given; after "/" come parameters that
// have no names for callers; "*" takes all that is left. "value width? first?". Throws Failure where arguments do not
// fit.
Bound bind(std::string_view what, std::string_view signature, Arguments arguments);

}  // namespace lockstep::jinja
