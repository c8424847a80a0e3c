// One level of growth in one block. The pool (kept candidates, then the new children) is ranked by
// counting: each thread counts how many candidates rank before its own. Kept ones are compacted in
// their order, so that parents stay before children. Bound by latency, the pool is a few hundred:
// all that the counts choose from is asked for together with them, one trip to memory.
#pragma once

#include <cstdint>

#include "kernels/draft_tree/params.h"
#include "kernels/ptx/block.cuh"

namespace versieve::kernels {

constexpr int kGrowThreads = 512;
constexpr int kMaxKept = kMaxTreeNodes - 1;
constexpr int kMaxPool = kMaxKept + kMaxTreeWidth * kMaxTreeWidth;
constexpr int kPoolWords = (kMaxPool + 31) / 32;
constexpr int kEarlyChildren = kGrowThreads;  // whose tokens and scores are read early
static_assert(kGrowThreads >= kMaxKept && kGrowThreads >= kMaxTreeWidth);

// Of the threads that grow: all of a block, or the first ones of a larger one.
__device__ inline void growing_sync() {
  meet<1, kGrowThreads>();
}

struct GrowShared {
  float score[kMaxPool];
  std::uint16_t rank[kMaxPool];        // among all
  std::uint16_t level_rank[kMaxPool];  // among the new children
  unsigned kept[kPoolWords];           // a bit a candidate
  std::int32_t parent[kMaxKept];       // of the old candidates
  std::int32_t depth[kMaxKept];
  std::int32_t token[kMaxKept];
  std::int32_t frontier[kMaxTreeWidth];
  std::int32_t child_token[kEarlyChildren];
  float bar;
  int eligible_count;
};

// Kept candidates before candidate i.
__device__ inline int kept_before(const GrowShared& s, int i) {
  int count = 0;
  for (int word = 0; word < i / 32; ++word) {
    count += __popc(s.kept[word]);
  }
  return count + __popc(s.kept[i / 32] & ((1U << (i % 32)) - 1U));
}

// Places of children among their parents: divided by the number of children a parent by a product.
class ChildPlaces {
 public:
  __device__ explicit ChildPlaces(const GrowTreeParams& p)
      : branch_(static_cast<unsigned>(p.branch)),
        inverse_(branch_ == 1 ? 0 : 0xFFFFFFFFU / branch_ + 1) {}
  __device__ int parent(int child) const {  // children are fewer than 2^16
    return branch_ == 1 ? child
                        : static_cast<int>(__umulhi(static_cast<unsigned>(child), inverse_));
  }
  __device__ int rank(int child) const { return child - parent(child) * static_cast<int>(branch_); }

