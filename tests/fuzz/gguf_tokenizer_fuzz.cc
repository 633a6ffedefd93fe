// Fuzz target: any vocabulary makes a tokenizer, or an Error in one line; and what a tokenizer says of any text holds.
// Plain bytes would seldom be a vocabulary, so they are read as choices: which bytes have tokens, which tokens are
// joined from earlier ones, what is broken. What remains is text. ICU decides what is a character and what is NFC.
#include <fuzzer/FuzzedDataProvider.h>
#include <unicode/normalizer2.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fuzz/tokenizer_checks.h"
#include "text/byte_alphabet.h"
#include "text/text.h"

namespace {

using namespace lockstep;

constexpr std::array<const char*, 10> kPre{"gpt-2", "smollm",    "llama-bpe", "llama-v3", "llama3",
                                           "qwen2", "starcoder", "tekken",    "default",  ""};
constexpr std::array<const char*, 5> kStopTexts{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
                                                "<|endoftext|>"};
constexpr size_t kMostTokens = 64;  // beside those of the bytes
constexpr size_t kMostWord = 24;    // bytes

// A vocabulary as the choices say: mostly one that can be used.
class Vocabulary {
 public:
  explicit Vocabulary(FuzzedDataProvider& choices) : choices_(choices) {
    model_ = choices.ConsumeIntegralInRange(0, 2) == 0 ? "llama" : "gpt2";
    pre_ = choices.PickValueInArray(kPre);
    broken_ = choices.ConsumeIntegralInRange(0, 7) == 0;
    add_bytes();
    for (size_t i = choices.ConsumeIntegralInRange<size_t>(0, kMostTokens); i > 0; --i) add_token();
    if (broken_) break_lists();
  }

  GgufVocabulary view() {
    token_views_.assign(tokens_.begin(), tokens_.end());
    merge_views_.assign(merges_.begin(), merges_.end());
    GgufVocabulary v;
    v.file = "fuzz.gguf";
    v.model = model_;
    v.pre = pre_;
    v.tokens = token_views_;
    v.types = types_;
    if (v.model == "llama") {
      scores_.clear();
      for (size_t i = 0; i < tokens_.size(); ++i) scores_.push_back(choices_.ConsumeIntegralInRange(-9, 9));
      if (broken_ && choices_.ConsumeBool()) scores_.push_back(0);
      if (choices_.ConsumeBool()) v.add_space_prefix = choices_.ConsumeBool();
    }
    v.scores = scores_;
    v.merges = merge_views_;
    for (const auto id : {&GgufVocabulary::bos, &GgufVocabulary::eos, &GgufVocabulary::unknown,
                          &GgufVocabulary::padding, &GgufVocabulary::end_of_turn}) {
      const auto last = static_cast<int64_t>(tokens_.size()) - 1;
      if (broken_)
        v.*id = choices_.ConsumeIntegral<int64_t>();
      else if (choices_.ConsumeBool() && last >= 0)
        v.*id = choices_.ConsumeIntegralInRange<int64_t>(0, last);
    }
    if (choices_.ConsumeBool()) v.add_bos = choices_.ConsumeBool();
    return v;
  }

 private:
  // Every byte, or all but some, each as its model has it.
  void add_bytes() {
    if (model_ == "llama") {
      for (int byte = choices_.ConsumeBool() ? 0 : 200; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 6);
      for (const char* text : {"\xE2\x96\x81", "a", "e", "t", "\xC3\xA9", "\xE2\x96\x81t"}) add(text, 1);
      return;
    }
    const bool all = choices_.ConsumeIntegralInRange(0, 3) > 0;
    const auto gone = all ? "" : choices_.ConsumeRandomLengthString(kMostWord);
    for (int byte = 0; byte < 256; ++byte) {
      if (gone.find(static_cast<char>(byte)) == std::string::npos) {
        add(std::string(alphabet_.character(static_cast<uint8_t>(byte))), 1);
      }
    }
  }

  void add_token() {
    switch (choices_.ConsumeIntegralInRange(0, 5)) {
      case 0:
      case 1:
        join();
        return;
      case 2:
        add(in_alphabet(word()), type());
        return;
      case 3:
        add(word(), type());
        return;
      case 4:
        add(choices_.PickValueInArray(kStopTexts), type());
        return;
      default:
        add(any_token() + any_token(), type());  // reached by no merge
    }
  }

