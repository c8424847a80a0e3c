// What a launch takes in its parameters: one call, or those of several sequences, of which none
// reads what another writes. Kernels find theirs by a dimension of the grid; the code of a call is
// that of a launch of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace versieve::kernels {

inline constexpr int kMostListedCalls = 64;  // of a launch

template <class Call, int kCalls>
struct CallList {
  static constexpr int kCount = kCalls;
  Call call[kCalls];

  __device__ __forceinline__ const Call& at(unsigned i) const { return call[kCalls == 1 ? 0 : i]; }
};

// launch(list, calls) for as many at once as a launch takes; a call alone is a list of one.
template <class Call, class Launch>
void launch_lists(std::span<const Call> calls, const Launch& launch) {
  for (std::size_t first = 0; first < calls.size(); first += kMostListedCalls) {
    const std::span<const Call> some =
        calls.subspan(first, std::min<std::size_t>(kMostListedCalls, calls.size() - first));
    if (some.size() == 1) {
      launch(CallList<Call, 1>{{some[0]}}, some);
      continue;
    }
    static_assert(sizeof(CallList<Call, kMostListedCalls>) <= 32764 - 1024,
                  "a kernel's parameters, others beside them");
    CallList<Call, kMostListedCalls> list{};
    std::copy(some.begin(), some.end(), list.call);
    launch(list, some);
  }
}

// The largest of a number of each.
template <class Call, class Number>
auto most_of(std::span<const Call> calls, const Number& number) {
  auto most = number(calls.front());
  for (const Call& call : calls.subspan(1)) {
    most = std::max(most, number(call));
  }
  return most;
}

}  // namespace versieve::kernels
