// Attention: right, by softmax in double precision; and the same bits wherever the pages and the other heads lie.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/kernels_fixture.h"

namespace lockstep {
namespace {

// Keys and values of one sequence: what is stored, as floats, [length, kv_heads, head_dim].
struct Sequence {
  int64_t length, kv_heads, head_dim;
  std::vector<float> keys, values;
};

Sequence random_sequence(std::mt19937& rng, const Kernels& table, DType dtype, int64_t length, int64_t kv_heads,
                         int64_t head_dim) {
  Sequence sequence{length, kv_heads, head_dim, {}, {}};
  const int64_t count = length * kv_heads * head_dim;
  for (auto* floats : {&sequence.keys, &sequence.values}) {
    const auto exact = random_floats(rng, count);
    std::vector<std::byte> stored(static_cast<size_t>(row_bytes(dtype, count)));
    table.from_float(dtype, exact.data(), stored.data(), count);
    floats->resize(static_cast<size_t>(count));
    table.dequantize(dtype, stored.data(), 0, count, floats->data());
  }
  return sequence;
}

// The positions one query sees, and what becomes of its scores.
struct Look {
  int64_t length;
  float scale;
  int64_t first = 0;
  float cap = 0;
};

// Lays heads [head_begin, head_end) of a sequence out in pages of `page_tokens`, page i at place[i]; everything else in
// the cache, and what the query does not see before `first`, is NaN. Pages that lie before `first` are nowhere.
std::vector<float> attend(const Kernels& table, DType dtype, const Sequence& sequence, int64_t head_begin,
                          int64_t head_end, int64_t page_tokens, std::vector<int32_t> place,
                          const std::vector<float>& q, int64_t head, const Look& look) {
  const int64_t heads = head_end - head_begin;
  const int64_t dim = sequence.head_dim;
  const int64_t head_bytes = page_tokens * row_bytes(dtype, dim);
  const int64_t page_bytes = 2 * heads * head_bytes;
  const int64_t pages = 1 + *std::max_element(place.begin(), place.end());
  std::vector<std::byte> cache(static_cast<size_t>(pages * page_bytes), std::byte{0xff});
  for (int64_t token = look.first; token < sequence.length; ++token) {
    for (int64_t i = 0; i < heads; ++i) {
      const int64_t source = (token * sequence.kv_heads + head_begin + i) * dim;
      std::byte* key = cache.data() + place[token / page_tokens] * page_bytes + i * head_bytes +
                       token % page_tokens * row_bytes(dtype, dim);
      table.from_float(dtype, &sequence.keys[source], key, dim);
      table.from_float(dtype, &sequence.values[source], key + heads * head_bytes, dim);
    }
  }
  std::fill_n(place.begin(), look.first / page_tokens, -1000000);
  std::vector<float> scores(static_cast<size_t>(look.length - look.first));
  std::vector<float> out(static_cast<size_t>(dim));
  AttendArgs args;
  args.q = q.data();
  args.kv = {dtype, cache.data(), page_bytes, place.data(), page_tokens, heads, dim};
  args.kv_head = head - head_begin;
  args.first = look.first;
  args.length = look.length;
  args.scale = look.scale;
  args.cap = look.cap;
  args.scores = scores.data();
  args.out = out.data();
  table.attend(args);
  return out;
}

std::vector<int32_t> in_order(int64_t pages) {
  std::vector<int32_t> place(static_cast<size_t>(pages));
  std::iota(place.begin(), place.end(), 0);
  return place;
}

// Softmax attention of head `head` in double precision, and beside each element the sum of its terms' magnitudes.
struct Exact {
  double value, magnitude;
};
std::vector<Exact> exact_attention(const Sequence& sequence, const std::vector<float>& q, int64_t head,
                                   const Look& look) {
  const int64_t dim = sequence.head_dim;
  const auto at = [&](const std::vector<float>& floats, int64_t token, int64_t i) {
    return double{floats[static_cast<size_t>((token * sequence.kv_heads + head) * dim + i)]};
  };
  std::vector<double> weights;
  for (int64_t token = look.first; token < look.length; ++token) {
    double score = 0;
    for (int64_t i = 0; i < dim; ++i) score += double{q[i]} * at(sequence.keys, token, i);
    score *= double{look.scale};
    weights.push_back(look.cap == 0 ? score : double{look.cap} * std::tanh(score / double{look.cap}));
  }
  const double highest = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - highest);
  std::vector<Exact> out(static_cast<size_t>(dim), {0, 0});
  for (int64_t i = 0; i < dim; ++i) {
    for (int64_t token = look.first; token < look.length; ++token) {
      const double term = weights[static_cast<size_t>(token - look.first)] / sum * at(sequence.values, token, i);
      out[static_cast<size_t>(i)].value += term;
      out[static_cast<size_t>(i)].magnitude += std::abs(term);
    }
  }
  return out;
}

using Attend = EveryIsa;

TEST_P(Attend, IsNearSoftmaxInDoublePrecision) {
  std::mt19937 rng(1);
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    for (const int64_t dim : {8, 32, 64, 80, 100, 128}) {
      for (const int64_t length : {1, 5, 16, 33, 100, 257}) {
        const auto sequence = random_sequence(rng, kernels(), dtype, length, 2, dim);
        const auto q = random_floats(rng, dim);
        const float scale = 1 / std::sqrt(static_cast<float>(dim));
        const Look look = {length, scale};
        const auto out = attend(kernels(), dtype, sequence, 0, 2, 16, in_order((length + 15) / 16), q, 1, look);
        const auto expected = exact_attention(sequence, q, 1, look);
        for (int64_t i = 0; i < dim; ++i) {
          ASSERT_NEAR(out[i], expected[i].value, 4e-6 * expected[i].magnitude)
              << info(dtype).name << " dim " << dim << " length " << length;
        }
      }
    }
  }
}

