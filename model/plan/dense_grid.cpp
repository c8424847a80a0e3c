#include "model/plan/dense_grid.h"

#include <algorithm>

#include "model/plan/candidates.h"
#include "model/plan/loss_limit.h"
#include "model/plan/system_grid.h"
#include "model/plan/tuple_grid.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve {
namespace {

// The grid of an NSA target, each draft once: groups and orders are of blocks.
std::vector<Strategy> dense_space(const LlmShape& target, const SystemSettings& settings) {
  std::vector<Strategy> space;
  for (Strategy s : enumerate_space(target, {"F*"})) {
    if (s.group_size == 1 && s.order == Traversal::kBfs) {
      s.attention = AttentionMethod::kDense;
      space.push_back(s);
    }
  }
  for (Strategy s : adapted_chains({"F*"})) {
    s.attention = AttentionMethod::kDense;
    space.push_back(s);
  }
  add_self_drafted(settings, space);
  return space;
}

std::string refusal_of(const Strategy& strategy, const LlmShape& target,
                       const PlanOptions& options) {
  const std::string illegal = illegal_because(strategy, target);
  return illegal.empty() ? not_drafted_because(strategy, options) : illegal;
}

}  // namespace

std::string not_drafted_because(const Strategy& strategy, const PlanOptions& options) {
  if (!strategy.draft.speculates()) {
    return {};
  }
  if (strategy.drafts_itself) {
    return options.chain_yields.knows(strategy)
               ? std::string()
               : "how many of its own sparse steps' tokens the target keeps was not counted with "
                 "these settings; versieve profile --sweep selections --model FOLDER does";
  }
  if (!options.drafts) {
    return "the pair has no draft";
  }
  if (options.draft_model && strategy.draft.width > 1) {
    return "a draft model of its own runs a tree again with each level: its chains alone are "
           "planned";
  }
  if (!options.draft_model && strategy.attention == AttentionMethod::kSpecAttn) {
    return "specattn needs a draft model of its own";
  }
  return {};
}

Candidates dense_candidates(const LlmShape& target, const PlanOptions& options) {
  const Strategy fixed = Strategy::parse(options.baseline);
  const std::string refusal = refusal_of(fixed, target, options);
  if (!refusal.empty()) {
    throw Error(ExitCode::kUsage, "the baseline '" + options.baseline + "': " + refusal);
  }
  return counted_candidates(dense_space(target, options.systems), fixed,
                            [&](const Strategy& s) { return refusal_of(s, target, options); });
}

std::vector<Strategy> systems_of(PrecisionClass precision, const LlmShape& target,
                                 const PlanOptions& options) {
  std::vector<Strategy> all = system_space(precision, options.systems);
  if (target.attention == AttentionKind::kNsa) {
    // Of its dense sibling a plan holds an indexer where somebody measured what it loses.
    std::erase_if(all, [&](const Strategy& s) {
      return s.attention == AttentionMethod::kIndexer && !options.loss.prices.of(s).is_known();
    });
    return all;
  }
  for (Strategy& s : all) {
    s.attention = s.attention == AttentionMethod::kNsa ? AttentionMethod::kDense : s.attention;
  }
  std::erase_if(all, [&](const Strategy& s) { return !refusal_of(s, target, options).empty(); });
  return all;
}

std::vector<Strategy> ranked_tuples(const FittedModel& fit, const LlmShape& target,
                                    const PlanOptions& options, const ContextBucket& bucket,
                                    PrecisionClass precision) {
  VERSIEVE_ASSERT(precision != PrecisionClass::kApproxSampling, "sigmoids rank by machine");
  const Strategy plain = plain_decoding(target), fixed = Strategy::parse(options.baseline);
  std::string reason;
  const auto is_priced = [&](const Strategy& s) {
    return system_evidence(s, fit, bucket.low + 1, reason).has_value();
  };
  if (!is_priced(plain) || (precision >= PrecisionClass::kSparseRectified &&
                            !unpriced_because(precision, fit, bucket.low + 1).empty())) {
    return {};
  }
  if (precision >= PrecisionClass::kSparseRectified) {
    std::vector<Strategy> all = systems_of(precision, target, options);
    if (all.empty()) {
      return {};
    }
    all = kept_of(all, within_loss(all, options));
    std::erase_if(all, [&](const Strategy& s) { return !is_priced(s); });
    all.insert(all.begin(), {plain, fixed});
    return all;
  }
  const Candidates own = candidates_within_loss(dense_candidates(target, options), options);
  std::vector<Strategy> out;
  for (const Strategy& s : own.of(0)) {
    const bool in_class = s.precision() == precision && (!s.drafts_itself || is_priced(s));
    if (in_class || s == plain || s == fixed) {
      out.push_back(s);
    }
  }
  return out;
}

}  // namespace versieve
