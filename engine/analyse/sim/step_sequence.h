// The launches of a step, in the engine's order: the draft, if there is one, the target's
// embedding, layers, read-out and newest logits, acceptance where a launch does it, the commit.
#pragma once

#include "engine/analyse/sim/attended_blocks.h"
#include "engine/analyse/sim/dense_case.h"
#include "engine/analyse/sim/draft_sequence.h"
#include "engine/analyse/sim/simulated_run.h"

namespace versieve::engine {

// `schedule`: a letter a layer, F or R. The blocks of all refresh layers have the statistics of
// `known`, each layer its own; reuse layers take those of the refresh layer before them.
struct StepCase {
  LlmShape shape;
  NsaForm form = NsaForm::kFused;
  std::int64_t group_size = 1;
  GroupMode group_mode = GroupMode::kExact;
  std::string schedule;
  DraftTree tree;
  std::int64_t context_len = 0;
  std::int64_t element_bytes = 2;
  std::optional<double> overlap;
  KnownBlocks known;
  std::uint64_t seed = 1;
  std::optional<DraftCase> draft;  // its buffers of the target are the step's to place
  std::int64_t committed = 1;      // tokens of the path that the step commits
  bool last_logits_only = false;   // and none listed: of a rectification
  // All layers in one launch, whose bytes are those of the launches that it replaces; their times
  // do not add up to its own.
  bool one_launch = false;
  // Of a target that reads a dense cache: what each layer attends. Empty: NSA.
  std::vector<DenseCase> dense;
  std::uint64_t memory = kFirstAddress;  // where its buffers begin
  std::uint64_t listed_at = 0;           // a list that all listed layers read; 0: each its own
};

LaunchSequence step_sequence(const StepCase& step);

}  // namespace versieve::engine
