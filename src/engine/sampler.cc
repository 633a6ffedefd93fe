// Picking a token from logits, on rank 0 alone. All arithmetic is in double.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "engine/engine.h"

namespace lockstep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One round of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Uniform in [0, 1), a function of seed and position.
double uniform(uint64_t seed, uint64_t position) {
  return static_cast<double>(mix(mix(seed) + position) >> 11) * 0x1.0p-53;
}

// Orders ids by their values: the larger first, of equal ones the lower id.
template <class Value>
auto larger(std::span<const Value> values) {
  return [values](int32_t a, int32_t b) {
    const Value x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
}

std::vector<int32_t> all_ids(size_t count) {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// Calls visit(token, times it occurs) for each token there is.
template <class Visit>
void visit_distinct(std::vector<int32_t> tokens, Visit visit) {
  std::sort(tokens.begin(), tokens.end());
  for (auto begin = tokens.begin(); begin != tokens.end();) {
    const auto end = std::upper_bound(begin, tokens.end(), *begin);
    visit(*begin, static_cast<double>(end - begin));
    begin = end;
  }
}

// The logits with bias and penalties: repetition as in CTRL (arXiv 1909.05858), presence and frequency as OpenAI's API
// defines them.
std::vector<double> scores_of(std::span<const float> logits, const SamplingOptions& options,
                              std::span<const int32_t> prompt, std::span<const int32_t> generated) {
  std::vector<double> scores(logits.begin(), logits.end());
  const auto score = [&scores](int32_t token) -> double& { return scores[static_cast<size_t>(token)]; };
  for (const auto& [token, value] : options.logit_bias) {
    score(token) = value == -kInfinity ? -kInfinity : score(token) + value;  // also when the logit is infinite
  }
  if (options.repeat_penalty != 1) {
    std::vector<int32_t> seen(prompt.begin(), prompt.end());
    seen.insert(seen.end(), generated.begin(), generated.end());
    visit_distinct(std::move(seen), [&](int32_t token, double) {
      double& value = score(token);
      value = value > 0 ? value / options.repeat_penalty : value * options.repeat_penalty;
    });
  }
  if (options.presence_penalty != 0 || options.frequency_penalty != 0) {
    visit_distinct({generated.begin(), generated.end()}, [&](int32_t token, double times) {
      score(token) -= options.presence_penalty + times * options.frequency_penalty;
    });
  }
  return scores;
}

// Leaves the fewest of the largest whose weights reach the share top_p of all weights; at least one.
void keep_top_p(std::vector<int32_t>& ids, std::span<const double> scores, std::span<const double> weights,
                double top_p) {
  double total = 0;
  for (const int32_t id : ids) total += weights[static_cast<size_t>(id)];
  // Mostly few are kept: sorts the largest alone, and more of them as long as they do not reach.
  auto kept = ids.begin(), sorted = ids.begin();
  double mass = 0;
  do {
    if (kept == sorted) {
      sorted += std::min<int64_t>(ids.end() - sorted, std::max<int64_t>(64, 4 * (sorted - ids.begin())));
      std::nth_element(kept, sorted - 1, ids.end(), larger(scores));
      std::sort(kept, sorted, larger(scores));
    }
    mass += weights[static_cast<size_t>(*kept++)];
  } while (kept != ids.end() && mass < top_p * total);
  ids.erase(kept, ids.end());
}

// scores: at least one is above -inf; `largest` is the largest. random: uniform in [0, 1).
int32_t draw(std::span<const double> scores, double largest, const SamplingOptions& options, double random) {
  std::vector<double> weights(scores.size());  // probabilities times the same number
  std::transform(scores.begin(), scores.end(), weights.begin(), [&](double score) {
    return score == largest ? 1 : std::exp((score - largest) / options.temperature);  // also when it is infinite
  });
  std::vector<int32_t> ids = all_ids(scores.size());
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(ids.size())) {
    std::nth_element(ids.begin(), ids.begin() + options.top_k, ids.end(), larger(scores));
    ids.resize(static_cast<size_t>(options.top_k));
  }
  if (options.top_p < 1) keep_top_p(ids, scores, weights, options.top_p);
  std::erase_if(ids, [&](int32_t id) { return weights[static_cast<size_t>(id)] < options.min_p; });

  // The ids divide [0, total) in ascending order; the same sum again ends at the total exactly.
  if (!std::is_sorted(ids.begin(), ids.end())) std::sort(ids.begin(), ids.end());
  double total = 0, sum = 0;
  for (const int32_t id : ids) total += weights[static_cast<size_t>(id)];
  const auto found = std::find_if(ids.begin(), ids.end(), [&](int32_t id) {
    sum += weights[static_cast<size_t>(id)];
    return sum > random * total;
  });
  assert(found != ids.end());
  return *found;
}

void add_logprobs(PickedToken& picked, std::span<const float> logits, size_t count) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  const auto above = [&](float logit) { return logit == largest ? 0 : logit - largest; };  // also when it is infinite
  double total = 0;
  for (const float logit : logits) total += std::exp(above(logit));
  const auto logprob = [&](int32_t token) { return above(logits[static_cast<size_t>(token)]) - std::log(total); };
  picked.logprob = logprob(picked.token);
  std::vector<int32_t> ids = all_ids(logits.size());
  const auto end = ids.begin() + static_cast<int64_t>(std::min(count, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), larger(logits));
  for (auto id = ids.begin(); id != end && logprob(*id) > -kInfinity; ++id) picked.top.push_back({*id, logprob(*id)});
}

}  // namespace

