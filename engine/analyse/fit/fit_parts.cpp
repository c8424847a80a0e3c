#include "engine/analyse/fit/fit_parts.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "kernels/common/parallel_for.h"
#include "model/words/error.h"

namespace versieve::engine {

int FitParts::core_count() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void FitParts::finish() {
  const std::lock_guard<std::mutex> lock(mutex_);
  finished_ += 1;
  const double share =
      static_cast<double>(finished_) / static_cast<double>(std::max(expected_, finished_));
  if (goes_on_ != nullptr && !(*goes_on_)(share)) {
    throw Error(ExitCode::kAnswerNo, "the fit was ended before it was done");
  }
}

void FitParts::run(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(count));
  std::atomic<bool> ends = false;
  kernels::parallel_for(count, threads_, [&](std::int64_t i) {
    if (ends) {
      return;
    }
    try {
      body(i);
      finish();
    } catch (...) {
      thrown[static_cast<std::size_t>(i)] = std::current_exception();
      ends = true;
    }
  });
  for (const std::exception_ptr& each : thrown) {
    if (each) {
      std::rethrow_exception(each);
    }
  }
}

}  // namespace versieve::engine
