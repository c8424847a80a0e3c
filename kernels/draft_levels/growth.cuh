// The CTA that grows the tree: a warp lists a row's best children straight from the packets of its
// logits, another makes the row's normaliser (both with the answers of kernels/top_logits), then
// the growth of kernels/draft_tree, and the next frontier to those who attend and project. The pool
// stays in shared memory.
#pragma once

#include "kernels/common/block_reduce.cuh"
#include "kernels/draft_levels/grown.cuh"
#include "kernels/draft_levels/work.cuh"
#include "kernels/draft_tree/grow.cuh"
#include "kernels/top_logits/local_rank.cuh"

namespace versieve::kernels {

using DraftRank = LocalRank<Bf16>;

struct GrowthShared {
  GrowShared grow;
  StepState state;  // counts and pool
  float child_logit[kMostRows * kMostRows];
  float largest[kMostRows], log_normaliser[kMostRows];
  DraftRank candidates[kMostRows][32];
  alignas(16) Bf16 logits[kMostRows][kDraftMostVocab];
};
static_assert(kGrowThreads == kDraftThreads && kMostRows * 2 * 32 == kGrowThreads);

__device__ __forceinline__ float value_of(DraftRank rank) {
  return __uint_as_float(bits_of_key<Bf16>(key_of_local<Bf16>(rank)) << 16);
}

// A row's logits as a warp's lanes hold them: four in each of the lane's quads.
template <int kQuads>
struct RowOfLogits {
  DraftRank rank[4 * kQuads];  // 0: none

  // Also as elements to `row`, if not null.
  __device__ __forceinline__ void receive_row(const uint2* from, int vocab, unsigned epoch,
                                              Bf16* row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int quads = (vocab + 3) / 4;
    uint4 x[kQuads];
    bool waits;
    do {
      waits = false;
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        if (lane + 32 * i < quads) {
          x[i] = load_packets(from + 2 * (lane + 32 * i));
        }
      }
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        waits |= lane + 32 * i < quads && !arrived(x[i], epoch);
      }
    } while (waits);
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const int quad = lane + 32 * i;
      if (row != nullptr && quad < quads) {
        *reinterpret_cast<uint2*>(row + 4 * quad) = make_uint2(x[i].x, x[i].z);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const unsigned word = e < 2 ? x[i].x : x[i].z;
        const Bf16 value{static_cast<std::uint16_t>(e % 2 == 0 ? word & 0xFFFFU : word >> 16)};
        rank[4 * i + e] = 4 * quad + e < vocab ? local_rank(value, 4 * quad + e) : DraftRank{0};
      }
    }
  }
  __device__ __forceinline__ DraftRank best() const {
    DraftRank most = rank[0];
#pragma unroll
    for (int i = 1; i < 4 * kQuads; ++i) {
      most = rank[i] > most ? rank[i] : most;
    }
    return most;
  }
};

// The k best of a row, by one warp. The k-th best of the lanes' bests bounds them from below; what
// reaches it is a few more, ranked by counting. More than 32: k rounds over all.
template <int kQuads, class Put>
__device__ __forceinline__ void list_children(RowOfLogits<kQuads>& row, int k,
                                              DraftRank* candidates, const Put& put) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  DraftRank left = row.best();
  DraftRank bound = 0;
#pragma unroll 1
  for (int place = 0; place < k; ++place) {
    bound = best_of_warp(left);
    left = left == bound ? DraftRank{0} : left;
  }
  int count = 0;
#pragma unroll
  for (int i = 0; i < 4 * kQuads; ++i) {
    const bool reaches = row.rank[i] != 0 && row.rank[i] >= bound;
    const unsigned lanes = __ballot_sync(0xFFFFFFFFU, reaches);
    const int at = count + __popc(lanes & ((1U << lane) - 1U));
    if (reaches && at < 32) {
      candidates[at] = row.rank[i];
    }
    count += __popc(lanes);
  }
  __syncwarp();
  if (count <= 32) {
    const DraftRank own = lane < count ? candidates[lane] : 0;
    int before = 0;
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
      before += __shfl_sync(0xFFFFFFFFU, own, j) > own ? 1 : 0;
    }
    if (own != 0 && before < k) {
      put(before, local_index<Bf16>(own), value_of(own));
    }
    return;
  }
