// Requests of ReSA: the dense passes that rectify, those of one step in one forward.
#include <numeric>
#include <utility>

#include "engine/run/batch/batch_session.h"
#include "engine/run/speculate/rectify.h"

namespace versieve::engine {

// A token that the part's step commits by sparse attention; at the end of a period all of it is
// due.
template <class T>
void BatchSession<T>::count_sparse(Part& part) {
  Running& run = *part.run;
  const std::int64_t every = run.request.options.strategy.resa_rectify_every;
  if (part.is_prompt() || run.over || !run.verify.resa || every == 0) {
    return;
  }
  run.unrectified.push_back(run.tree.token[0]);
  if (static_cast<std::int64_t>(run.unrectified.size()) == every) {
    part.rectified = std::move(run.unrectified);
    run.unrectified.clear();
  }
}

// As Rectifier, of all requests of the step that came to the end of a period. After the next trees
// are drafted, which read what the step's forward left.
template <class T>
void BatchSession<T>::rectify() {
  std::vector<SequencePart<T>> due;
  std::vector<std::vector<std::int32_t>> paths;
  VerifyOptions options = rectification_options();
  options.no_logits = true;
  for (const Part& part : parts_) {
    Running& run = *part.run;
    const std::size_t tokens = part.rectified.size();
    if (tokens == 0) {
      continue;
    }
    run.cache.truncate(run.cache.length() - static_cast<std::int64_t>(tokens));
    due.push_back({.tree = chain_tree(part.rectified),
                   .options = options,
                   .cache = &run.cache,
                   .choice = &*run.choice});
    paths.emplace_back(tokens);
    std::iota(paths.back().begin(), paths.back().end(), 0);
    ++run.result.generation.rectifications;
  }
  if (!due.empty()) {
    target_->verify_batch(std::move(due));
    target_->commit_batch(paths);
  }
}

template void BatchSession<double>::count_sparse(Part&);
template void BatchSession<double>::rectify();
template void BatchSession<float>::count_sparse(Part&);
template void BatchSession<float>::rectify();
template void BatchSession<Bf16>::count_sparse(Part&);
template void BatchSession<Bf16>::rectify();

}  // namespace versieve::engine
