// top_logits on CUDA: which kernel, and how a row is cut. Rows of up to 1,024 logits: a warp a row
// (short_rows.cuh). Longer ones: a cluster a row (row_cluster.cuh), by k and whether
// log-probabilities are asked for (best_of_row.cuh, list_of_row.cuh). All start under the launch
// before them.
#include <cstdint>

#include "kernels/common/launch_range.h"
#include "kernels/common/row_slices.h"
#include "kernels/launch.h"
#include "kernels/top_logits/best_of_row.cuh"
#include "kernels/top_logits/list_of_row.cuh"
#include "kernels/top_logits/short_rows.cuh"
#include "model/launches/top_logits.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kMaxVocab = 1024 * kMaxRowBlocks * kMaxRowWarps;  // 262,144

constexpr std::int64_t kFewRows = 8;

struct RowCut {
  int blocks, warps;  // warps of a block
};

// As many blocks as it takes with up to `most_warps` warps each, up to kMaxRowBlocks.
RowCut cut_row(std::int64_t pieces, int most_warps) {
  int blocks = 2;
  while (blocks < kMaxRowBlocks && blocks * most_warps < pieces) {
    blocks *= 2;
  }
  return {blocks, static_cast<int>((pieces + blocks - 1) / blocks)};
}

template <class T>
void launch_rows(const TopLogitsParams<T>& p, const RowCut& cut, cudaStream_t stream,
                 void (*kernel)(TopLogitsParams<T>)) {
  VERSIEVE_ASSERT(cut.warps <= kMaxRowWarps, "a row's cluster holds the row");
  if (cut.blocks > 8) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  launch_dependent({.grid = dim3(static_cast<unsigned>(cut.blocks), static_cast<unsigned>(p.rows)),
                    .threads = static_cast<unsigned>(cut.warps) * 32,
                    .cluster = static_cast<unsigned>(cut.blocks),
                    .stream = stream},
                   kernel, p);
}

template <class T, int kWords>
void launch_best(const TopLogitsParams<T>& p, bool vector, cudaStream_t stream) {
  constexpr int kPiece = RowPiece<T, kWords>::kLogits;
  launch_rows(
      p, cut_row((p.vocab + kPiece - 1) / kPiece, 8), stream,
      vector ? top_logits_best_kernel<T, kWords, true> : top_logits_best_kernel<T, kWords, false>);
}

template <class T>
void launch_long_rows(const TopLogitsParams<T>& p, cudaStream_t stream) {
  const bool vector =
      p.vocab % kWordElements<T> == 0 && reinterpret_cast<std::uintptr_t>(p.logits) % 16 == 0;
  // A few rows leave SMs idle: smaller pieces and blocks, and more of them.
  const bool few = p.rows <= kFewRows;
  if (p.k > 1 || p.log_probability != nullptr) {
    constexpr int kPiece = ListPiece<T>::kLogits;
    launch_rows(p, cut_row((p.vocab + kPiece - 1) / kPiece, few ? 8 : kMaxRowWarps), stream,
                vector ? top_logits_list_kernel<T, true> : top_logits_list_kernel<T, false>);
  } else if (few) {
    launch_best<T, kListWords<T>>(p, vector, stream);
  } else {
    launch_best<T, 2 * kListWords<T>>(p, vector, stream);
  }
}

// A slice of the rows.
template <class T>
void launch_slice(const TopLogitsParams<T>& p, const LaunchContext& context) {
  const LaunchRange range("top_logits", traffic::top_logits(p.rows, p.vocab, p.k, sizeof(T)),
                          context.observer);
  if (p.vocab <= kShortRow) {
    launch_short_rows(p, context.stream);
  } else {
    launch_long_rows(p, context.stream);
  }
}

}  // namespace

template <class T>
void launch_top_logits(const TopLogitsParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.k >= 1 && p.k <= kMaxTopLogits, "top_logits takes k of 1 to 64");
  VERSIEVE_ASSERT(p.k <= p.vocab, "top_logits cannot list more logits than there are");
  VERSIEVE_ASSERT(p.vocab <= kMaxVocab, "top_logits on CUDA takes up to 262,144 logits a row");
  launch_row_slices(p.rows, [&](std::int64_t first, std::int64_t rows) {
    TopLogitsParams<T> slice = p;
    slice.rows = rows;
    slice.logits += first * p.vocab;
    slice.index += first * p.k;
    slice.log_probability += p.log_probability == nullptr ? 0 : first * p.k;
    launch_slice(slice, context);
  });
}

template void launch_top_logits<float>(const TopLogitsParams<float>&, const LaunchContext&);
template void launch_top_logits<Bf16>(const TopLogitsParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
