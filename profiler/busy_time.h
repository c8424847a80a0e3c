// What each of many kernels adds to the time that a GPU is busy. Kernels overlap when a launch
// starts before the one before it has ended (programmatic dependent launch), and then mostly wait:
// the sum of their durations is more than the time that passed.
#pragma once

#include <cstdint>
#include <vector>

namespace versieve::profiler {

struct KernelSpan {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;  // not before the start
};

// ns of each, in the order given. An instant at which several run counts once, for the one that
// ends first: the others wait for it. The sum is the time at which any ran.
std::vector<double> busy_times(const std::vector<KernelSpan>& kernels);

}  // namespace versieve::profiler
