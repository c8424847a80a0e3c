// Parts of a row (segments, spans of compressed tokens) merged by half a warp, a part a lane. Which
// parts there are depends on the row's own tokens, so the order of sums is the row's own.
#pragma once

#include "kernels/nsa_verify/fused.cuh"
#include "kernels/nsa_verify/fused_words.cuh"
#include "kernels/ptx/settle.cuh"

namespace versieve::kernels {

inline constexpr int kRowLanes = 16;

// Over the lanes of a row; all lanes of the warp call it.
__device__ __forceinline__ float row_most(float2 state, bool in) {
  float most = in && state.y > 0.0F ? state.x : kNoReference;
#pragma unroll
  for (int apart = kRowLanes / 2; apart > 0; apart /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, apart));
  }
  return most;
}
// A sum of parts under one reference.
template <int kD>
struct PartSum {
  float4 out[kD / 64] = {};
  float mass = 0.0F;  // softmax sum

  __device__ __forceinline__ void add(float weight, float own_mass, const float4* x) {
    mass += own_mass;
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      out[w].x = fmaf(weight, x[w].x, out[w].x);
      out[w].y = fmaf(weight, x[w].y, out[w].y);
      out[w].z = fmaf(weight, x[w].z, out[w].z);
      out[w].w = fmaf(weight, x[w].w, out[w].w);
    }
  }
  // value += gate times the average; without a key nothing.
  __device__ __forceinline__ float put(float gate, float4* value) const {
    const float inverse = mass > 0.0F ? __fdividef(1.0F, mass) : 0.0F;
    const float share = inverse * gate;
#pragma unroll
    for (int w = 0; w < kD / 64 && mass > 0.0F; ++w) {
      value[w].x = fmaf(share, out[w].x, value[w].x);
      value[w].y = fmaf(share, out[w].y, value[w].y);
      value[w].z = fmaf(share, out[w].z, value[w].z);
      value[w].w = fmaf(share, out[w].w, value[w].w);
    }
    return inverse;
  }
};

// The parts of one row: if kSpanned spans (joins, if the cut joins them), if kSegmented the
// segments. What can be worked out before the parts are there is: a launch's end waits for what is
// left. This lane's elements: 64 w + 4 lane, + 1, + 2, + 3; those past the head's size hold
// anything.
//
// Order of sums: a branch's segments ascending; spans ascending within their join, then joins. A
// part counts by an exact power of two, gates and 1 / sum come last.
//
// kAnnounced: parts lie in memory that is blank until they are there (fused_words.cuh), are looked
// for, and leave blanks.
//
// kAhead: many rows have more spans than fly together, so the next ones are asked for while those
// are summed up; they lie in registers. Else announced parts are no more than fly together.
template <int kD, bool kSegmented, bool kSpanned, bool kAnnounced, bool kAhead = true>
class RowParts {
 public:
  // spans: of the row.
  __device__ __forceinline__ RowParts(const FusedArguments& a, int row, int spans)
      : spans_(spans),
        most_spans_(kSpanned ? __reduce_max_sync(0xFFFFFFFFU, spans) : 0),
        joined_(a.spans_joined) {
    const int first_span = row * a.max_spans;
    const int first_segment = row * kSegments;
    span_states_ = a.span_states + first_span + lane() - kBefore;
    span_outs_ = reinterpret_cast<float4*>(a.span_outs + first_span * kD) + lane();
    first_state_ = span_states_;
    if constexpr (kSegmented) {
      first_state_ = lane() < kSegments ? a.segment_states + first_segment + lane() : span_states_;
      segment_outs_ = reinterpret_cast<float4*>(a.segment_outs + first_segment * kD) + lane();
      settle(segment_outs_);
    }
    // Now, not when they are wanted.
    settle(span_states_);
    settle(span_outs_);
    settle(first_state_);
  }
  static constexpr int kMostAwaited = kD == kFusedManyHead ? kMostAnnouncedSpans : 0;