 private:
  unsigned branch_, inverse_;
};

// What the sizes decide about, read before they are known.
struct EarlyPool {
  int old_count, expanded, context_len;
  float child_score;  // listed, of the child that has the thread's number
};

// Then a barrier.
__device__ inline EarlyPool read_pool(const GrowTreeParams& p, GrowShared& s) {
  const TreePool& pool = p.state->pool;
  const int i = static_cast<int>(threadIdx.x);
  EarlyPool early{.old_count = p.level == 0 ? 0 : pool.count,
                  .expanded = p.level == 0 ? 1 : pool.frontier_count,
                  .context_len = p.state->counts.context_len};
  if (p.level > 0 && i < kMaxKept) {
    s.score[i] = pool.log_probability[i];
    s.parent[i] = pool.parent[i];
    s.depth[i] = pool.depth[i];
    s.token[i] = pool.token[i];
  }
  if (p.level > 0 && i < kMaxTreeWidth) {
    s.frontier[i] = pool.frontier[i];
  }
  if (i == 0) {
    s.bar = -INFINITY;
    s.eligible_count = 0;
  }
  return early;
}
// Of the first children too.
__device__ inline EarlyPool read_early(const GrowTreeParams& p, GrowShared& s) {
  EarlyPool early = read_pool(p, s);
  const int i = static_cast<int>(threadIdx.x);
  const int most_children = static_cast<int>((p.level == 0 ? 1 : p.choice.width) * p.branch);
  if (i < most_children) {
    early.child_score = p.scores_by_rank ? 0.0F : p.log_probability[i];
    s.child_token[i] = p.index[i];
  }
  return early;
}

// The children's scores, behind those of the old candidates.
__device__ inline void fill_scores(const GrowTreeParams& p, const ChildPlaces& places,
                                   GrowShared& s, const EarlyPool& early, int total,
                                   float log_half) {
  for (int child = static_cast<int>(threadIdx.x); child < total - early.old_count;
       child += kGrowThreads) {
    const float parent_score = p.level == 0 ? 0.0F : s.score[s.frontier[places.parent(child)]];
    const float listed = child < kEarlyChildren ? early.child_score : p.log_probability[child];
    const float own =
        p.scores_by_rank ? __fmul_rn(static_cast<float>(places.rank(child) + 1), log_half) : listed;
    const float score = __fadd_rn(parent_score, own > 0.0F ? 0.0F : own);
    s.score[early.old_count + child] = score == score ? score : -INFINITY;
  }
}

// Ranks and the bar. `kept`: how many of the best are kept. Lanes that a small pool leaves over
// share the counting of a candidate.
__device__ inline void rank_pool(GrowShared& s, int old_count, int total, int kept) {
  const int thread = static_cast<int>(threadIdx.x);
  int bits = 0;
  while (bits < 3 && total << (bits + 1) <= kGrowThreads) {
    ++bits;
  }
  const int part = thread & ((1 << bits) - 1);
#pragma unroll 1
  for (int base = 0; base < total; base += kGrowThreads >> bits) {
    const int i = base + (thread >> bits);
    int before = 0;  // old ones in the upper half of the word
    float own = 0.0F;
    if (i < total) {
      own = s.score[i];
#pragma unroll 2
      for (int j = part; j < old_count; j += 1 << bits) {
        before += s.score[j] > own || (s.score[j] == own && j < i) ? 1 << 16 : 0;
      }
#pragma unroll 2
      for (int j = old_count + part; j < total; j += 1 << bits) {
        before += s.score[j] > own || (s.score[j] == own && j < i) ? 1 : 0;
      }
    }
#pragma unroll 1
    for (int distance = 1 << bits >> 1; distance > 0; distance /= 2) {
      before += __shfl_xor_sync(0xFFFFFFFFU, before, distance);
    }
    if (i < total && part == 0) {
      const int new_before = before & 0xFFFF;
      const int rank = (before >> 16) + new_before;
      s.rank[i] = static_cast<std::uint16_t>(rank);
      s.level_rank[i] = static_cast<std::uint16_t>(new_before);
      if (rank == kept - 1 && total >= kept) {
        s.bar = own;
      }
    }
  }
}

// A child's token in the target's vocabulary.
__device__ inline int child_token(const GrowTreeParams& p, const GrowShared& s, int child) {
  const int token = child < kEarlyChildren ? s.child_token[child] : p.index[child];
  return p.target_token == nullptr ? token : p.target_token[token];
}

// The eligible children as the next frontier, publish(place, token, parent's place): those above
// the bar, which are among the kept; and all that rank before one at its level are above it too.
// Then a bit for each candidate that is kept.
template <class Publish>
__device__ inline void publish_frontier(const GrowTreeParams& p, const ChildPlaces& places,
                                        GrowShared& s, int old_count, int total, int kept,
                                        bool grows, const Publish& publish) {
  const float bar = s.bar;
#pragma unroll 1
  for (int base = 0; base < total; base += kGrowThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    const bool eligible = grows && i >= old_count && i < total && s.score[i] > bar;
    if (eligible && s.level_rank[i] < p.choice.width) {
      publish(static_cast<int>(s.level_rank[i]), child_token(p, s, i - old_count),
              places.parent(i - old_count));
    }
    const unsigned keeps = __ballot_sync(0xFFFFFFFFU, i < total && s.rank[i] < kept);
    const unsigned chosen = __ballot_sync(0xFFFFFFFFU, eligible);
    if (threadIdx.x % 32 == 0 && i / 32 < kPoolWords) {
      s.kept[i / 32] = keeps;
      if (chosen != 0) {
        atomicAdd(&s.eligible_count, __popc(chosen));
      }
    }
  }
}

// The kept candidates into the pool, in their order.
__device__ inline void write_pool(const GrowTreeParams& p, const ChildPlaces& places,
                                  const GrowShared& s, int old_count, int total, int kept,
                                  bool grows) {
  TreePool& pool = p.state->pool;
  for (int i = static_cast<int>(threadIdx.x); i < total; i += kGrowThreads) {
    if (s.rank[i] >= kept) {
      continue;
    }
    const bool is_new = i >= old_count;
    const int child = i - old_count;
    const int parent = !is_new ? s.parent[i] : p.level == 0 ? -1 : s.frontier[places.parent(child)];
    const int to = kept_before(s, i);
    pool.parent[to] = parent < 0 ? -1 : kept_before(s, parent);
    pool.depth[to] = is_new ? static_cast<int>(p.level) + 1 : s.depth[i];
    pool.token[to] = is_new ? child_token(p, s, child) : s.token[i];
    pool.log_probability[to] = s.score[i];
    if (is_new && grows && s.score[i] > s.bar && s.level_rank[i] < p.choice.width) {
      pool.frontier[s.level_rank[i]] = to;
    }
  }
}

// What follows once children and pool are read and a barrier is passed. publish_none(place): of the
// next frontier's places that stay empty.
template <class Publish, class PublishNone>
__device__ inline void grow(const GrowTreeParams& p, const ChildPlaces& places, GrowShared& s,
                            const EarlyPool& early, float log_half, bool grows,
                            const Publish& publish, const PublishNone& publish_none) {
  const int total = early.old_count + early.expanded * static_cast<int>(p.branch);
  const int kept = static_cast<int>(p.choice.nodes) - 1;
  const int width = static_cast<int>(p.choice.width);
  fill_scores(p, places, s, early, total, log_half);
  growing_sync();
  rank_pool(s, early.old_count, total, kept);
  growing_sync();
  publish_frontier(p, places, s, early.old_count, total, kept, grows, publish);
  growing_sync();
  const int frontier_count = min(s.eligible_count, width);
  if (const int i = static_cast<int>(threadIdx.x); grows && i >= frontier_count && i < width) {
    publish_none(i);
  }
  write_pool(p, places, s, early.old_count, total, kept, grows);
  if (threadIdx.x == 0) {
    p.state->pool.count = min(total, kept);
    p.state->pool.frontier_count = frontier_count;
  }
}

}  // namespace versieve::kernels
