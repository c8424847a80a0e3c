// spec_sample, variants `exact` and `sigmoid`: one pass over the logits, which stay in registers.
// Grid: a cluster of 16 blocks for each position of the chain, a tile of the vocabulary a block, a
// chunk of 512 elements of target and draft a warp. 1. Chunks give their largest logit and sum,
// blocks exchange those of their tiles (exact). 2. Each position is tested, and where a sample
// rejects (or all drafts are past) the weights max(0, p - q), p after the last draft, are summed;
// blocks exchange the sums. 3. The warp whose chunk holds the draw finds the token. A second launch
// takes each sample's first rejection. Bits are those of baseline.cu, whose order of sums is the
// same. Moves (2 gamma + 1) V logits once (traffic::spec_chain); bound by latencies: one from
// memory, two cluster barriers, one launch.
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/spec_sample/chain_law.cuh"
#include "kernels/spec_sample/cluster_law.cuh"
#include "kernels/spec_sample/launch.h"
#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve::kernels {
namespace {

constexpr int kPickThreads = 128;
constexpr std::int32_t kAccepted = -1;  // instead of a drawn token

struct ChainShared {
  ClusterLawShared cluster;
  double fine[kMaxChunks];
  BlockLawShared law;
};

// What a sample brings to a position.
struct Proposal {
  int token = 0;
  float target_logit = 0.0F, draft_logit = 0.0F;
  float test = 0.0F;  // its uniform
  float draw = 0.0F;  // the draw's

