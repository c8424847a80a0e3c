#include "engine/run/model/step_recordings.h"

#include <algorithm>

#include "kernels/memory_log.h"

namespace versieve::engine {

template <class T>
void StepRecordings<T>::forget_gone(const kernels::Ops<T>& ops) {
  if (released_ != ops.released()) {
    std::erase_if(known_,
                  [&](const Known& known) { return !kernels::memory_log(ops).keeps(known.made); });
    released_ = ops.released();
  }
}

template <class T>
void StepRecordings<T>::run(kernels::Ops<T>& ops, const kernels::StepShape& shape,
                            const std::function<void()>& work) {
  if (shape.empty()) {
    work();
    return;
  }
  forget_gone(ops);
  const auto at = std::find_if(known_.begin(), known_.end(),
                               [&](const Known& known) { return known.shape == shape; });
  if (at == known_.end()) {
    work();
    forget_gone(ops);  // it may have made more room
    if (known_.size() == kMost) {
      known_.erase(known_.begin());
    }
    known_.push_back({shape, nullptr, kernels::memory_log(ops).now()});
    return;
  }
  std::rotate(at, at + 1, known_.end());
  Known& known = known_.back();
  if (known.recording == nullptr) {
    known.recording = ops.record(work);
    known.made = kernels::memory_log(ops).now();
    ++recordings_;
  }
  known.recording->launch();
  ++replays_;
}

template class StepRecordings<double>;
template class StepRecordings<float>;
template class StepRecordings<Bf16>;

}  // namespace versieve::engine
