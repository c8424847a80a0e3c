// One speculative step: the source proposes a tree, the target verifies it, a path is accepted and
// committed. Phases are announced, so that a profiler can put its ranges around them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/run/model/target.h"
#include "engine/run/speculate/acceptance.h"
#include "engine/run/speculate/block_statistics.h"
#include "engine/run/speculate/tree_source.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Why the engine cannot run that strategy on a target of that shape, or an empty text: what
// illegal_because says, and what has no kernel in the engine yet.
std::string unavailable_because(const Strategy& strategy, const LlmShape& target);
// How the steps attend that draft for a strategy which drafts for itself.
VerifyOptions drafting_options(const Strategy& strategy, const LlmShape& target);
// How that strategy verifies a tree. REQUIRES: it is available.
VerifyOptions verify_options(const Strategy& strategy, const LlmShape& target);

enum class StepPhase { kDraft, kVerify, kAccept, kCommit };
inline constexpr std::size_t kStepPhaseCount = 4;
const char* name_of(StepPhase phase);  // "draft", "verify", "accept", "commit"

class PhaseObserver {
 public:
  virtual ~PhaseObserver() = default;
  virtual void phase_begins(StepPhase phase) = 0;
  // All work of the phase has run.
  virtual void phase_ends(StepPhase phase) = 0;
};

// Wall-clock seconds by phase.
using PhaseSeconds = std::array<double, kStepPhaseCount>;

struct StepOptions {
  VerifyOptions verify;
  AcceptanceOptions acceptance;
  bool measures_blocks = false;
  PhaseObserver* observer = nullptr;
  // Above 0, without a trained draft: whatever the target says, the first path of that many nodes
  // (or the deepest there is) is committed.
  std::int64_t forced_yield = 0;
};

struct StepResult {
  std::int64_t context_len = 0;  // before the step
  DraftTree tree;
  Acceptance acceptance;
  PhaseSeconds seconds{};
  std::vector<BlockStatistics> blocks;              // a layer each, if asked for
  std::vector<std::vector<std::int32_t>> selected;  // the same: [layer] of [N, G, n]
};

template <class T>
class StepRunner {
 public:
  StepRunner(kernels::Ops<T>& ops, Target<T>& target)
      : ops_(&ops), target_(&target), acceptor_(ops) {}

  // `token` is the newest token; the target's cache holds all before it.
  StepResult run(TreeSource<T>& source, std::int32_t token, const StepOptions& options);
  // Propose, verify and accept, without the commit.
  StepResult try_step(TreeSource<T>& source, std::int32_t token, const StepOptions& options);
  Acceptor<T>& acceptor() { return acceptor_; }

 private:
  template <class Work>
  void timed(StepPhase phase, const StepOptions& options, StepResult& result, const Work& work);

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  Acceptor<T> acceptor_;
};

// Tokens that a step adds to the text: of the accepted path after the root, then the target's own.
std::vector<std::int32_t> yielded_tokens(const StepResult& step);

// What the target reports to a source about a committed path of its last verify.
template <class T>
Observation<T> observation_of(const Target<T>& target, const DraftTree& tree,
                              const Acceptance& acceptance, std::int64_t first);

}  // namespace versieve::engine