#pragma unroll 1
  for (int place = 0; place < k; ++place) {
    const DraftRank best = best_of_warp(row.best());
    if (lane == 0) {
      put(place, local_index<Bf16>(best), value_of(best));
    }
#pragma unroll
    for (int i = 0; i < 4 * kQuads; ++i) {
      row.rank[i] = row.rank[i] == best ? DraftRank{0} : row.rank[i];
    }
  }
}

// Rows' children and normalisers; all threads. Behind a barrier they are there.
template <int kQuads>
__device__ __forceinline__ void list_rows(const DraftCta& c, int pass, int branch,
                                          GrowthShared& s) {
  const int vocab = c.a.vocab;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp % kMostRows;
  if (row >= c.rows(pass)) {
    return;
  }
  const bool lists = warp < kMostRows;
  await_packet(c.mail(pass, c.a.mail.down_weighted), c.epoch_of(pass));
  RowOfLogits<kQuads> logits;
  logits.receive_row(c.mail(pass, c.a.mail.logits + row * ((vocab + 3) / 4)), vocab,
                     c.epoch_of(pass), lists ? nullptr : s.logits[row]);
  if (lists) {
    list_children(logits, branch, s.candidates[row], [&](int place, int index, float value) {
      s.grow.child_token[row * branch + place] = index;
      s.child_logit[row * branch + place] = value;
    });
    return;
  }
  const float largest = value_of(best_of_warp(logits.best()));
  __syncwarp();
  float sum = 0.0F;
#pragma unroll 4
  for (int i = 0; i < 4 * kQuads; ++i) {
    if (lane + 32 * i < vocab) {
      sum += expf(device_float(s.logits[row][lane + 32 * i]) - largest);
    }
  }
  const float log_normaliser = logf(warp_sum(sum));
  if (lane == 0) {
    s.largest[row] = largest;
    s.log_normaliser[row] = log_normaliser;
  }
}

// kQuads: of a row's logits, a lane.
template <int kQuads>
__device__ __forceinline__ void grow_levels(const DraftCta& c) {
  const DraftLevelsArguments& a = c.a;
  GrowthShared& s = *reinterpret_cast<GrowthShared*>(c.shared);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    s.state.counts.context_len = __ldcg(&a.state->counts.context_len);
  }
  GrowTreeParams p = a.grow;
  p.state = &s.state;
  const ChildPlaces places(p);
  const int branch = static_cast<int>(p.branch);
  const int row = places.parent(thread);  // of the thread's child
  growing_sync();
#pragma unroll 1
  for (int pass = 0; pass < a.levels; ++pass) {
    p.level = pass;
    EarlyPool early = read_pool(p, s.grow);
    list_rows<kQuads>(c, pass, branch, s);
    growing_sync();
    if (row < c.rows(pass)) {
      early.child_score = (s.child_logit[thread] - s.largest[row]) - s.log_normaliser[row];
    }
    uint2* const to = c.mail(pass, a.mail.grown);
    const unsigned epoch = c.epoch_of(pass);
    grow(
        p, places, s.grow, early, a.log_half, pass + 1 < a.levels,
        [&](int place, int token, int parent) {
          send_packets(to + 2 * place, GrownNode::of(token, parent).word, 0U, epoch);
        },
        [&](int place) { send_packets(to + 2 * place, GrownNode::none().word, 0U, epoch); });
    growing_sync();
  }
  const std::uint32_t* const from = reinterpret_cast<const std::uint32_t*>(&s.state.pool);
  std::uint32_t* const to = reinterpret_cast<std::uint32_t*>(&a.state->pool);
  for (int i = thread; i < static_cast<int>(sizeof(TreePool) / 4); i += kGrowThreads) {
    to[i] = from[i];
  }
}

}  // namespace versieve::kernels
