// Names, ranges and help of the sampling flags; docs/sampling.md has the definitions.
#include "cli/sampling_flags.h"

#include <limits>

#include "cli/options.h"

namespace lockstep {
namespace {

LogitBias parse_bias(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() != 2) {
    fail(ErrorKind::Usage, "--logit-bias is {}; it must be an id and a value, as in 42:-1.5 or 42:-inf",
         in_quotes(text));
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto token = parse_number<int64_t>("--logit-bias: the id", parts[0], {0, std::numeric_limits<int32_t>::max()});
  return {static_cast<int32_t>(token),
          parse_number<double>("--logit-bias: the value", parts[1], {-kInfinity, kInfinity})};
}

}  // namespace

void add_sampling_flags(CLI::App& app, SamplingOptions& sampling) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  add_repeatable(
      app, "--logit-bias", "ID:V",
      [&sampling](const std::string& text) { sampling.logit_bias.push_back(parse_bias(text)); },
      "add V to the logit of token ID; -inf rules it out; may be repeated with other ids");
  add_number<double>(app, "--repeat-penalty", sampling.repeat_penalty, {0.001, 1000},
                     "divide the logit of every token in prompt or output by N if positive, else multiply");
  add_number<double>(app, "--presence-penalty", sampling.presence_penalty, {-2, 2},
                     "subtract N from the logit of every token in the output");
  add_number<double>(app, "--frequency-penalty", sampling.frequency_penalty, {-2, 2},
                     "subtract N from a token's logit for each time it is in the output");
  add_number<double>(app, "--temp", sampling.temperature, {0, 1e6}, "temperature; 0: always the likeliest token");
  add_number<int64_t>(app, "--top-k", sampling.top_k, {0, kMost},
                      "with --temp above 0: draw from the N likeliest tokens; 0: from all");
  add_number<double>(app, "--top-p", sampling.top_p, {0, 1},
                     "with --temp above 0: draw from the fewest tokens whose probabilities reach N");
  add_number<double>(app, "--min-p", sampling.min_p, {0, 1},
                     "with --temp above 0: drop tokens below N times the likeliest one's probability");
}

}  // namespace lockstep
