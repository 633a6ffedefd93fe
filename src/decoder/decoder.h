// The door of decoder/: one rank, one batch. A Decoder loads its rank's slices, keeps its KV cache, and runs the layers
// over a flat batch of rows that mixes prefill chunks and decodes of any sequences. It knows no request and no policy:
// which rows, which pages and which logits are decided by rank 0 and told to every rank alike.
// weights.cc loads slices; products.cc multiplies; kv_cache.cc holds pages; decoder.cc is the forward pass, in the
// order the layers run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/fault_injection.h"
#include "base/team.h"
#include "base/trace.h"
#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "plan/plan.h"

namespace lockstep {

// Sees intermediate results of one rank, from its leader's thread: used by `verify` to find where a difference began.
// `unit` does not depend on the division: a query head, a KV head or a leaf.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void record(int64_t layer, std::string_view tensor, int64_t unit, int64_t sequence, int64_t position,
                      std::span<const float> values) = 0;
};

// The instruction set of this process's kernels. Throws Error(Usage) when LOCKSTEP_FORCE_ISA names one that cannot run.
std::string_view selected_isa();

struct DecoderOptions {
  int64_t max_rows = 512;     // rows of a batch
  int64_t max_sequences = 1;  // sequence slots
  int64_t pages = 0;          // KV pages; each holds page_tokens tokens of one sequence in every layer
  int64_t page_tokens = 32;
  int64_t pages_per_sequence = 0;  // length of a sequence's page table
  DType kv_dtype = DType::F16;     // F32, F16 or BF16
  std::optional<Fault> fault;      // for tests: this rank's, if any
  Recorder* recorder = nullptr;    // not owned; outlives the decoder
  TraceLane* lane = nullptr;       // where the leader's time is traced; not owned; outlives the decoder
};

// Rows of one step. positions[row] is the row's place in its sequence; rows of one sequence come in ascending order and
// follow the positions already in its cache. logit_rows: ascending row indices.
struct Batch {
  std::span<const int32_t> tokens;     // [rows]
  std::span<const int32_t> positions;  // [rows]
  std::span<const int32_t> sequences;  // [rows], slots below max_sequences
  std::span<const int32_t> logit_rows;
};

// Receives logits on rank 0: [count, vocab], those of batch.logit_rows[first...].
using LogitSink = std::function<void(int64_t first, int64_t count, const float* logits)>;

// Belongs to one rank's leader thread. After construction forward() allocates nothing.
class Decoder {
 public:
  // Loads this rank's slices with the team's threads; loaded_bytes (may be null) grows as it goes. The kernels are
  // select_kernels(). The references must outlive the decoder. Throws Error.
  Decoder(const ModelSpec& spec, const ShardPlan& plan, const Checkpoint& checkpoint, Group& group, Team& team,
          const DecoderOptions& options, std::atomic<int64_t>* loaded_bytes);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Entry `index` of a sequence's page table.
  void set_page(int64_t sequence, int64_t index, int32_t page);

  // One step of the group: every rank calls it with the same batch. `sink` is called on rank 0 only. Throws
  // Error(RankFailed) when the group ends.
  void forward(const Batch& batch, int64_t step, const LogitSink& sink);

  int64_t weight_bytes() const;            // held
  int64_t read_bytes() const;              // read from the checkpoint
  int64_t kv_bytes() const;                // allocated, with the state of recurrent layers
  int64_t weight_bytes_per_token() const;  // read by one decode row

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
