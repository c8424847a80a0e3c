#include "engine/run/model/step_recordings.h"

#include <algorithm>

namespace versieve::engine {

template <class T>
void StepRecordings<T>::run(kernels::Ops<T>& ops, const kernels::StepShape& shape,
                            const std::function<void()>& work) {
  if (shape.empty()) {
    work();
    return;
  }
  if (released_ != ops.released()) {  // they may name what is gone
    known_.clear();
  }
  const auto at = std::find_if(known_.begin(), known_.end(),
                               [&](const Known& known) { return known.shape == shape; });
  if (at == known_.end()) {
    const std::int64_t before = ops.released();
    work();
    if (before != ops.released()) {  // it made more room, and what the others name is gone
      known_.clear();
    } else if (known_.size() == kMost) {
      known_.erase(known_.begin());
    }
    known_.push_back({shape, nullptr});
    released_ = ops.released();
    return;
  }
  std::rotate(at, at + 1, known_.end());
  Known& known = known_.back();
  if (known.recording == nullptr) {
    known.recording = ops.record(work);
    ++recordings_;
  }
  known.recording->launch();
  ++replays_;
}

template class StepRecordings<double>;
template class StepRecordings<float>;
template class StepRecordings<Bf16>;

}  // namespace versieve::engine
