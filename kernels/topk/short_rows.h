// topk on CUDA for rows so short that one block, or a cluster of few, keeps a row in registers:
// variants `radix` and `gvr`, which ignores its hint there.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#include "kernels/topk/params.h"

namespace versieve::kernels {

// How a row lies over the chip: blocks of 1,024 threads (1 to 8, a power of two), scores a thread
// (8, 16, 32), and whether a block alone with 16 or more guesses a threshold from the row first.
struct ShortLayout {
  int blocks = 0;
  int items = 0;
  bool guesses = false;
};

// Whether the layout holds a row.
template <class T>
bool short_rows_hold(const TopkParams<T>& p, const ShortLayout& layout);
// The layout that measured best; no blocks where select.cu is faster (MEASURED.md).
template <class T>
ShortLayout short_layout(const TopkParams<T>& p);
// REQUIRES: short_rows_hold. Enqueues, never waits, needs no scratch.
template <class T>
void launch_short_rows(const TopkParams<T>& p, const ShortLayout& layout,
                       const LaunchContext& context);

}  // namespace versieve::kernels
#endif
