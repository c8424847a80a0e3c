// gumbel_top of several requests' rows, each perturbed by its own seed and temperature, which lie
// in device memory. The first of each row: one launch, a cluster of blocks a row, which keeps
// nothing but the best it met; bound by the noise (a hash and two logarithms a logit). Lists: a
// launch that writes the perturbed rows in f32, then top_logits over them. Either way a row's
// logits have the bits that kernels/gumbel_top/launch.cu gives them.
#include "kernels/gumbel_top/rows.h"

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/row_slices.h"
#include "kernels/gumbel_top/perturbed.h"
#include "kernels/launch.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/topk/ranked_element.cuh"
#include "model/launches/top_logits.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTokensEach = 4;
constexpr std::int64_t kBlockTokens = kThreads * kTokensEach;
constexpr unsigned kMostBlocks = 8;      // of a row's cluster
constexpr std::int64_t kBusy = 8 * 132;  // blocks of a launch

// A row's logits as they are compared.
template <class T>
struct DrawnRow {
  const T* logits;
  const std::int32_t* token;
  std::uint64_t place;
  float inverse;
  bool as_is;

  __device__ DrawnRow(const GumbelRowsParams<T>& p, std::int64_t row)
      : logits(p.logits + row * p.vocab), token(p.token) {
    const RowDraw draw = p.draw[row];
    as_is = draw.temperature == 0.0;
    inverse = as_is ? 1.0F : static_cast<float>(1.0 / draw.temperature);
    place = place_key(draw.seed, p.position[row], kGumbelUse);
  }
  __device__ float at(std::int64_t i) const {
    const float logit = load_f32(logits + i);
    return as_is ? logit : perturbed(logit, inverse, place, token == nullptr ? i : token[i]);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    gumbel_rows_kernel(const __grid_constant__ GumbelRowsParams<T> p) {
  release_successors();
  wait_for_predecessors();
  const std::int64_t row = blockIdx.y;
  const DrawnRow<T> drawn(p, row);
  float* const out = p.perturbed + row * p.vocab;
  const std::int64_t first = blockIdx.x * kBlockTokens + threadIdx.x;
#pragma unroll
  for (int part = 0; part < kTokensEach; ++part) {
    const std::int64_t i = first + part * kThreads;
    if (i < p.vocab) {
      out[i] = drawn.at(i);
    }
  }
}

// Grid: cluster, row. Ranks order as top_logits does, so the answer is the same however a row is
// cut.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gumbel_best_kernel(const __grid_constant__ GumbelRowsParams<T> p) {
  __shared__ std::uint64_t of_warp[kThreads / 32];
  __shared__ std::uint64_t of_block[kMostBlocks];  // in the first block
  release_successors();
  const Place place = cluster_place();
  cluster_sync();  // all blocks run
  wait_for_predecessors();
  const std::int64_t row = blockIdx.y;
  const DrawnRow<T> drawn(p, row);
  std::uint64_t best = 0;
#pragma unroll 4
  for (std::int64_t i = place.rank * kThreads + static_cast<int>(threadIdx.x); i < p.vocab;
       i += place.blocks * kThreads) {
    const std::uint64_t rank =
        rank_of(order_key<float>(bits_of(drawn.at(i))), static_cast<std::uint32_t>(i));
    best = rank > best ? rank : best;
  }
  best = block_max<kThreads>(best, of_warp);
  if (threadIdx.x == 0) {
    *in_block(&of_block[place.rank], 0) = best;
  }
  cluster_sync();
  if (place.rank == 0 && threadIdx.x == 0) {
    for (int i = 0; i < place.blocks; ++i) {
      best = of_block[i] > best ? of_block[i] : best;
    }
    p.index[row] = index_of(best);
  }
}

template <class T>
void launch_best(const GumbelRowsParams<T>& p, const LaunchContext& context) {
  unsigned blocks = 1;
  while (blocks < kMostBlocks && 2 * blocks * p.rows <= kBusy && blocks * kBlockTokens < p.vocab) {
    blocks *= 2;
  }
  const LaunchRange range("gumbel_noise", traffic::gumbel_draw(p.rows, p.vocab, sizeof(T)),
                          context.observer);
  launch_dependent({.grid = dim3(blocks, static_cast<unsigned>(p.rows)),
                    .threads = kThreads,
                    .cluster = blocks,
                    .stream = context.stream},
                   gumbel_best_kernel<T>, p);
}

template <class T>
void launch_lists(const GumbelRowsParams<T>& p, const LaunchContext& context) {
  {
    const LaunchRange range("gumbel_noise", traffic::gumbel_noise(p.rows, p.vocab, sizeof(T)),
                            context.observer);
    launch_dependent(
        {.grid = dim3(static_cast<unsigned>((p.vocab + kBlockTokens - 1) / kBlockTokens),
                      static_cast<unsigned>(p.rows)),
         .threads = kThreads,
         .stream = context.stream},
        gumbel_rows_kernel<T>, p);
  }
  launch_top_logits(TopLogitsParams<float>{.rows = p.rows,
                                           .vocab = p.vocab,
                                           .k = p.k,
                                           .logits = p.perturbed,
                                           .index = p.index,
                                           .log_probability = p.log_probability},
                    context);
}

}  // namespace

template <class T>
void launch_gumbel_rows(const GumbelRowsParams<T>& p, const LaunchContext& context) {
  launch_row_slices(p.rows, [&](std::int64_t first, std::int64_t rows) {
    GumbelRowsParams<T> slice = p;
    slice.rows = rows;
    slice.draw += first;
    slice.logits += first * p.vocab;
    slice.position += first;
    slice.perturbed += p.perturbed == nullptr ? 0 : first * p.vocab;
    slice.index += first * p.k;
    slice.log_probability += p.log_probability == nullptr ? 0 : first * p.k;
    p.perturbed == nullptr ? launch_best(slice, context) : launch_lists(slice, context);
  });
}

template void launch_gumbel_rows<float>(const GumbelRowsParams<float>&, const LaunchContext&);
template void launch_gumbel_rows<Bf16>(const GumbelRowsParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
