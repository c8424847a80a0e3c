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
  std::int32_t* drawn = nullptr;  // [B, R, gamma + 1]; without votes
  bool known = false;             // who draws is its sample's first rejection: no votes, no `drawn`
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

// Of all sequences' samples, fewer than 2^31, one after the other, those of one sequence.
struct SampleRange {
  unsigned first = 0, end = 0;

  // The lane's of this block's first batch of 32.
  __device__ unsigned of_lane() const { return first + blockIdx.y * 32 + threadIdx.x % 32; }
};

// What a lane's sample brings to a position.
struct Proposal {
  unsigned sample = 0;
  bool any = false;
  int token = 0;
  float test = 0.0F;  // its uniform
  float draw = 0.0F;  // the draw's

  Proposal() = default;
  template <class T>
  __device__ Proposal(const SpecSampleParams<T>& s, int c, unsigned index, const SampleRange& range)
      : sample(index), any(index < range.end) {
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
  __device__ Proposal(const ChainShared& shared, const SampleRange& range)
      : sample(range.of_lane()),
        any(sample < range.end),
        token(shared.token[threadIdx.x % 32]),
        test(shared.test[threadIdx.x % 32]),
        draw(shared.draw[threadIdx.x % 32]) {}
  template <class T>
  __device__ float2 gather(const PositionLogits<T>& z) const {
    return z.both(token);
  }
};

// One position of the chain, as the functions below see it.
template <class T, bool kSigmoid>
struct Position {
  const ChainSetting<T>& a;
  const ChainResults& results;
  int c;
  unsigned parity = 0;

  // Of the batch; read where it is used, for registers are short.
  __device__ static int sequence() { return static_cast<int>(blockIdx.z); }

  __device__ bool past_drafts() const { return c == a.s.gamma; }
  __device__ bool by_softmax() const { return !kSigmoid || past_drafts(); }
  // Made anew where it is used: registers are short.
  __device__ PositionLogits<T> z() const { return PositionLogits<T>(a, sequence(), c); }
  __device__ SampleRange samples() const {
    const unsigned count = static_cast<unsigned>(a.s.samples);
    return {blockIdx.z * count, (blockIdx.z + 1) * count};
  }
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
__device__ void report_draw(const Position<T, kSigmoid>& here, unsigned sample, int token) {
  const SpecSampleParams<T>& s = here.a.s;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (here.results.votes == nullptr && !here.results.known) {
    if (lane == 0) {
      here.results.drawn[sample * (s.gamma + 1) + here.c] = token;
    }
    return;
  }
  const std::int32_t drafted = lane < here.c ? s.draft_tokens[sample * s.gamma + lane] : 0;
  if (here.c > 0 && !here.results.known &&
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
