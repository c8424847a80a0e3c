// What a generation is asked for, and what a finished one says of itself.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/run/speculate/step.h"
#include "engine/run/speculate/synthetic_acceptance.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct GenerateOptions {
  Strategy strategy;
  std::int64_t max_new_tokens = 64;
  double temperature = 0.0;
  std::uint64_t seed = 0;
  // Above temperature 0, of both models' logits; needs a sampler that is not coupled.
  kernels::Truncation truncation = {};
  kernels::SigmoidEnds sigmoid = {};  // of sampling=sigmoid
  std::vector<std::int32_t> eos;      // any of them ends generation
  bool measures_blocks = false;
  bool measures_gaps = false;
  bool hide_tree_compressed = false;  // planted fault for tests (VerifyOptions)
  PhaseObserver* observer = nullptr;
  std::function<void(const StepResult&)> on_step;
  // Steps run whole on the device where they can (device_step.h): greedy ones of which nothing
  // above is asked. The tokens are the same.
  bool records_steps = false;
  // Decides in the target's place what steps with a draft yield; null: the target does.
  const SyntheticAcceptance* acceptance = nullptr;
};

// Throws Error(kUsage) unless it is 0, which is greedy, or one that logits can be divided by.
void check_temperature(double temperature);
// Throws Error(kUsage) unless top_k is from 0 up, top_p in (0, 1] and min_p in [0, 1].
void check_truncation(const kernels::Truncation& truncation);
// Throws Error(kUsage) unless both are finite and alpha is below beta.
void check_sigmoid(const kernels::SigmoidEnds& ends);

enum class StopReason { kEos, kMaxNewTokens, kMaxPosition, kTextEnd };
const char* name_of(StopReason reason);  // "eos", ...

// The guard changed the tuple before the step that follows so many tokens.
struct GuardMove {
  std::int64_t token = 0;
  std::int64_t index = 0;  // RuntimeGuard::active of the tuple that verifies from then on
};

// Mean over the steps of a run; one entry a layer.
struct LayerOverlap {
  double adjacent_overlap = 0.0;  // over steps with at least two queries
  std::int64_t overlap_steps = 0;
  double unique_blocks = 0.0;
};

struct Generation {
  std::vector<std::int32_t> tokens;  // generated, an EOS included
  std::vector<float> gaps;           // of each token, if measured and decoded without a draft
  StopReason stopped = StopReason::kMaxNewTokens;
  std::int64_t steps = 0;  // the first token comes from prefill, without a step
  // [a] = steps that yielded a tokens, the target's own counted; what a stop cut off is counted
  // too.
  std::vector<std::int64_t> accepted_histogram;
  PhaseSeconds seconds{};
  // Recorded steps have no phases: their time, and what making the recordings took, not part of it.
  bool recorded = false;
  double recorded_seconds = 0.0;
  double record_seconds = 0.0;
  // ReSA's dense passes; their time is part of decoding.
  std::int64_t rectifications = 0;
  double rectify_seconds = 0.0;
  std::vector<LayerOverlap> overlap;
  // Of the committed tokens' reads of all layers, by a strategy that chooses tokens.
  double reads_saved = 0.0;
  std::vector<GuardMove> moves;  // of a guarded run

  double accepted_per_step() const;  // mean of the histogram; 0 without steps
  double decode_seconds() const;
  // Tokens of the steps a second of decoding.
  double tokens_per_second() const;
  // Appends what a step yields, up to an EOS or the limit; true when generation is over.
  bool append(std::span<const std::int32_t> yielded, std::int64_t limit,
              std::span<const std::int32_t> eos);
  void count_yield(std::int64_t yield);
  void count_move(std::size_t index);
};

// Index of the first token that differs, and the reference's gap there; none: identical.
struct Divergence {
  std::int64_t index = 0;
  float logit_gap = 0.0F;
};
std::optional<Divergence> first_divergence(const Generation& run, const Generation& reference);

}  // namespace versieve::engine