  __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % kRowLanes; }

  // Asks for what the first sums need.
  __device__ __forceinline__ void fetch() {
    const float2 none = make_float2(kNoReference, 0.0F);
    state_[0] = lane() < kBefore + spans_ ? __ldcg(first_state_) : none;
    if constexpr (kSpanned) {
      state_[1] = state_of(kRowLanes);
    }
    if constexpr (kSegmented) {
#pragma unroll
      for (int i = 0; i < kSegments; ++i) {
#pragma unroll
        for (int w = 0; w < kD / 64; ++w) {
          segment_[i][w] = __ldcg(segment_outs_ + i * (kD / 4) + w * kRowLanes);
        }
      }
    }
    if constexpr (kSpanned) {
      fetch_batch(0, quad_);
      if constexpr (kAhead) {
        if (most_spans_ > kBatch) {
          fetch_batch(kBatch, ahead_);
        }
      }
    }
  }

  // The same of announced parts, once they are there; leaves blanks. `stored`: spans that the
  // working CTAs store, of which the row's own come first. All words are looked for when the states
  // of most parts have been seen: a look costs L2 as much as a merge. A row that does not exist
  // reads another's, and waits for nothing.
  __device__ __forceinline__ void await(bool exists, int stored) {
    static_assert(kD == 64, "a lane has four elements of a part");
    const Blank blank;
    const bool first = exists && lane() < kBefore + stored;
    const bool second = exists && kRowLanes + lane() < kBefore + stored;
    const int spans = exists ? stored : 0;
    const bool far = kAhead && stored > kBatch;
    const float2 none = make_float2(kNoReference, 0.0F);
    const unsigned own = 0xFFFFU << (threadIdx.x & 16U);  // lanes
    const int enough = kAnnouncedSeenEighths * __popc(__ballot_sync(0xFFFFFFFFU, first) & own);
    bool seen;
    do {
      float2 state = none;
      if (first) {
        load_whole<0>(first_state_, state);
      }
      seen = first && most_word(state) != kBlankWord;
    } while (__any_sync(0xFFFFFFFFU, 8 * __popc(__ballot_sync(0xFFFFFFFFU, seen) & own) < enough));
    std::uint32_t most[4];
    ulonglong2 quad[kBatch] = {};  // of spans
    ulonglong2 ahead[kAhead ? kBatch : 1] = {};
    do {
      state_[0] = state_[1] = none;
      if (first) {
        load_whole<0>(first_state_, state_[0]);
      }
      if (kSpanned && second) {
        load_whole<kRowLanes * 8>(span_states_, state_[1]);
      }
      if constexpr (kSegmented) {
        each_index<kSegments>([&](auto i) {
          load_whole<decltype(i)::value * kD * 4>(segment_outs_, segment_[i][0]);
        });
      }
      if constexpr (kSpanned) {
        each_index<kBatch>([&](auto i) {
          constexpr int kPart = decltype(i)::value;
          load_whole_if<kPart * kD * 4, kPart>(spans, span_outs_, quad[i]);
        });
        if constexpr (kAhead) {
          if (far) {
            each_index<kBatch>([&](auto i) {
              constexpr int kPart = decltype(i)::value + kBatch;
              load_whole_if<kPart * kD * 4, kPart>(spans, span_outs_, ahead[i]);
            });
          }
        }
      }
      most[0] = most_word(state_[0]);
      most[1] = most_word(state_[1]);
      most[2] = most[3] = 0U;
      const auto look = [&](int i, const auto& x) { most[i % 4] = max(most[i % 4], most_word(x)); };
#pragma unroll
      for (int i = 0; kSegmented && i < kSegments; ++i) {
        look(i, segment_[i][0]);
      }
#pragma unroll
      for (int i = 0; kSpanned && i < kBatch; ++i) {
        look(i, quad[i]);
        if constexpr (kAhead) {
          look(i, ahead[i]);
        }
      }
    } while (__any_sync(0xFFFFFFFFU,
                        exists && max(max(most[0], most[1]), max(most[2], most[3])) == kBlankWord));
#pragma unroll
    for (int i = 0; kSpanned && i < kBatch; ++i) {
      quad_[i][0] = floats_of(quad[i]);
      if constexpr (kAhead) {
        ahead_[i][0] = floats_of(ahead[i]);
      }
    }
    if (first) {
      blank.template write<0>(first_state_);
    }
    if (kSpanned && second) {
      blank.template write<kRowLanes * 8>(span_states_);
    }
    if (kSegmented && exists) {
      each_index<kSegments>(
          [&](auto i) { blank.template write<decltype(i)::value * kD * 4>(segment_outs_); });
    }
    if constexpr (kSpanned) {
      // Shuffled, or the compiler would keep all comparisons from above.
      const int there = __shfl_sync(0xFFFFFFFFU, spans, static_cast<int>(threadIdx.x) % 32);
      each_index<kBatch>([&](auto i) {
        constexpr int kPart = decltype(i)::value;
        blank.template write_if<kPart * kD * 4, kPart>(there, span_outs_);
      });
      if (far) {
        each_index<kBatch>([&](auto i) {
          constexpr int kPart = decltype(i)::value + kBatch;
          blank.template write_if<kPart * kD * 4, kPart>(there, span_outs_);
        });
      }
      state_[0] = lane() < kBefore + spans_ ? state_[0] : none;
      state_[1] = kRowLanes + lane() < kBefore + spans_ ? state_[1] : none;
    }
  }

  // value += the branches' outputs times gates [compressed, selected, window]. Maximum and 1 / sum
  // (0 without a key) of the compressed branch.
  __device__ __forceinline__ float2 add(const float (&gates)[3], float4* value) {
    float most;
    float2 weights = weigh(state_[0], branch_most(most));  // and masses of this lane's part
    if constexpr (kSegmented) {
      PartSum<kD> selected;
      PartSum<kD> window;
#pragma unroll
      for (int i = 0; i < kSegments; ++i) {
        (i < kSelectedSegments ? selected : window)
            .add(of_lane(weights.x, i), of_lane(weights.y, i), segment_[i]);
      }
      selected.put(gates[1], value);
      window.put(gates[2], value);
    }
    if constexpr (!kSpanned) {
      return float2{};
    }
    PartSum<kD> total;
    PartSum<kD> join;
#pragma unroll 1
    for (int base = 0; base < most_spans_; base += kBatch) {
      const int part = kBefore + base;
      if (part > 0 && part % kRowLanes == 0) {
        weights = weigh(part == kRowLanes ? state_[1] : state_of(part), most);
      }
      // Joins of four short spans, then of two long ones.
      const unsigned ends = joined_ ? 0xFFU : (base < 8 ? 0x88U : 0xAAU);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const float weight = of_lane(weights.x, part + i);
        const float mass = of_lane(weights.y, part + i);
        if (base + i < spans_) {
          join.add(weight, mass, quad_[i]);
        }
        if ((ends >> i & 1U) != 0U) {
          total.add(1.0F, join.mass, join.out);
          join = PartSum<kD>{};
        }
      }
      if (base + kBatch < most_spans_) {
        next_batch(base + kBatch);
      }
    }
    return make_float2(most, total.put(gates[0], value));
  }

 private:
  static constexpr int kBatch = kD == 64 ? 8 : 4;             // spans that fly together
  static constexpr int kBefore = kSegmented ? kSegments : 0;  // parts before the first span
  static_assert(kSegments == 8, "the window's segments are the last two of eight lanes");

  __device__ __forceinline__ static float of_lane(float x, int part) {
    return __shfl_sync(0xFFFFFFFFU, x, part % kRowLanes, kRowLanes);
  }
  __device__ __forceinline__ static float2 weigh(float2 own, float most) {
    const float weight = own.y > 0.0F ? state_weight(own.x, most) : 0.0F;
    return make_float2(weight, own.y > 0.0F ? multiply_flushed(weight, own.y) : 0.0F);
  }
  // Of part `part` + lane, a span.
  __device__ __forceinline__ float2 state_of(int part) const {
    return part + lane() < kBefore + spans_ ? __ldcg(span_states_ + part)
                                            : make_float2(kNoReference, 0.0F);
  }
  // Spans from `base` on; what lies past the row's last one stays as it is.
  __device__ __forceinline__ void fetch_batch(int base, float4 (&to)[kBatch][kD / 64]) const {
    const float4* const from = span_outs_ + base * (kD / 4);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        if (base + i < spans_) {
          to[i][w] = __ldcg(from + i * (kD / 4) + w * kRowLanes);
        }
      }
    }
  }
  // Spans from `base` on are those that are summed up next.
  __device__ __forceinline__ void next_batch(int base) {
    if constexpr (kAhead) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
#pragma unroll
        for (int w = 0; w < kD / 64; ++w) {
          quad_[i][w] = ahead_[i][w];
        }
      }
      if constexpr (!kAnnounced) {
        fetch_batch(base + kBatch, ahead_);
      }
    } else {
      fetch_batch(base, quad_);
    }
  }
  // The greatest reference of the branch that part `lane` belongs to; `most`: the compressed one's.
  __device__ __forceinline__ float branch_most(float& most) const {
    const auto more = [](float x, int apart) {
      return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, apart));
    };
    float own = more(state_[0].y > 0.0F ? state_[0].x : kNoReference, 1);
    if constexpr (kSegmented) {
      const bool window = lane() >= kSelectedSegments && lane() < kSegments;
      const float others = more(more(window ? kNoReference : own, 2), 4);
      own = window ? own : others;
      most = __shfl_sync(0xFFFFFFFFU, own, kSegments, kRowLanes);
    } else {
      most = more(more(more(own, 2), 4), 8);
    }
