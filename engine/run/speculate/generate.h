// From a prompt to text: prefill once, then any number of runs from that point, each with its own
// strategy. A run with draft `ar` decodes token by token through the same forward, so that its
// output is what every exact strategy must reproduce.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/run/model/draft.h"
#include "engine/run/model/target.h"
#include "engine/run/speculate/device_step.h"
#include "engine/run/speculate/rectify.h"
#include "engine/run/speculate/step.h"
#include "model/plan/runtime_guard.h"
#include "model/words/strategy.h"

namespace versieve::engine {

inline constexpr std::int64_t kDeepestTree = 33;  // nodes of the longest path

struct GenerateOptions {
  Strategy strategy;
  std::int64_t max_new_tokens = 64;
  double temperature = 0.0;
  std::uint64_t seed = 0;
  std::vector<std::int32_t> eos;  // any of them ends generation
  bool measures_blocks = false;
  bool measures_gaps = false;
  bool hide_tree_compressed = false;  // planted fault for tests (VerifyOptions)
  PhaseObserver* observer = nullptr;
  std::function<void(const StepResult&)> on_step;
  // Steps run whole on the device where they can (device_step.h): greedy ones of which nothing
  // above is asked. The tokens are the same.
  bool records_steps = false;
};

enum class StopReason { kEos, kMaxNewTokens, kMaxPosition, kTextEnd };
const char* name_of(StopReason reason);  // "eos", ...

// The guard changed the tuple before the step that follows so many tokens.
struct GuardMove {
  std::int64_t token = 0;
  std::int64_t rank = 0;  // from 0, of the tuple that verifies from then on
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
  void count_move(std::size_t rank);
};

// Index of the first token that differs, and the reference's gap there; none: identical.
struct Divergence {
  std::int64_t index = 0;
  float logit_gap = 0.0F;
};
std::optional<Divergence> first_divergence(const Generation& run, const Generation& reference);

template <class T>
class Generator {
 public:
  // A draft head, or a draft model of its own, or neither: then only `ar`. All outlive the
  // generator.
  Generator(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft,
            Target<T>* draft_model = nullptr);

  // Why that strategy cannot run here, or an empty text.
  std::string refusal(const GenerateOptions& options) const;

  // Which draft layer chooses each target layer's tokens: what specattn needs beside a draft model.
  void set_layer_map(std::vector<std::int32_t> draft_layer) { layer_map_ = std::move(draft_layer); }

  // Begins a new sequence. Always with every layer refreshing. REQUIRES: not empty.
  void prefill(std::span<const std::int32_t> prompt);
  double prefill_seconds() const { return prefill_seconds_; }
  // Room for runs of so many tokens from the prefilled prompt, so that none of them has caches made
  // anew, which earlier recordings name.
  void reserve(std::int64_t max_new_tokens);

  // Runs from the prefilled prompt, whatever ran before. REQUIRES: refusal() is empty.
  Generation run(const GenerateOptions& options);
  // The same with trees from elsewhere; the strategy's draft and order are not looked at.
  Generation run(const GenerateOptions& options, TreeSource<T>& source);
  // The same, each step by the tuple that the guard holds active; options.strategy is not looked
  // at. REQUIRES: no tuple is refused; all attend as the first does.
  Generation run_guarded(GenerateOptions options, std::span<const Strategy> ranked,
                         RuntimeGuard& guard);
  // Walks along a given continuation of the prompt: each step drafts from the true prefix, counts
  // the longest path of the target's greedy choices, and then commits that many tokens of the text
  // itself. `tokens` of the result are the target's choices, one a step.
  Generation teacher_forced(const GenerateOptions& options, std::span<const std::int32_t> text);

 private:
  bool can_record(const GenerateOptions& options) const;
  Generation run_recorded(const GenerateOptions& options);
  Generation run_specattn(const GenerateOptions& options);
  bool begin_run(const GenerateOptions& options, Generation& run);
  std::int64_t token_limit(const GenerateOptions& options) const;
  StepOptions step_options(const GenerateOptions& options) const;
  Generation run_guarded_recorded(const GenerateOptions& options, std::span<const Strategy> ranked,
                                  RuntimeGuard& guard);
  Generation run_guarded_by_host(GenerateOptions options, std::span<const Strategy> ranked,
                                 RuntimeGuard& guard);
  // Steps of that tuple, with the recordings of earlier runs; valid until those of
  // kMostKeptTuples other tuples were asked for.
  DeviceStepRunner<T>& recorded_steps(const Strategy& strategy, bool feeds_draft);
  typename DeviceStepRunner<T>::Start rewind_for_recorded(std::span<const Strategy> strategies,
                                                          std::int64_t limit, std::int32_t token);
  // `text`: all tokens so far, which a draft model reads.
  std::unique_ptr<TreeSource<T>> make_source(const GenerateOptions& options,
                                             std::vector<std::int32_t> text);
  std::unique_ptr<TreeSource<T>> make_guarded_source(const GenerateOptions& options,
                                                     std::span<const std::int32_t> tokens);
  void rewind(TreeSource<T>& source, std::int32_t first_token);
  std::optional<Rectifier<T>> make_rectifier(const Strategy& strategy);
  void rectify(Rectifier<T>& rectifier, std::int32_t token, Generation& run);
  void feed_draft(std::span<const std::int32_t> prompt, std::int64_t begin, std::int64_t end);
  void commit_text(TreeSource<T>& source, std::span<const std::int32_t> tokens,
                   std::int32_t next_token, const std::string& schedule);
  static void record(const StepResult& step, const GenerateOptions& options, Generation& run);

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  Draft<T>* draft_;
  Target<T>* draft_model_;
  StepRunner<T> runner_;
  std::int64_t prompt_len_ = 0;
  std::vector<std::int32_t> prompt_;
  std::vector<std::int32_t> layer_map_;  // [target layers], or empty
  double prefill_seconds_ = 0.0;
  kernels::OpsBuffer<T> last_logits_;    // [V]: after the prompt
  kernels::OpsBuffer<T> last_captured_;  // [3 * hidden]: of the prompt's last token

  struct KeptSteps {
    Strategy strategy;
    bool feeds_draft = false;
    std::unique_ptr<DeviceStepRunner<T>> steps;
  };
  std::vector<KeptSteps> kept_steps_;  // newest last
};

}  // namespace versieve::engine
