// The next step, prepared while the device runs this one: where every request's yield is known
// before it is seen, of the next step only the tokens are not.
#include <algorithm>

#include "engine/run/batch/batch_session.h"

namespace versieve::engine {

// A tree of one node is accepted whatever the target says, and a piece of a prompt is no question.
// Requests that draft, choose tokens or wait for another's pages are not of the kind.
template <class T>
bool BatchSession<T>::yields_are_known() const {
  return std::none_of(running_.begin(), running_.end(), [](const std::unique_ptr<Running>& run) {
    return run->may_draft || run->chooser || run->choosing.resa || run->choosing.index ||
           run->follows.source != nullptr;
  });
}

// This step is committed. Whoever ends with it, as far as is known, leaves a place that the next
// step may be another's in. A text may end otherwise; then all is prepared anew.
template <class T>
void BatchSession<T>::prepare_ahead() {
  for (const Part* part : verified_parts_) {
    const Running& run = *part->run;
    if (std::ssize(run.result.generation.tokens) + 1 >= run.limit) {
      return;
    }
  }
  // Of a prompt that this step ends, whose tree is not there yet.
  for (const Part* part : verified_parts_) {
    if (part->is_prompt()) {
      part->run->tree = root_;
    }
  }
  ahead_ = plan();
  prepare(*ahead_);
}

template bool BatchSession<double>::yields_are_known() const;
template void BatchSession<double>::prepare_ahead();
template bool BatchSession<float>::yields_are_known() const;
template void BatchSession<float>::prepare_ahead();
template bool BatchSession<Bf16>::yields_are_known() const;
template void BatchSession<Bf16>::prepare_ahead();

}  // namespace versieve::engine
