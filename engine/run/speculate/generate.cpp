#include "engine/run/speculate/generate.h"

#include "engine/run/speculate/draft_choice.h"
#include "engine/run/speculate/sampling_checks.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
std::string Generator<T>::refusal(const GenerateOptions& options) const {
  const Strategy& strategy = options.strategy;
  const LlmShape& shape = prefilled_.target().shape();
  const Draft<T>* draft = prefilled_.draft();
  const bool has_model = prefilled_.draft_model() != nullptr;
  const bool chooses = strategy.attention == AttentionMethod::kSpecAttn;
  const bool own = chooses || strategy.drafts_itself;
  const std::string reason =
      own ? illegal_because(strategy, shape) : unavailable_because(strategy, shape);
  if (!reason.empty()) {
    return reason;
  }
  if (strategy.draft.speculates() && !strategy.drafts_itself && draft == nullptr && !has_model) {
    return "the model has no draft, so it can only decode with ar";
  }
  if (chooses) {
    const LlmShape* const draft_model = has_model ? &prefilled_.draft_model()->shape() : nullptr;
    if (std::string refused = specattn_refusal(shape, draft_model, !layer_map_.empty());
        !refused.empty()) {
      return refused;
    }
  }
  return sampling_refusal(options);
}

template <class T>
void Generator<T>::require_allowed(const GenerateOptions& options) const {
  const std::string reason = refusal(options);
  VERSIEVE_ASSERT(reason.empty(), "refused strategies are not run");
}

template <class T>
Generation Generator<T>::run(const GenerateOptions& options) {
  require_allowed(options);
  if (options.records_steps && recorded_.can_run(options)) {
    return recorded_.run(options);
  }
  if (options.strategy.attention == AttentionMethod::kSpecAttn) {
    return host_led_.run_specattn(options, layer_map_);
  }
  const bool records = options.strategy.drafts_itself && options.records_steps;
  return records && recorded_.can_draft(options) ? recorded_.run_self_drafted(options, host_led_)
                                                 : host_led_.run(options);
}

template <class T>
Generation Generator<T>::run_guarded(GenerateOptions options, std::span<const Strategy> ranked,
                                     RuntimeGuard& guard) {
  for (const Strategy& strategy : ranked) {
    options.strategy = strategy;
    require_allowed(options);
  }
  return guarded_.run(options, ranked, guard, layer_map_);
}

template <class T>
Generation Generator<T>::teacher_forced(const GenerateOptions& options,
                                        std::span<const std::int32_t> text) {
  require_allowed(options);
  return host_led_.teacher_forced(options, text);
}

template class Generator<double>;
template class Generator<float>;
template class Generator<Bf16>;

}  // namespace versieve::engine