// Windows that begin and end anywhere in a page, with and without a soft cap that bends the scores.
TEST_P(Attend, WindowsAndSoftCapsAreNearDoublePrecision) {
  std::mt19937 rng(4);
  const int64_t dim = 80;
  const int64_t total = 100;
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    const auto sequence = random_sequence(rng, kernels(), dtype, total, 2, dim);
    const auto q = random_floats(rng, dim);
    for (const int64_t first : {0, 1, 15, 16, 17, 40, 63, 99}) {
      for (const int64_t window : {1, 2, 15, 16, 17, 50}) {
        for (const float cap : {0.0f, 2.0f}) {
          const Look look = {std::min(first + window, total), 0.25f, first, cap};
          const auto out = attend(kernels(), dtype, sequence, 0, 2, 16, in_order(7), q, 1, look);
          const auto expected = exact_attention(sequence, q, 1, look);
          for (int64_t i = 0; i < dim; ++i) {
            ASSERT_NEAR(out[i], expected[i].value, 4e-6 * expected[i].magnitude)
                << info(dtype).name << " [" << first << ", " << look.length << ") cap " << cap;
          }
        }
      }
    }
  }
}

TEST_P(Attend, LargeScoresDoNotOverflow) {
  std::mt19937 rng(2);
  auto sequence = random_sequence(rng, kernels(), DType::F32, 20, 1, 32);
  for (float& key : sequence.keys) key *= 1000;
  const auto q = random_floats(rng, 32);
  for (const float value : attend(kernels(), DType::F32, sequence, 0, 1, 16, in_order(2), q, 0, {20, 1.0f})) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

TEST_P(Attend, PagesHeadsAndLaterTokensDoNotChangeBits) {
  std::mt19937 rng(3);
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    for (const int64_t dim : {8, 64, 100}) {
      for (const int64_t page_tokens : {16, 7}) {
        const int64_t total = 90;
        const auto sequence = random_sequence(rng, kernels(), dtype, total, 3, dim);
        const auto q = random_floats(rng, dim);
        const int64_t pages = (total + page_tokens - 1) / page_tokens;
        for (const Look& look : std::vector<Look>{{1, 0.25f},
                                                  {7, 0.25f},
                                                  {16, 0.25f},
                                                  {17, 0.25f, 3, 2.0f},
                                                  {48, 0.25f, 31},
                                                  {89, 0.25f, 0, 2.0f},
                                                  {90, 0.25f, 61, 2.0f}}) {
          Sequence prefix = sequence;  // a cache that ends at `length`, NaN after it
          prefix.length = look.length;
          const auto expected =
              bits_of(attend(kernels(), dtype, prefix, 0, 3, page_tokens, in_order(pages), q, 1, look));
          auto place = in_order(pages + 3);
          std::shuffle(place.begin(), place.end(), rng);
          EXPECT_EQ(bits_of(attend(kernels(), dtype, sequence, 0, 3, page_tokens, place, q, 1, look)), expected)
              << "pages in another order, later tokens present";
          EXPECT_EQ(bits_of(attend(kernels(), dtype, sequence, 1, 2, page_tokens, place, q, 1, look)), expected)
              << "a rank with this head only";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Attend, testing::ValuesIn(supported_kernels()), isa_name);

}  // namespace
}  // namespace lockstep
