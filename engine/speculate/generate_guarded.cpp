// Generation whose tuple a runtime guard may change between two steps (model/runtime_guard.h). Led
// by the host: a recording is of one tuple. Exact tuples of one schedule give one text, whichever
// of them verifies which step.
#include <numeric>

#include "engine/speculate/generate.h"

namespace versieve::engine {

template <class T>
Generation Generator<T>::run_guarded(GenerateOptions options, std::span<const Strategy> ranked,
                                     RuntimeGuard& guard) {
  options.strategy = ranked[guard.active()];
  options.records_steps = false;
  Generation run;
  bool over = begin_run(options, run);
  const std::int64_t limit = token_limit(options);
  std::unique_ptr<TreeSource<T>> source = make_source(options);
  rewind(*source, run.tokens.back());
  target_->cache().reserve(prompt_len_ + limit + kDeepestTree);
  target_->drop_block_keys();
  while (!over) {
    const StepResult step = runner_.run(*source, run.tokens.back(), step_options(options));
    record(step, options, run);
    over = run.append(yielded_tokens(step), limit, options.eos);
    const double seconds = std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
    if (guard.observe(static_cast<double>(step.acceptance.yield()), 1e6 * seconds) && !over) {
      options.strategy = ranked[guard.active()];
      run.moves.push_back({.token = static_cast<std::int64_t>(run.tokens.size()),
                           .rank = static_cast<std::int64_t>(guard.active())});
      source = make_source(options);
      source->observe(observation_of(*target_, step.tree, step.acceptance, step.context_len));
    }
  }
  return run;
}

template Generation Generator<double>::run_guarded(GenerateOptions, std::span<const Strategy>,
                                                   RuntimeGuard&);
template Generation Generator<float>::run_guarded(GenerateOptions, std::span<const Strategy>,
                                                  RuntimeGuard&);
template Generation Generator<Bf16>::run_guarded(GenerateOptions, std::span<const Strategy>,
                                                 RuntimeGuard&);

}  // namespace versieve::engine
