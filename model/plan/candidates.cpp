#include "model/plan/candidates.h"

#include <algorithm>
#include <map>

#include "model/plan/system_grid.h"
#include "model/plan/tuple_grid.h"
#include "model/words/error.h"

namespace versieve {

Strategy plain_decoding(const LlmShape& target) {
  Strategy out;
  out.attention =
      target.attention == AttentionKind::kDense ? AttentionMethod::kDense : AttentionMethod::kNsa;
  return out;
}

std::string usual_baseline(const LlmShape& target, const PlanOptions& options) {
  const Strategy tree = Strategy::parse(PlanOptions{}.baseline);
  if (target.attention == AttentionKind::kNsa) {
    return tree.text();
  }
  Strategy out = plain_decoding(target);
  if (options.draft_model) {
    out.draft = {.depth = 5, .width = 1, .nodes = 6};
  } else if (options.drafts) {
    out.draft = tree.draft;
  }
  return out.text();
}

bool is_plain_chain(const Strategy& s) {
  return s.draft.speculates() && !s.drafts_itself && !s.adapts_length && s.draft.width == 1 &&
         s.group_size == 1 && s.precision() == PrecisionClass::kStrict;
}

std::vector<PrecisionClass> priced_classes(const FittedModel& fit) {
  std::vector<PrecisionClass> classes = PlanOptions{}.classes;
  for (const PrecisionClass precision : {PrecisionClass::kSparseRectified, PrecisionClass::kSparse,
                                         PrecisionClass::kApproxSampling}) {
    if (unpriced_because(precision, fit, 1).empty()) {
      classes.push_back(precision);
    }
  }
  return classes;
}

Candidates counted_candidates(const std::vector<Strategy>& space, const Strategy& fixed,
                              const std::function<std::string(const Strategy&)>& refusal) {
  Candidates out;
  std::vector<Strategy>& runnable = out.strategies.emplace_back();
  std::map<std::string, std::int64_t> reasons;
  for (const Strategy& s : space) {
    out.enumerated += 1;
    const std::string reason = refusal(s);
    if (reason.empty()) {
      runnable.push_back(s);
    } else {
      reasons[reason] += 1;
    }
  }
  if (std::find(runnable.begin(), runnable.end(), fixed) == runnable.end()) {
    runnable.push_back(fixed);
  }
  out.runnable = static_cast<std::int64_t>(runnable.size());
  for (const auto& [reason, tuples] : reasons) {
    out.excluded.push_back({reason, tuples});
  }
  return out;
}

Candidates candidates_of(const FittedModel& fit, const LlmShape& target,
                         const std::string& baseline, const std::vector<std::string>& schedules) {
  const Strategy fixed = Strategy::parse(baseline);
  const std::string refusal = not_planned_because(fixed, target, fit.priced_form());
  if (!refusal.empty()) {
    throw Error(ExitCode::kUsage, "the baseline '" + baseline + "': " + refusal);
  }
  std::vector<Strategy> space = enumerate_space(target, schedules);
  const std::vector<Strategy> adapted = adapted_chains(schedules);
  space.insert(space.end(), adapted.begin(), adapted.end());
  return counted_candidates(space, fixed, [&](const Strategy& s) {
    const std::string reason = not_planned_because(s, target, fit.priced_form());
    return reason.empty() ? not_ranked_because(s, fit.acceptance) : reason;
  });
}

}  // namespace versieve
