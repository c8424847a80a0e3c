#include "profiler/busy_time.h"

#include <algorithm>
#include <numeric>

namespace versieve::profiler {
namespace {

// Time taken so far: disjoint spans, ascending.
class Taken {
 public:
  // Takes what is free of a span that ends no earlier than any before it; returns how much.
  double take(KernelSpan span) {
    double free = static_cast<double>(span.end_ns - span.start_ns);
    while (!spans_.empty() && spans_.back().end_ns >= span.start_ns) {
      const KernelSpan& last = spans_.back();
      free -= static_cast<double>(last.end_ns - std::max(last.start_ns, span.start_ns));
      span.start_ns = std::min(span.start_ns, last.start_ns);
      spans_.pop_back();
    }
    spans_.push_back(span);
    return free;
  }

 private:
  std::vector<KernelSpan> spans_;
};

}  // namespace

std::vector<double> busy_times(const std::vector<KernelSpan>& kernels) {
  std::vector<std::size_t> order(kernels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return kernels[a].end_ns < kernels[b].end_ns;
  });
  std::vector<double> times(kernels.size());
  Taken taken;
  for (const std::size_t i : order) {
    times[i] = taken.take(kernels[i]);
  }
  return times;
}

}  // namespace versieve::profiler
