// A position of the chain in the fused launch: what a lane's sample brings to it, its test, and
// where its results go. Which rejection is a sample's first: with few samples each position votes
// as soon as it is tested, and who reports a token looks at the votes of the positions before its
// own; else a second launch picks it.
#pragma once

#include "kernels/spec_sample/chain_law.cuh"
#include "kernels/spec_sample/chain_votes.cuh"
#include "kernels/spec_sample/cluster_law.cuh"

namespace versieve::kernels {

inline constexpr std::int32_t kAccepted = -1;  // instead of a drawn token

// Where drawn tokens go.
struct ChainResults {
  ChainVotes* votes = nullptr;    // or null
  std::int32_t* drawn = nullptr;  // [R, gamma + 1]; without votes
};

// What the warps of a block share, registers being short.
struct ChainShared {
  ClusterLawShared cluster;
  unsigned parity[kMaxTiles];  // that each warp read
  unsigned drawing;            // of the first 32 samples, the ones that draw here
  RowPair rows;                // statistics of both rows, once they are exchanged
  int token[32];               // of the first 32 samples: what Proposal holds
  float test[32], draw[32];
  std::uint64_t tested;  // a barrier: `drawing` is known (exact, held)
  double fine[kMaxLawChunks];
  BlockLawShared law;
};

// What a lane's sample brings to a position.
struct Proposal {
  std::int64_t sample = 0;
  bool any = false;
  int token = 0;
  float test = 0.0F;  // its uniform
  float draw = 0.0F;  // the draw's

  Proposal() = default;
  template <class T>
  __device__ Proposal(const SpecSampleParams<T>& s, std::int64_t c, std::int64_t index)
      : sample(index), any(index < s.samples) {
    if (any) {
      const float* uniforms = s.uniforms + sample * (s.gamma + 1);
      draw = uniforms[s.gamma];
      if (c < s.gamma) {
        token = s.draft_tokens[sample * s.gamma + c];
        test = uniforms[c];
      }
    }
  }
  // Of the first 32 samples, by the warp that tests; then by all, after a barrier of the block.
  __device__ void keep(ChainShared& shared) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    shared.token[lane] = token;
    shared.test[lane] = test;
    shared.draw[lane] = draw;
  }
  __device__ Proposal(const ChainShared& shared, std::int64_t samples)
      : sample(std::int64_t{blockIdx.y} * 32 + static_cast<int>(threadIdx.x) % 32),
        any(sample < samples),
        token(shared.token[threadIdx.x % 32]),
        test(shared.test[threadIdx.x % 32]),
        draw(shared.draw[threadIdx.x % 32]) {}
  template <class T>
  __device__ float2 gather(const PositionLogits<T>& z) const {
    return {load_f32(z.target + token), load_f32(z.draft + token)};
  }
};

// One position of the chain, as the functions below see it.
template <class T, bool kSigmoid>
struct Position {
  const ChainSetting<T>& a;
  const ChainResults& results;
  int c;
  unsigned parity = 0;

  __device__ bool past_drafts() const { return c == a.s.gamma; }
  __device__ bool by_softmax() const { return !kSigmoid || past_drafts(); }
  // Made anew where it is used: registers are short.
  __device__ PositionLogits<T> z() const { return PositionLogits<T>(a, c); }
  // `law`: of both rows; exact.
  __device__ TokenTest test(int token, float2 logits, const RowPair& law) const {
    if constexpr (kSigmoid) {
      return sigmoid_test(logits.x, logits.y, a.sigmoid);
    } else {
      return softmax_test(token, logits.x, law.target, logits.y, law.draft, a.scale);
    }
  }
};

// Whether a lane's sample draws here. `reports`: this lane's warp writes tests and acceptances.
template <class T, bool kSigmoid>
__device__ bool test_sample(const Position<T, kSigmoid>& here, const Proposal& x, float2 logits,
                            const RowPair& law, bool reports) {
  if (!x.any || here.past_drafts()) {
    return x.any;
  }
  const SpecSampleParams<T>& s = here.a.s;
  const TokenTest test = here.test(x.token, logits, law);
  const bool accepted = test.accepts(x.test);
  if (reports) {
    s.tau[x.sample * s.gamma + here.c] = test.tau;
    if (accepted && here.results.votes == nullptr) {
      here.results.drawn[x.sample * (s.gamma + 1) + here.c] = kAccepted;
    }
  }
  return !accepted;
}

// By one warp: a token drawn for `sample` here.
template <class T, bool kSigmoid>
__device__ void report_draw(const Position<T, kSigmoid>& here, std::int64_t sample, int token) {
  const SpecSampleParams<T>& s = here.a.s;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (here.results.votes == nullptr) {
    if (lane == 0) {
      here.results.drawn[sample * (s.gamma + 1) + here.c] = token;
    }
    return;
  }
  const std::int32_t drafted = lane < here.c ? s.draft_tokens[sample * s.gamma + lane] : 0;
  if (here.c > 0 &&
      !all_accepted_before(*here.results.votes, here.parity, static_cast<int>(sample), here.c)) {
    return;
  }
  if (lane <= s.gamma) {
    s.tokens[sample * (s.gamma + 1) + lane] =
        lane < here.c ? drafted : (lane == here.c ? token : -1);
  }
  if (lane == 0) {
    s.accepted[sample] = static_cast<std::int32_t>(here.c);
  }
}

}  // namespace versieve::kernels
