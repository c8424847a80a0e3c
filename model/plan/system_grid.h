// The tuples of the other systems that a plan goes over, beside the NSA target's own: lossy classes
// of the dense target of the same geometry, and chains whose drafts are tested by sigmoids.
#pragma once

#include <string>
#include <vector>

#include "model/cost/fitted_model.h"
#include "model/plan/system_settings.h"
#include "model/words/strategy.h"

namespace versieve {

// Whether it reads tokens that a draft's weights chose.
inline bool chooses_tokens(const Strategy& s) {
  return s.attention == AttentionMethod::kSpecAttn;
}
// Whether its tokens a step are those of its own method.
inline bool yields_by_method(const Strategy& s) {
  return chooses_tokens(s) || s.drafts_itself;
}
inline bool keeps_by_sigmoid(const Strategy& s) {
  return s.sampling == SamplingAlgorithm::kSigmoid;
}
// Dense attention in the place of NSA, all else the same: "dense-1b" for "nsa-1b". Of a dense
// target itself.
LlmShape dense_sibling(const LlmShape& target);
// Sparse+Rectify: ReSA over the block sizes, ratios and periods. Sparse: the same without
// rectification, SpecAttn over shares and chains, a token-level indexer over numbers of tokens,
// chains and trees. Approx-sampling: chains of the target itself.
std::vector<Strategy> system_space(PrecisionClass precision, const SystemSettings& settings = {});
// Self-speculation of a dense target, over the settings of ReSA and chains.
void add_self_drafted(const SystemSettings& settings, std::vector<Strategy>& space);
// Half-width of log latency that the rest of a step adds where attention alone was measured: an
// assumption; measured steps lie within 4 % of what is composed.
inline constexpr double kUnmeasuredStep = 0.15;

// Overlap of the blocks that ReSA chooses for one token and for the next, by its block size: the
// dense SmolLM2 on prose, code and plans (db/measured/selections.db; layers lie from 0.74 to 0.91
// at 16). L2 keeps a few tens of MB from step to step, so that the overlap counts at short contexts
// alone.
double resa_overlap(std::int64_t key_block);

// SystemQuantile::name of timed steps of a target that drafts for itself.
inline constexpr const char* kSelfDraftedSteps = "step self-drafted";

// What a tuple of another system is priced by.
struct SystemEvidence {
  double log_latency = 0.0;  // of a step, that 90 % stay under
  bool whole_steps = false;  // steps were measured to that context; else attention alone
};
// None, with the reason, where nothing was measured or no context as long.
std::optional<SystemEvidence> system_evidence(const Strategy& strategy, const FittedModel& fit,
                                              std::int64_t context_len, std::string& reason);
// Why no tuple of the class can be priced at that context, or an empty text.
std::string unpriced_because(PrecisionClass precision, const FittedModel& fit,
                             std::int64_t context_len);

// Layers of the draft model that SpecAttn needs, where none is planned with: its target's otherwise
// (an assumption; engine/demo/smollm2's dense model has such a one).
inline constexpr std::int64_t kAssumedDraftLayers = 4;
// What is assumed of pairs of which it was not measured (FittedModel::chain_shares). Probability
// that a sigmoid test at the paper's scale accepts a drafted token, whatever it is: the demo pair's
// at 468 positions (kernels/spec_sample/MEASURED.md).
inline constexpr double kAssumedSigmoidAcceptance = 0.9999;
// The lower end of a 95 % interval of it where it is lent or assumed: an assumption; pairs that
// were measured keep 0.9997 and more.
inline constexpr double kLeastSigmoidAcceptance = 0.99;

}  // namespace versieve
