// The laws of a chain's positions: whether a draft is accepted, and the weights of the draw after
// its rejection. Shared by the launches of every variant, so that they decide alike.
#pragma once

#include "kernels/ops.h"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/spec_sample/block_law.cuh"

namespace versieve::kernels {

// Below this mass of max(0, p - q), f32 differences are too coarse to draw from (each is off by up
// to 1e-7 of p): the draw recomputes them in double. Reached with at most this probability a
// position.
inline constexpr float kFineMass = 1e-2F;

// sigmoid(a), a = (z / T - alpha) / (beta - alpha) = z * slope + offset.
struct SigmoidLaw {
  double slope = 1.0, offset = 0.0;
};

// What all positions share.
template <class T>
struct ChainSetting {
  SpecSampleParams<T> s;
  LawCut cut;
  LawScale scale;
  SigmoidLaw sigmoid;
  bool words = false;  // rows are whole 16-byte words
  const float* cuts =
      nullptr;  // least logits kept: [B (gamma + 1)] of the target, [B gamma]; or null
  __host__ __device__ bool by_sigmoid() const { return s.variant == SpecSampleVariant::kSigmoid; }
};

template <class T>
ChainSetting<T> chain_setting(const SpecSampleParams<T>& s, const float* cuts) {
  const auto at = [](const T* p) { return reinterpret_cast<std::uintptr_t>(p); };
  ChainSetting<T> c{.s = s, .cut = cut_law(s.vocab), .scale = law_scale(s.temperature)};
  c.cuts = cuts;
  const double width = s.beta - s.alpha;
  c.sigmoid = {1.0 / (s.temperature * width), -s.alpha / width};
  c.words = s.vocab % kWordElements<T> == 0 && (at(s.target_logits) | at(s.draft_logits)) % 16 == 0;
  return c;
}

struct TokenTest {
  float tau = 0.0F;
  bool possible = false;  // the target can say it

  __device__ bool accepts(float r) const { return possible && r <= tau; }
};

// min(1, p/q) from logits and statistics of their rows: exponents in double, so that a quotient of
// two probabilities below f32's range stays right.
__device__ inline TokenTest softmax_test(int token, float target_logit, const LawStat& target,
                                         float draft_logit, const LawStat& draft,
                                         const LawScale& scale) {
  if (scale.one_hot) {
    const bool said = token == target.argmax();
    return {said ? 1.0F : 0.0F, said};
  }
  const double p = (double{target_logit} - double{target.largest}) * scale.inverse;
  const double q = (double{draft_logit} - double{draft.largest}) * scale.inverse;
  if (!(p > kLeastExponent)) {
    return {};
  }
  if (!(q > kLeastExponent)) {
    return {1.0F, true};
  }
  const double power = fmin(fmax((p - q) * 1.4426950408889634, -400.0), 400.0);
  const double whole = rint(power);
  const float part = exp2_flushed(static_cast<float>(power - whole));
  const float quotient = __fmul_rn(part, __fdiv_rn(draft.sum, target.sum));
  return {fminf(1.0F, scalbnf(quotient, static_cast<int>(whole))), true};
}

__device__ inline double sigmoid_of(float logit, const SigmoidLaw& law) {
  return 1.0 / (1.0 + exp(-(double{logit} * law.slope + law.offset)));
}

__device__ inline TokenTest sigmoid_test(float target_logit, float draft_logit,
                                         const SigmoidLaw& law) {
  const double p = sigmoid_of(target_logit, law);
  const double q = sigmoid_of(draft_logit, law);
  const double tau = q > 0.0 ? fmin(1.0, p / q) : (p > 0.0 ? 1.0 : 0.0);
  return {static_cast<float>(tau), p > 0.0};
}

// max(0, p - q) of probabilities.
__device__ inline float residual(float p, float q) {
  return fmaxf(0.0F, __fsub_rn(p, q));
}

// max(0, sigmoid(a) - sigmoid(b)) = sigmoid(a) sigmoid(-b) (1 - e^(b - a)) without cancellation;
// nothing where the difference would be lost in f64 too.
__device__ inline float sigmoid_residual(float target_logit, float draft_logit, float slope,
                                         float offset) {
  const float apart = __fmul_rn(target_logit - draft_logit, slope);
  if (!(apart > 0.0F)) {
    return 0.0F;
  }
  const float a = fmaf(target_logit, slope, offset);
  const float b = fmaf(draft_logit, slope, offset);
  const float share = __fmul_rn(__fdividef(1.0F, 1.0F + __expf(b)), -expm1f(-apart));
  return share < 5.5e-17F ? 0.0F : __fmul_rn(share, __fdividef(1.0F, 1.0F + __expf(-a)));
}

// Loads of the logits of a sequence's position c.
template <class T>
struct PositionLogits {
  const T* target = nullptr;  // [V]
  const T* draft = nullptr;   // [V], or null: the position after all drafts
  int vocab = 0;
  bool words = false;
  float target_least = -INFINITY, draft_least = -INFINITY;

