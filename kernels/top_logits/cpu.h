// top_logits on the CPU: the k largest logits of each row and their log-probabilities.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

inline constexpr std::int64_t kMaxTopLogits = 64;

// T = double or float. Lower index first among equals; NaN ranks below everything. The normaliser
// is summed in double, in index order.
template <class T>
void top_logits_cpu(const TopLogitsParams<T>& p, int threads);

}  // namespace versieve::kernels
