#include "engine/run/speculate/synthetic_session.h"

#include <numeric>

#include "engine/run/model/random_block.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kLongestPath = 33;

}  // namespace

template <class T>
SyntheticSession<T>::SyntheticSession(kernels::Ops<T>& ops, const LlmShape& shape,
                                      std::uint64_t seed)
    : ops_(&ops),
      seed_(seed),
      draft_shape_(draft_shape_for(shape)),
      target_(make_synthetic_target(ops, shape, draft_shape_, seed)),
      draft_(make_synthetic_draft(ops, draft_shape_, target_, seed + 1)),
      runner_(ops, target_),
      captured_(ops, kLongestPath * 3 * shape.hidden) {
  RandomBlock<T>(seed + 2, captured_.count()).fill(ops, captured_.data(), captured_.count(), 1.0);
}

template <class T>
void SyntheticSession<T>::set_context(std::int64_t context_len) {
  VERSIEVE_ASSERT(context_len >= 1, "a context has a token");
  if (context_len > filled_) {
    target_.cache().truncate(0);
    target_.cache().reserve(context_len + kLongestPath);
    fill_context(*ops_, target_, context_len, seed_ + 3);
    fill_context(*ops_, draft_, context_len, seed_ + 4);
    filled_ = context_len;
  }
  context_len_ = context_len;
}

template <class T>
StepResult SyntheticSession<T>::step(const Strategy& strategy, std::int64_t yield,
                                     PhaseObserver* observer, bool measures_blocks) {
  const bool speculates = strategy.draft.speculates();
  VERSIEVE_ASSERT(yield >= 1 && yield <= kLongestPath && yield < context_len_,
                  "a step commits a path of tokens that the context could have held");
  const std::string reason = unavailable_because(strategy, target_.shape());
  if (!reason.empty()) {
    throw Error(ExitCode::kAnswerNo, "strategy '" + strategy.text() + "': " + reason);
  }
  if (source_ == nullptr || !(strategy_ == strategy)) {
    strategy_ = strategy;
    source_ = std::make_unique<NoDraft<T>>();
    if (speculates) {
      source_ = std::make_unique<DraftSource<T>>(
          *ops_, draft_,
          DraftSourceOptions{
              .choice = strategy.draft, .order = strategy.order, .scores_by_rank = true});
    }
  }
  target_.cache().set_length(context_len_);
  target_.keep_choice_keys(verify_options(strategy, target_.shape()));
  draft_.set_length(context_len_ - yield + 1);
  Observation<T> seen{.first = context_len_ - yield,
                      .next_token = std::vector<std::int32_t>(static_cast<std::size_t>(yield), 0),
                      .captured = captured_.data(),
                      .rows = std::vector<std::int32_t>(static_cast<std::size_t>(yield))};
  std::iota(seen.rows.begin(), seen.rows.end(), 0);
  source_->observe(seen);
  return runner_.run(*source_, 0,
                     {.verify = verify_options(strategy, target_.shape()),
                      .measures_blocks = measures_blocks,
                      .observer = observer,
                      .forced_yield = speculates ? yield : 0});
}

template class SyntheticSession<double>;
template class SyntheticSession<float>;
template class SyntheticSession<Bf16>;

}  // namespace versieve::engine