  // Two tokens and the merge that joins them.
  void join() {
    const auto left = any_token(), right = any_token();
    add(left + right, type());
    if (merge_texts_.insert(left + " " + right).second || broken_) merges_.push_back(left + " " + right);
  }

  void break_lists() {
    if (choices_.ConsumeBool()) types_.clear();
    if (choices_.ConsumeBool()) merges_.push_back(word());
    if (choices_.ConsumeBool()) tokens_.push_back(word());
    if (choices_.ConsumeBool()) types_.push_back(choices_.ConsumeIntegral<int64_t>());
  }

  void add(std::string text, int64_t type) {
    if (!texts_.insert(text).second && !broken_) return;
    tokens_.push_back(std::move(text));
    types_.push_back(type);
  }

  std::string any_token() {
    return tokens_.empty() ? "" : tokens_[choices_.ConsumeIntegralInRange<size_t>(0, tokens_.size() - 1)];
  }
  std::string word() { return choices_.ConsumeRandomLengthString(kMostWord); }
  int64_t type() { return choices_.ConsumeBool() ? 1 : choices_.ConsumeIntegralInRange<int64_t>(1, 6); }
  std::string in_alphabet(std::string_view bytes) const {
    std::string text;
    for (const char byte : bytes) text += alphabet_.character(static_cast<uint8_t>(byte));
    return text;
  }

  FuzzedDataProvider& choices_;
  const ByteAlphabet alphabet_;
  std::string model_, pre_;
  std::vector<double> scores_;
  bool broken_ = false;
  std::vector<std::string> tokens_, merges_;
  std::vector<int64_t> types_;
  std::set<std::string> texts_, merge_texts_;
  std::vector<std::string_view> token_views_, merge_views_;
};

icu::UnicodeString nfc(std::string_view bytes) {
  UErrorCode error = U_ZERO_ERROR;
  const auto text = icu::UnicodeString::fromUTF8({bytes.data(), static_cast<int32_t>(bytes.size())});
  const auto normal = icu::Normalizer2::getNFCInstance(error)->normalize(text, error);
  require(U_SUCCESS(error), "ICU normalises");
  return normal;
}

bool is_subsequence(std::string_view part, std::string_view whole) {
  for (const char byte : whole) {
    if (!part.empty() && part.front() == byte) part.remove_prefix(1);
  }
  return part.empty();
}

void check_encode(const Tokenizer& tokenizer, bool normalises, std::string_view text, SpecialTokens special) {
  const auto [ids, lost] = tokenizer.encode_and_check(text, special);
  for (const TokenId id : ids) require(id >= 0 && id < tokenizer.vocab_size(), "ids lie in the vocabulary");
  const auto back = tokenizer.decode(ids, true);
  if (lost) {
    if (normalises) return;
    require(static_cast<uint8_t>(text.at(lost->offset)) == lost->byte, "the lost byte stands where it is said to");
    require(back.size() < text.size() && is_subsequence(back, text), "what is not lost is the text in order");
  } else {
    require(normalises ? nfc(back) == nfc(text) : back == text, "decode(encode(x)) is x");
    require(text.size() <= ids.size() * tokenizer.most_bytes_per_token(), "a token stands for no more than it may");
  }
  check_stream(tokenizer, ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider choices(data, size);
  Vocabulary vocabulary(choices);
  const auto view = vocabulary.view();
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = Tokenizer::from_gguf(view);
  } catch (const Error& error) {
    check_line(error);
    return 0;
  }
  std::vector<TokenId> ids(choices.ConsumeIntegralInRange<size_t>(0, 32));
  for (TokenId& id : ids) {
    id = choices.ConsumeIntegralInRange<TokenId>(0, static_cast<TokenId>(tokenizer->vocab_size()) - 1);
  }
  check_stream(*tokenizer, ids);
  const auto text = choices.ConsumeRemainingBytesAsString();
  for (const auto special : {SpecialTokens::AsText, SpecialTokens::Parse}) {
    if (view.model == "llama") {
      check_encoding(*tokenizer, text, special);  // marks become spaces, and what is unknown a token
    } else {
      check_encode(*tokenizer, view.pre == "qwen2", text, special);
    }
  }
  return 0;
}