void check(const SamplingOptions& options, std::optional<int64_t> vocab) {
  const auto within = [](std::string_view name, auto value, auto low, auto high) {
    if (!(value >= low && value <= high)) {
      fail(ErrorKind::Usage, "{} is {}; it must be a number from {} to {}", name, value, low, high);
    }
  };
  std::vector<int32_t> biased;
  for (const auto& [token, value] : options.logit_bias) {
    if (vocab && (token < 0 || token >= *vocab)) {
      fail(ErrorKind::Usage, "--logit-bias: token {} is outside the vocabulary; ids are 0 to {}", token, *vocab - 1);
    }
    if (!(value < kInfinity)) {
      fail(ErrorKind::Usage, "--logit-bias of token {} is {}; it must be a finite number, or -inf", token, value);
    }
    biased.push_back(token);
  }
  visit_distinct(std::move(biased), [](int32_t token, double times) {
    if (times > 1) fail(ErrorKind::Usage, "--logit-bias names token {} {} times; once is allowed", token, times);
  });
  within("--repeat-penalty", options.repeat_penalty, 0.001, 1000);
  within("--presence-penalty", options.presence_penalty, -2, 2);
  within("--frequency-penalty", options.frequency_penalty, -2, 2);
  within("--temp", options.temperature, 0, 1e6);
  if (options.top_k < 0) fail(ErrorKind::Usage, "--top-k is {}; it must be 0 (all) or more", options.top_k);
  within("--top-p", options.top_p, 0, 1);
  within("--min-p", options.min_p, 0, 1);
  if (options.logprobs) within("--logprobs", *options.logprobs, 0, 20);
}

PickedToken pick_token(std::span<const float> logits, const SamplingOptions& options, std::span<const int32_t> prompt,
                       std::span<const int32_t> generated) {
  const std::vector<double> scores = scores_of(logits, options, prompt, generated);
  const auto largest = std::max_element(scores.begin(), scores.end());
  const size_t position = prompt.size() + generated.size();
  if (*largest == -kInfinity) {
    fail(options.logit_bias.empty() ? ErrorKind::Malformed : ErrorKind::Usage,
         "no token can be drawn at position {}: the model's logits and --logit-bias rule out (-inf) every one",
         position);
  }
  PickedToken picked;
  picked.token = options.temperature == 0 ? static_cast<int32_t>(largest - scores.begin())
                                          : draw(scores, *largest, options, uniform(options.seed, position));
  if (options.logprobs) add_logprobs(picked, logits, static_cast<size_t>(*options.logprobs));
  return picked;
}

}  // namespace lockstep