  template <class T>
  __device__ Proposal(const ChainSetting<T>& a, const PositionLogits<T>& z, std::int64_t c,
                      std::int64_t sample) {
    if (sample >= a.s.samples) {
      return;
    }
    const float* uniforms = a.s.uniforms + sample * (a.s.gamma + 1);
    draw = uniforms[a.s.gamma];
    if (c < a.s.gamma) {
      token = a.s.draft_tokens[sample * a.s.gamma + c];
      test = uniforms[c];
      target_logit = load_f32(z.target + token);
      draft_logit = load_f32(z.draft + token);
    }
  }
};

template <bool kSigmoid, class T>
__device__ TokenTest test_of(const ChainSetting<T>& a, const Proposal& x, const RowPair& law) {
  if constexpr (kSigmoid) {
    return sigmoid_test(x.target_logit, x.draft_logit, a.sigmoid);
  } else {
    return softmax_test(x.token, x.target_logit, law.target, x.draft_logit, law.draft, a.scale);
  }
}

// By the first block of a cluster: draws where too little of max(0, p - q) is left for f32, or
// nothing at all.
template <class T, bool kSigmoid>
__device__ __noinline__ void draw_slowly(const ChainSetting<T>& a, const PositionLogits<T>& z,
                                         std::int64_t c, const RowPair& law, std::int32_t* drawn,
                                         ChainShared& shared) {
  const std::int64_t step = std::int64_t{gridDim.y} * 32;
  for (std::int64_t base = std::int64_t{blockIdx.y} * 32; base < a.s.samples; base += step) {
    for (std::int64_t sample = base; sample < base + 32 && sample < a.s.samples; ++sample) {
      const Proposal x(a, z, c, sample);
      if (c < a.s.gamma && test_of<kSigmoid>(a, x, law).accepts(x.test)) {
        continue;
      }
      int token = -1;
      if (!kSigmoid && c < a.s.gamma && !a.scale.one_hot) {
        token = block_draw_fine(a, z, law.target.largest, law.draft.largest, x.draw, shared.fine);
      }
      if (token < 0) {
        const auto load = [&z](int first, float(&w)[kLaneElements]) { z.load_target(first, w); };
        token = block_draw_softmax<T>(load, a.cut, a.scale, x.draw, shared.law,
                                      reinterpret_cast<float*>(shared.fine));
      }
      if (threadIdx.x == 0) {
        drawn[sample * (a.s.gamma + 1) + c] = token;
      }
    }
  }
}

// Weights of the draw in place of the target's logits or weights; returns the warp's sum.
template <bool kSigmoid, class T>
__device__ float draw_weights(const ChainSetting<T>& a, bool past_drafts, float target_factor,
                              float draft_factor, float (&p)[kLaneElements],
                              const float (&q)[kLaneElements]) {
  float sum = 0.0F;
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
  return warp_sum(sum);
}

template <class T, bool kSigmoid>
__global__ void __launch_bounds__(kClusterLawThreads, 2)
    spec_chain_kernel(const __grid_constant__ ChainSetting<T> a, std::int32_t* drawn) {
  __shared__ ChainShared shared;
  release_successors();
  cluster_arrive();
  wait_for_predecessors();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t c = static_cast<int>(blockIdx.x) / cluster_size();
  const bool past_drafts = c == a.s.gamma;
  const bool by_softmax = !kSigmoid || past_drafts;
  const int chunk = cluster_rank() * a.cut.tile_chunks + warp;
  const int first = chunk * kRoundElements;
  const PositionLogits<T> z(a, c);
  float p[kLaneElements], q[kLaneElements] = {};
  z.load_target(first, p);
  if (!past_drafts) {
    z.load_draft(first, q);
  }
  std::int64_t base = std::int64_t{blockIdx.y} * 32;
  const std::int64_t step = std::int64_t{gridDim.y} * 32;
  Proposal x(a, z, c, base + lane);

  LawStat target, draft;
  RowPair law;
  if (by_softmax) {
    target = weigh_round<T>(p, first, a.scale);
    draft = past_drafts ? empty_stat() : weigh_round<T>(q, first, a.scale);
    law = exchange_law(target, draft, a.scale, shared.cluster);
  } else {
    cluster_wait();
  }
  const auto draws = [&](std::int64_t sample) {  // and reports the test
    if (sample >= a.s.samples) {
      return false;
    }
    const TokenTest test = past_drafts ? TokenTest{} : test_of<kSigmoid>(a, x, law);
    const bool accepted = test.accepts(x.test);
    if (cluster_rank() == 0 && warp == 0 && !past_drafts) {
      a.s.tau[sample * a.s.gamma + c] = test.tau;
      if (accepted) {
        drawn[sample * (a.s.gamma + 1) + c] = kAccepted;
      }
    }
    return !accepted;
  };
  bool drawing = draws(base + lane);
  if (base + step >= a.s.samples && !__any_sync(0xFFFFFFFFU, drawing)) {
    return;  // the whole cluster alike
  }
  const float sum = draw_weights<kSigmoid>(
      a, past_drafts, by_softmax ? chunk_factor(target, law.target, a.scale) : 1.0F,
      by_softmax && !past_drafts ? chunk_factor(draft, law.draft, a.scale) : 1.0F, p, q);
  const DrawRange<float> range = exchange_sums(sum, shared.cluster);
  const bool fine = !kSigmoid && !past_drafts && !a.scale.one_hot && range.total < kFineMass;
  const bool slow = fine || !(range.total > 0.0F);
  while (true) {
    const float aim = x.draw * range.total;
    unsigned hits = __ballot_sync(0xFFFFFFFFU, drawing && !slow && range.hit(aim));
    while (hits != 0) {
      const int hit = __ffs(static_cast<int>(hits)) - 1;
      hits &= hits - 1;
      const int token = chunk_draw<T, float>(
          [&p](int, float(&w)[kLaneElements]) {
#pragma unroll
            for (int j = 0; j < kLaneElements; ++j) {
              w[j] = p[j];
            }
          },
          chunk, a.cut, range.before, __shfl_sync(0xFFFFFFFFU, aim, hit));
      if (lane == 0) {
        drawn[(base + hit) * (a.s.gamma + 1) + c] = token;
      }
    }
    base += step;
    if (base >= a.s.samples) {
      break;
    }
    x = Proposal(a, z, c, base + lane);
    drawing = draws(base + lane);
  }
  if (slow && cluster_rank() == 0) {
    draw_slowly<T, kSigmoid>(a, z, c, law, drawn, shared);
  }
}

// One warp a sample: its first position without an acceptance is the last.
template <class T>
__global__ void __launch_bounds__(kPickThreads)
    spec_pick_kernel(const __grid_constant__ SpecSampleParams<T> s, const std::int32_t* drawn) {
  release_successors();
  const std::int64_t sample =
      std::int64_t{blockIdx.x} * (kPickThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  const std::int64_t lane = threadIdx.x % 32;
  wait_for_predecessors();
  if (sample >= s.samples) {
    return;
  }
  std::int32_t* const tokens = s.tokens + sample * (s.gamma + 1);
  bool over = false;
  for (std::int64_t base = 0; base <= s.gamma; base += 32) {
    const std::int64_t c = base + lane;
    const std::int32_t own = c <= s.gamma ? drawn[sample * (s.gamma + 1) + c] : 0;
    const std::int32_t drafted = c < s.gamma ? s.draft_tokens[sample * s.gamma + c] : 0;
    const unsigned ends = __ballot_sync(0xFFFFFFFFU, own != kAccepted);
    const std::int64_t end = ends != 0 ? base + __ffs(static_cast<int>(ends)) - 1 : s.gamma + 1;
    if (c <= s.gamma) {
      tokens[c] = over || c > end ? -1 : (c == end ? own : drafted);
    }
    if (!over && ends != 0 && lane == 0) {
      s.accepted[sample] = static_cast<std::int32_t>(end);
    }
    over = over || ends != 0;
  }
}

template <class T, bool kSigmoid>
void launch_chain(const ChainSetting<T>& a, std::int32_t* drawn, const LaunchContext& context) {
  const LaunchRange range("spec_chain", traffic::spec_chain(a.s.gamma, a.s.vocab, sizeof(T)),
                          context.observer);
  const unsigned blocks = cluster_blocks(a.cut);
  const std::int64_t slices = std::clamp<std::int64_t>(a.s.samples / 256, 1, 128);
  check(cudaFuncSetAttribute(spec_chain_kernel<T, kSigmoid>,
                             cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  launch_dependent(
      {.grid = dim3(blocks * static_cast<unsigned>(a.s.gamma + 1), static_cast<unsigned>(slices)),
       .threads = static_cast<unsigned>(a.cut.tile_chunks) * 32,
       .cluster = blocks,
       .stream = context.stream},
      spec_chain_kernel<T, kSigmoid>, a, drawn);
}

}  // namespace

template <class T>
bool spec_fused_takes(const SpecSampleParams<T>& p) {
  return cut_law(p.vocab).rounds == 1;
}

template <class T>
std::size_t spec_fused_scratch_bytes(const SpecSampleParams<T>& p) {
  return static_cast<std::size_t>(p.samples * (p.gamma + 1)) * sizeof(std::int32_t);
}

template <class T>
void launch_spec_fused(const SpecSampleParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(context.scratch_bytes >= spec_fused_scratch_bytes(p),
                  "spec_sample's scratch is reserved before");
  const ChainSetting<T> a = chain_setting(p);
  std::int32_t* const drawn = static_cast<std::int32_t*>(context.scratch);  // [R, gamma + 1]
  a.by_sigmoid() ? launch_chain<T, true>(a, drawn, context)
                 : launch_chain<T, false>(a, drawn, context);
  const LaunchRange range("spec_pick", traffic::spec_pick(p.samples, p.gamma), context.observer);
  constexpr std::int64_t kPicks = kPickThreads / 32;
  launch_dependent({.grid = dim3(static_cast<unsigned>((p.samples + kPicks - 1) / kPicks)),
                    .threads = kPickThreads,
                    .stream = context.stream},
                   spec_pick_kernel<T>, p, static_cast<const std::int32_t*>(drawn));
}

template bool spec_fused_takes<float>(const SpecSampleParams<float>&);
template bool spec_fused_takes<Bf16>(const SpecSampleParams<Bf16>&);
template std::size_t spec_fused_scratch_bytes<float>(const SpecSampleParams<float>&);
template std::size_t spec_fused_scratch_bytes<Bf16>(const SpecSampleParams<Bf16>&);
template void launch_spec_fused<float>(const SpecSampleParams<float>&, const LaunchContext&);
template void launch_spec_fused<Bf16>(const SpecSampleParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
