// The draw after a rejection, or after all drafts, in the fused launch: weights in registers, their
// sums over the cluster, and the token of the warp whose chunk is hit.
#pragma once

#include "kernels/spec_sample/chain_position.cuh"

namespace versieve::kernels {

// By the first block of a cluster: draws where too little of max(0, p - q) is left for f32, or
// nothing at all.
template <class T, bool kSigmoid>
__device__ __noinline__ void draw_slowly(const Position<T, kSigmoid>& here, ChainShared& shared) {
  const ChainSetting<T>& a = here.a;
  const unsigned step = gridDim.y * 32;
  const SampleRange samples = here.samples();
  for (unsigned base = samples.first + blockIdx.y * 32; base < samples.end; base += step) {
    for (unsigned sample = base; sample < base + 32 && sample < samples.end; ++sample) {
      const Proposal x(a.s, here.c, sample, samples);
      if (!here.past_drafts() &&
          here.test(x.token, x.gather(here.z()), shared.rows).accepts(x.test)) {
        continue;
      }
      int token = -1;
      if (!kSigmoid && !here.past_drafts() && !a.scale.one_hot) {
        token = block_draw_fine(a, here.z(), shared.rows.target.largest, shared.rows.draft.largest,
                                x.draw, shared.fine);
      }
      if (token < 0) {
        const auto load = [&here](int first, float(&w)[kLaneElements]) {
          here.z().load_target(first, w);
        };
        token = block_draw_softmax<T>(load, a.cut, a.scale, x.draw, shared.law,
                                      reinterpret_cast<float*>(shared.fine));
      }
      if (threadIdx.x < 32) {
        report_draw(here, sample, token);
      }
    }
  }
}

// Weights of the draw in place of the target's logits (sigmoid) or weights, a round; returns `sum`
// and the lane's.
template <bool kSigmoid, class T>
__device__ float draw_weights(const ChainSetting<T>& a, bool past_drafts, float target_factor,
                              float draft_factor, float (&p)[kLaneElements],
                              const float (&q)[kLaneElements], float sum) {
#pragma unroll
  for (int j = 0; j < kLaneElements; ++j) {
    if (past_drafts) {
      p[j] = __fmul_rn(p[j], target_factor);
    } else if constexpr (kSigmoid) {
      p[j] = sigmoid_residual(p[j], q[j], static_cast<float>(a.sigmoid.slope),
                              static_cast<float>(a.sigmoid.offset));
    } else {
      p[j] = residual(__fmul_rn(p[j], target_factor), __fmul_rn(q[j], draft_factor));
    }
    sum += p[j];
  }
  return sum;
}

// Weights again from the logits of a round whose chunk's statistics are known.
template <class T>
__device__ void weigh_again(float (&z)[kLaneElements], int first, const LawStat& chunk,
                            const LawScale& scale) {
  if (scale.one_hot) {
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      z[j] = element_index<T>(first, j) == chunk.argmax() ? 1.0F : 0.0F;
    }
  } else {
    weigh(z, chunk.largest, scale.per_logit);
  }
}

// Draws, from the weights in registers, for those of the 32 samples from `base` on that draw here:
// drawing() says which, and is asked only where a draw would hit this warp's chunk. `draw`: the
// uniform of the lane's sample.
template <class T, bool kSigmoid, int kRounds, class Drawing>
__device__ void draw_batch(const Position<T, kSigmoid>& here, unsigned base, float draw,
                           const Drawing& drawing, const DrawRange<float>& tile, int chunk,
                           const float (&weights)[kRounds][kLaneElements],
                           const ChainShared& shared) {
  const float aim = draw * tile.total;
  const bool any = base + threadIdx.x % 32 < here.samples().end;
  if (!__any_sync(0xFFFFFFFFU, any && tile.hit(aim))) {
    return;
  }
  const DrawRange<float> range = chunk_range(tile, shared.cluster);
  unsigned hits = __ballot_sync(0xFFFFFFFFU, any && range.hit(aim));
  hits &= hits != 0 ? drawing() : 0U;
  while (hits != 0) {
    const int hit = __ffs(static_cast<int>(hits)) - 1;
    hits &= hits - 1;
    const int token = register_draw<T>(weights, chunk, here.a.cut, range.before,
                                       __shfl_sync(0xFFFFFFFFU, aim, hit));
    report_draw(here, base + static_cast<unsigned>(hit), token);
  }
}

}  // namespace versieve::kernels
