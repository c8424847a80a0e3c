// copy_rows: one block a row, or a piece of one where rows are wide, moved in the largest words
// that the addresses, strides and width allow. Starts under the launch before it. Bound by moving
// the rows.
#include <cstdint>
#include <initializer_list>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "model/launches/row_ops.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWordsInFlight = 4;  // of a thread: read before the first is written
// Words of a block: 32 KiB of 16-byte words, so that no row of the engine's own widths is cut.
constexpr std::int64_t kPieceWords = 2048;

// Sizes in words.
struct RowCopy {
  std::int64_t width = 0, src_stride = 0, dst_stride = 0;
  unsigned pieces = 1;                    // blocks of a row
  const std::int32_t* src_row = nullptr;  // [rows] or null
  const std::int32_t* dst_row = nullptr;  // [rows] or null
  const void* src = nullptr;
  void* dst = nullptr;
};

template <class Word>
__global__ void __launch_bounds__(kThreads) copy_rows_kernel(const __grid_constant__ RowCopy c) {
  release_successors();
  wait_for_predecessors();
  const std::int64_t i = blockIdx.x / c.pieces;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x % c.pieces) * kPieceWords;
  const std::int64_t end = min(c.width, begin + kPieceWords);
  const std::int64_t from = c.src_row == nullptr ? i : c.src_row[i];
  const std::int64_t to = c.dst_row == nullptr ? i : c.dst_row[i];
  const Word* src = static_cast<const Word*>(c.src) + from * c.src_stride;
  Word* dst = static_cast<Word*>(c.dst) + to * c.dst_stride;
  for (std::int64_t at = begin + threadIdx.x; at < end; at += kWordsInFlight * kThreads) {
    Word word[kWordsInFlight];
#pragma unroll
    for (int w = 0; w < kWordsInFlight; ++w) {
      if (at + w * kThreads < end) {
        word[w] = src[at + w * kThreads];
      }
    }
#pragma unroll
    for (int w = 0; w < kWordsInFlight; ++w) {
      if (at + w * kThreads < end) {
        dst[at + w * kThreads] = word[w];
      }
    }
  }
}

template <class Word>
void launch_words(RowCopy c, std::int64_t rows, std::int64_t element_bytes, cudaStream_t stream) {
  const std::int64_t word = sizeof(Word);
  c.width = c.width * element_bytes / word;
  c.src_stride = c.src_stride * element_bytes / word;
  c.dst_stride = c.dst_stride * element_bytes / word;
  c.pieces = static_cast<unsigned>((c.width + kPieceWords - 1) / kPieceWords);
  const std::int64_t blocks = rows * c.pieces;
  VERSIEVE_ASSERT(blocks <= INT32_MAX, "a grid's first side is 31 bits");
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads, .stream = stream},
      copy_rows_kernel<Word>, c);
}

bool all_multiples_of_16(std::initializer_list<std::uintptr_t> bytes) {
  for (const std::uintptr_t b : bytes) {
    if (b % 16 != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

template <class T>
void launch_copy_rows(const CopyRowsParams<T>& p, const LaunchContext& context) {
  if (p.rows == 0 || p.width == 0) {
    return;
  }
  const RowCopy c{.width = p.width,
                  .src_stride = p.src_stride == 0 ? p.width : p.src_stride,
                  .dst_stride = p.dst_stride == 0 ? p.width : p.dst_stride,
                  .src_row = p.src_row,
                  .dst_row = p.dst_row,
                  .src = p.src,
                  .dst = p.dst};
  const LaunchRange range("copy_rows", traffic::copy_rows(p.rows, p.width, sizeof(T), p.term),
                          context.observer);
  if (all_multiples_of_16({reinterpret_cast<std::uintptr_t>(p.src),
                           reinterpret_cast<std::uintptr_t>(p.dst), c.width * sizeof(T),
                           c.src_stride * sizeof(T), c.dst_stride * sizeof(T)})) {
    launch_words<uint4>(c, p.rows, sizeof(T), context.stream);
  } else {
    launch_words<T>(c, p.rows, sizeof(T), context.stream);
  }
}

template void launch_copy_rows<float>(const CopyRowsParams<float>&, const LaunchContext&);
template void launch_copy_rows<Bf16>(const CopyRowsParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
