#include "model/plan/cell_pricer.h"

namespace versieve {
namespace {

bool has_own_acceptance(const FittedModel& fit, const LlmShape& target,
                        const PlanOptions& options) {
  return target.attention == AttentionKind::kDense && options.pair &&
         !options.pair->sha256.empty() && fit.acceptance.origin != AcceptanceOrigin::kAssumed &&
         fit.acceptance.sha256 == options.pair->sha256;
}

}  // namespace

CellPricer::CellPricer(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
                       const PlanOptions& options, std::int64_t concurrency,
                       ComposedTuples* composed)
    : fit_(fit),
      target_(target),
      hardware_(hardware),
      own_(fit, hardware, target, options.draft.value_or(usual_draft(target)), options.requests,
           concurrency),
      systems_(fit, hardware, target, own_,
               {.model = options.draft_model,
                .own_acceptance = has_own_acceptance(fit, target, options),
                .yields = &options.chain_yields}) {
  if (composed != nullptr) {
    own_.keep_in(*composed);
  }
}

Evaluation CellPricer::evaluate(const Strategy& s, const ContextBucket& bucket,
                                std::string& note) const {
  const bool nsa = target_.attention == AttentionKind::kNsa &&
                   s.attention == AttentionMethod::kNsa && !s.sampling;
  return nsa ? own_.evaluate(s, bucket, note) : systems_.evaluate(s, bucket, note);
}

MemoryNeed CellPricer::memory_on(const HardwareSpec& machine, const Strategy& s,
                                 const ContextBucket& bucket) const {
  const bool of_own =
      target_.attention == AttentionKind::kDense || s.attention == AttentionMethod::kNsa;
  return memory_need(s, of_own ? target_ : systems_.dense(), own_.draft(),
                     systems_.draft_model_of(s), bucket.high, bytes_of(fit_.dtype), machine);
}

}  // namespace versieve
