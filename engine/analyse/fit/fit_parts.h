// The parts that the work of a fit falls into: the fit to all points, and one for each fold and
// each regime that is left out. They run beside one another; a caller hears of each that is done,
// and can end the fit between two of them.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

namespace versieve::engine {

// Told the share of the work that is done, by one thread at a time but not always the same; false
// ends the work.
using GoesOn = std::function<bool(double share)>;

class FitParts {
 public:
  // `threads` 0: as many as there are cores. `goes_on` may be null.
  FitParts(int threads, const GoesOn* goes_on)
      : threads_(threads > 0 ? threads : core_count()), goes_on_(goes_on) {}

  void expect(std::int64_t parts) { expected_ += parts; }
  int threads() const { return threads_; }
  // One that ran alone. Throws Error(kAnswerNo) if the fit is to end.
  void finish();
  // body(0) to body(count - 1), each a part. Throws what one of them throws, the first in order,
  // after all have ended; those that had not begun by then do not run. A body may not be parallel.
  void run(std::int64_t count, const std::function<void(std::int64_t)>& body);

 private:
  static int core_count();

  int threads_;
  const GoesOn* goes_on_;
  std::mutex mutex_;
  std::int64_t expected_ = 0;
  std::int64_t finished_ = 0;
};

}  // namespace versieve::engine
