// topk on CUDA for rows so short that one block keeps a row in registers: variants `radix` and
// `gvr`, which ignores its hint there.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/topk/params.h"

namespace versieve::kernels {

// Whether 1,024 threads of so many scores (8 or 16) hold a row.
template <class T>
bool short_rows_hold(const TopkParams<T>& p, int items);
// Scores a thread of the launch that takes such rows; 0 where select.cu is faster (MEASURED.md,
// topk_takes_one_block).
template <class T>
int short_items(const TopkParams<T>& p);
// REQUIRES: short_rows_hold. Enqueues, never waits, needs no scratch.
template <class T>
void launch_short_rows(const TopkParams<T>& p, int items, const LaunchContext& context);
// The rows of several calls, up to 64 in a launch.
template <class T>
void launch_short_rows_together(std::span<const TopkParams<T>> calls, int items,
                                const LaunchContext& context);

}  // namespace versieve::kernels
#endif
