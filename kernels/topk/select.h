// topk on CUDA, variants `radix` and `gvr`: one launch, one cluster of blocks a row.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/topk/params.h"

namespace versieve::kernels {

// How a row is laid over the chip: blocks of a cluster (1 to 16, a power of two) and scores a
// thread takes at once (4, 8, 16, 32; bf16 from 8).
struct SelectShape {
  int cluster = 0;
  int items = 0;
};

// The longest row that a cluster takes.
inline constexpr std::int64_t kSelectScores = std::int64_t{1} << 21;

// Whether a cluster takes the rows in that shape, or in the one of select_shape.
template <class T>
bool select_fits(const TopkParams<T>& p, const SelectShape& shape);
template <class T>
bool select_takes(const TopkParams<T>& p);
// The shape that measured best for so many rows of that length (TRIED.md).
template <class T>
SelectShape select_shape(const TopkParams<T>& p);
// Shared memory of a block. REQUIRES: select_fits.
template <class T>
std::size_t select_shared_bytes(const TopkParams<T>& p, const SelectShape& shape);
// REQUIRES: select_fits. Enqueues, never waits, needs no scratch.
template <class T>
void launch_select(const TopkParams<T>& p, const SelectShape& shape, const LaunchContext& context);
// The rows of several calls, up to 64 in a launch, in a shape that all of them fit. REQUIRES:
// select_takes each.
template <class T>
void launch_select_together(std::span<const TopkParams<T>> calls, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