  // 32-bit factors: registers are short.
  __device__ PositionLogits(const ChainSetting<T>& a, int sequence, int c) : vocab(a.cut.vocab) {
    const int gamma = static_cast<int>(a.s.gamma);
    const int target_row = sequence * (gamma + 1) + c;
    const int draft_row = target_row - sequence;
    words = a.words;
    target = a.s.target_logits + std::int64_t{target_row} * vocab;
    draft = c < gamma ? a.s.draft_logits + std::int64_t{draft_row} * vocab : nullptr;
    if (a.cuts != nullptr) {
      target_least = a.cuts[target_row];
      draft_least =
          c < gamma ? a.cuts[static_cast<int>(a.s.batch) * (gamma + 1) + draft_row] : -INFINITY;
    }
  }
  __device__ void load_target(int first, float (&z)[kLaneElements]) const {
    load_round(target, first, vocab, words, z);
    keep_from(target_least, z);
  }
  __device__ void load_draft(int first, float (&z)[kLaneElements]) const {
    load_round(draft, first, vocab, words, z);
    keep_from(draft_least, z);
  }
  // Both logits of a token.
  __device__ float2 both(int token) const {
    return {keep_from(target_least, load_f32(target + token)),
            keep_from(draft_least, load_f32(draft + token))};
  }
};

// By one block: a draw from max(0, p - q) of softmax laws with exponentials and differences in
// double, as the reference has them; -1 where nothing is left.
template <class T>
__device__ int block_draw_fine(const ChainSetting<T>& a, const PositionLogits<T>& z,
                               float target_largest, float draft_largest, float u, double* sums) {
  const auto exponentials = [&](float(&logit)[kLaneElements], float largest,
                                double(&w)[kLaneElements]) {
#pragma unroll 1
    for (int j = 0; j < kLaneElements; ++j) {
      w[j] = exp((double{logit[j]} - double{largest}) * a.scale.inverse);
    }
  };
  const auto target = [&](int first, double(&w)[kLaneElements]) {
    float logit[kLaneElements];
    z.load_target(first, logit);
    exponentials(logit, target_largest, w);
  };
  const auto draft = [&](int first, double(&w)[kLaneElements]) {
    float logit[kLaneElements];
    z.load_draft(first, logit);
    exponentials(logit, draft_largest, w);
  };
  block_chunk_sums<T>(target, a.cut, sums);
  const double p_sum = walk_total(a.cut, sums);
  block_chunk_sums<T>(draft, a.cut, sums);
  const double q_sum = walk_total(a.cut, sums);
  const auto left = [&](int first, double(&w)[kLaneElements]) {
    double q[kLaneElements];
    target(first, w);
    draft(first, q);
#pragma unroll
    for (int j = 0; j < kLaneElements; ++j) {
      w[j] = fmax(0.0, w[j] / p_sum - q[j] / q_sum);
    }
  };
  return block_draw<T, double>(left, a.cut, u, sums);
}

}  // namespace versieve::kernels