#pragma unroll 1
    for (int base = kRowLanes; kSpanned && base < kBefore + most_spans_; base += kRowLanes) {
      most = fmaxf(most, row_most(base == kRowLanes ? state_[1] : state_of(base), true));
    }
    return kSegmented && lane() < kSegments ? own : most;
  }

  int spans_, most_spans_;
  bool joined_;
  float2* first_state_;   // of part `lane`
  float2* span_states_;   // of part `lane`, were it a span
  float4* segment_outs_;  // this lane's elements
  float4* span_outs_;
  float2 state_[2];  // of parts `lane` and `lane` + 16
  float4 segment_[kSegments][kD / 64] = {};
  float4 quad_[kBatch][kD / 64] = {};                // of a batch of spans
  float4 ahead_[kAhead ? kBatch : 1][kD / 64] = {};  // of the next one
};

// Maximum and 1 / sum (0 without a key) of a row's compressed branch, from the states of its spans
// (joins, if the cut joins them) alone: the numbers and the order of sums of RowParts.
class SpanStates {
 public:
  __device__ __forceinline__ SpanStates(const FusedArguments& a, int row, int spans)
      : spans_(spans),
        most_spans_(__reduce_max_sync(0xFFFFFFFFU, spans)),
        joined_(a.spans_joined),
        states_(a.span_states + row * a.max_spans + lane()) {
    settle(states_);
  }
  __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % kRowLanes; }

  // All lanes of the warp call it.
  __device__ __forceinline__ float2 merge() const {
    const float2 first = state_of(0);
    float most = row_most(first, true);
#pragma unroll 1
    for (int base = kRowLanes; base < most_spans_; base += kRowLanes) {
      most = fmaxf(most, row_most(state_of(base), true));
    }
    float total = 0.0F;
    float join = 0.0F;
#pragma unroll 1
    for (int base = 0; base < most_spans_; base += kRowLanes) {
      const float2 own = base == 0 ? first : state_of(base);
      const float weight = own.y > 0.0F ? state_weight(own.x, most) : 0.0F;
      const float mass = own.y > 0.0F ? multiply_flushed(weight, own.y) : 0.0F;
      // Joins of four short spans, then of two long ones.
      const unsigned ends = joined_ ? 0xFFFFU : (base == 0 ? 0xAA88U : 0xAAAAU);
#pragma unroll
      for (int i = 0; i < kRowLanes; ++i) {
        join += __shfl_sync(0xFFFFFFFFU, mass, i, kRowLanes);
        if ((ends >> i & 1U) != 0U) {
          total += join;
          join = 0.0F;
        }
      }
    }
    return make_float2(most, total > 0.0F ? __fdividef(1.0F, total) : 0.0F);
  }

 private:
  // Of span `base` + lane.
  __device__ __forceinline__ float2 state_of(int base) const {
    return base + lane() < spans_ ? __ldcg(states_ + base) : make_float2(kNoReference, 0.0F);
  }

  int spans_, most_spans_;
  bool joined_;
  const float2* states_;
};

}  // namespace versieve::kernels
