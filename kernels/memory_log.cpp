#include "kernels/memory_log.h"

#include <algorithm>

#include "kernels/ops.h"
#include "model/words/assert.h"

namespace versieve::kernels {

void MemoryLog::released(const void* memory) noexcept {
  if (memory == nullptr) {
    return;
  }
  Gone gone{.from = 0, .to = ++time_};
  if (const auto at = since_.find(memory); at != since_.end()) {
    gone.from = at->second;
    since_.erase(at);
  }
  while (!gone_.empty() && gone_.back().from >= gone.from) {
    gone_.pop_back();
  }
  gone_.push_back(gone);
  if (gone_.size() > kMost) {  // the two oldest become one that spans both
    gone_[1].from = gone_[0].from;
    gone_.erase(gone_.begin());
  }
}

bool MemoryLog::keeps(std::int64_t then) const {
  const auto later = std::upper_bound(gone_.begin(), gone_.end(), then,
                                      [](std::int64_t time, const Gone& g) { return time < g.to; });
  return later == gone_.end() || later->from > then;
}

template <class T>
const MemoryLog& memory_log(const Ops<T>& ops) {
  const auto* const owner = dynamic_cast<const MemoryLogOwner*>(&ops);
  VERSIEVE_ASSERT(owner != nullptr, "ops keep a log of their memory");
  return owner->memory_log;
}

template const MemoryLog& memory_log(const Ops<double>&);
template const MemoryLog& memory_log(const Ops<float>&);
template const MemoryLog& memory_log(const Ops<Bf16>&);

}  // namespace versieve::kernels
