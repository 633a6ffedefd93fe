// Hashes of everything a Recorder sees, sorted in the order in which one result leads to the next.
#include "cli/first_difference.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>

namespace lockstep {
namespace {

// The index of a weight in ModelSpec::weights, which is the order in which a layer uses them.
using WeightOrder = std::map<std::string_view, int32_t>;

struct Record {
  int32_t weight = 0;
  int32_t position = 0;
  int32_t unit = 0;
  int32_t rank = 0;
  uint64_t hash = 0;
  // A result depends on those of earlier weights, and within a weight on earlier positions.
  auto place() const { return std::tie(weight, position, unit); }
};

uint64_t hash_of(std::span<const float> values) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

// Everything one rank computes of one sequence. Used by that rank's thread until the engine has ended.
class HashRecorder : public Recorder {
 public:
  HashRecorder(const WeightOrder& order, int rank, int64_t slot) : order_(order), rank_(rank), slot_(slot) {}

  void record(int64_t, std::string_view tensor, int64_t unit, int64_t sequence, int64_t position,
              std::span<const float> values) override {
    if (sequence != slot_) return;
    records_.push_back(
        {order_.at(tensor), static_cast<int32_t>(position), static_cast<int32_t>(unit), rank_, hash_of(values)});
  }
  const std::vector<Record>& records() const { return records_; }

 private:
  const WeightOrder& order_;
  const int32_t rank_;
  const int64_t slot_;
  std::vector<Record> records_;
};

struct Observed {
  std::vector<TokenId> tokens;
  std::vector<Record> records;                // sorted by place, then rank
  std::vector<std::vector<uint64_t>> logits;  // [positions][ranges]
};

// `vocab_ranges`: the parts in which the logits of a row are hashed.
Observed observe(const RunSetup& setup, const RunShape& shape, const WeightOrder& order,
                 const std::vector<Range>& vocab_ranges) {
  std::vector<std::unique_ptr<HashRecorder>> recorders;
  RunObserver observer;
  observer.every_leaf = true;
  for (int rank = 0; rank < shape.tp_size; ++rank) {
    recorders.push_back(std::make_unique<HashRecorder>(order, rank, checked_slot(shape)));
    observer.recorders.push_back(recorders.back().get());
  }
  Observed seen;
  observer.on_logits = [&](int64_t, std::span<const float> row) {
    auto& hashes = seen.logits.emplace_back();
    for (const Range& range : vocab_ranges) {
      hashes.push_back(hash_of(row.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()))));
    }
  };
  seen.tokens = run_once(setup, shape, observer).tokens;
  for (const auto& recorder : recorders) {
    seen.records.insert(seen.records.end(), recorder->records().begin(), recorder->records().end());
  }
  std::sort(seen.records.begin(), seen.records.end(), [](const Record& a, const Record& b) {
    return std::tuple(a.place(), a.rank) < std::tuple(b.place(), b.rank);
  });
  return seen;
}

// The first record of `differing` below `positions` whose counterpart in `base` has another hash.
const Record* first_other(const std::vector<Record>& base, const std::vector<Record>& differing, int64_t positions) {
  auto counterpart = base.begin();
  for (const Record& record : differing) {
    if (record.position >= positions) continue;
    while (counterpart != base.end() && counterpart->place() < record.place()) ++counterpart;
    const bool found = counterpart != base.end() && counterpart->place() == record.place();
    if (found && counterpart->hash != record.hash) return &record;
  }
  return nullptr;
}

}  // namespace

std::optional<FirstDifference> find_first_difference(const RunSetup& setup, const RunShape& base,
                                                     const RunShape& differing) {
  const ModelSpec& spec = setup.model.spec;
  WeightOrder order;
  for (const WeightSpec& weight : spec.weights) order.emplace(weight.name, static_cast<int32_t>(order.size()));
  // Who computes which logits in the differing run: each its rows of the vocabulary, or rank 0 all.
  const ShardPlan plan = make_plan(spec, plan_of(differing, setup.flags));
  const bool divided = plan.options.lm_head == VocabMode::VocabParallel;
  const std::vector<Range> vocab_ranges = divided ? plan.vocab.runs : std::vector<Range>{{0, spec.vocab}};

  const Observed first = observe(setup, base, order, vocab_ranges);
  const Observed second = observe(setup, differing, order, vocab_ranges);

  // Results are comparable as long as the inputs are the same: up to the first decoded token that differs.
  const auto [parted, other] =
      std::mismatch(first.tokens.begin(), first.tokens.end(), second.tokens.begin(), second.tokens.end());
  const auto positions = static_cast<int64_t>(setup.prompt.size()) + (parted - first.tokens.begin());
  if (const Record* record = first_other(first.records, second.records, positions)) {
    const WeightSpec& weight = spec.weights[static_cast<size_t>(record->weight)];
    return FirstDifference{weight.layer, weight.name, record->rank, record->position, record->unit};
  }
  const auto rows = std::min({first.logits.size(), second.logits.size(), static_cast<size_t>(positions)});
  for (size_t row = 0; row < rows; ++row) {
    for (size_t rank = 0; rank < vocab_ranges.size(); ++rank) {
      if (first.logits[row][rank] == second.logits[row][rank]) continue;
      const WeightSpec* head = spec.find(spec.tied_head ? Role::TokenEmbedding : Role::LmHead);
      return FirstDifference{-1, head->name, static_cast<int>(rank), static_cast<int64_t>(row), 0};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
