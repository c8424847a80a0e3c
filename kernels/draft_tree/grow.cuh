// One level of growth in one block. The pool (kept candidates, then the new children) is ranked by
// counting: each thread counts how many candidates rank before its own. Kept ones are compacted in
// their order, so that parents stay before children. Bound by latency, the pool is a few hundred:
// all that the counts choose from is asked for together with them, one trip to memory.
#pragma once

#include <cstdint>

#include "kernels/draft_tree/params.h"

namespace versieve::kernels {

constexpr int kGrowThreads = 256;
constexpr int kMaxKept = kMaxTreeNodes - 1;
constexpr int kMaxPool = kMaxKept + kMaxTreeWidth * kMaxTreeWidth;
constexpr int kPoolWords = (kMaxPool + 31) / 32;
constexpr int kEarlyChildren = kGrowThreads;  // whose tokens and scores are read early
static_assert(kGrowThreads >= kMaxKept && kGrowThreads >= kMaxTreeWidth);

// Of the threads that grow: all of a block, or the first ones of a larger one.
__device__ inline void growing_sync() {
  asm volatile("barrier.sync 1, %0;\n" ::"n"(kGrowThreads) : "memory");
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

// What the sizes decide about, read before they are known; scores stay with their threads.
struct EarlyPool {
  int old_count, expanded, context_len;
  float old_score, child_score;
};

__device__ inline EarlyPool read_pool(const GrowTreeParams& p, GrowShared& s) {
  const TreePool& pool = p.state->pool;
  const int i = static_cast<int>(threadIdx.x);
  EarlyPool early{.old_count = p.level == 0 ? 0 : pool.count,
                  .expanded = p.level == 0 ? 1 : pool.frontier_count,
                  .context_len = p.state->counts.context_len};
  if (p.level > 0 && i < kMaxKept) {
    early.old_score = pool.log_probability[i];
    s.parent[i] = pool.parent[i];
    s.depth[i] = pool.depth[i];
    s.token[i] = pool.token[i];
  }
  if (p.level > 0 && i < kMaxTreeWidth) {
    s.frontier[i] = pool.frontier[i];
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

__device__ inline float grown_score(const GrowTreeParams& p, float parent_score, int child,
                                    float listed, float log_half) {
  const float by_rank =
      __fmul_rn(static_cast<float>(child % static_cast<int>(p.branch) + 1), log_half);
  const float own = p.scores_by_rank ? by_rank : listed;
  const float score = __fadd_rn(parent_score, own > 0.0F ? 0.0F : own);
  return score == score ? score : -INFINITY;
}

// Everybody's score.
__device__ inline void fill_scores(const GrowTreeParams& p, GrowShared& s, const EarlyPool& early,
                                   int total, float log_half) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < early.old_count) {
    s.score[thread] = early.old_score;
  }
  growing_sync();
  for (int child = thread; child < total - early.old_count; child += kGrowThreads) {
    const float parent_score =
        p.level == 0 ? 0.0F : s.score[s.frontier[child / static_cast<int>(p.branch)]];
    const float listed = child < kEarlyChildren ? early.child_score : p.log_probability[child];
    s.score[early.old_count + child] = grown_score(p, parent_score, child, listed, log_half);
  }
}

// Ranks, kept bits and the bar. `kept`: how many of the best are kept.
__device__ inline void rank_pool(GrowShared& s, int old_count, int total, int kept) {
  for (int base = 0; base < total; base += kGrowThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    bool keeps = false;
    if (i < total) {
      const float own = s.score[i];
      int old_before = 0;
      int new_before = 0;
#pragma unroll 8
      for (int j = 0; j < old_count; ++j) {
        old_before += s.score[j] > own || (s.score[j] == own && j < i) ? 1 : 0;
      }
#pragma unroll 8
      for (int j = old_count; j < total; ++j) {
        new_before += s.score[j] > own || (s.score[j] == own && j < i) ? 1 : 0;
      }
      const int rank = old_before + new_before;
      s.rank[i] = static_cast<std::uint16_t>(rank);
      s.level_rank[i] = static_cast<std::uint16_t>(new_before);
      keeps = rank < kept;
      if (rank == kept - 1 && total >= kept) {
        s.bar = own;
      }
    }
    const unsigned word = __ballot_sync(0xFFFFFFFFU, keeps);
    if (threadIdx.x % 32 == 0 && i / 32 < kPoolWords) {
      s.kept[i / 32] = word;
    }
  }
}

__device__ inline void write_slot(const GrowTreeParams& p, int context_len, int place, int token,
                                  int parent_slot, int depth) {
  const int slot = 1 + static_cast<int>(p.level * p.choice.width) + place;
  p.node_token[place] = token;
  p.slot_parent[slot] = parent_slot;
  p.slot_position[slot] = context_len + depth;
}

// The kept candidates into the pool, the eligible children into the next frontier.
__device__ inline void write_pool(const GrowTreeParams& p, GrowShared& s, const EarlyPool& early,
                                  int total, int kept, bool grows) {
  TreePool& pool = p.state->pool;
  const int old_count = early.old_count;
  const int width = static_cast<int>(p.choice.width);
  for (int i = static_cast<int>(threadIdx.x); i < total; i += kGrowThreads) {
    const bool is_new = i >= old_count;
    const int child = i - old_count;
    const int place = is_new ? child / static_cast<int>(p.branch) : 0;
    const int parent = is_new ? (p.level == 0 ? -1 : s.frontier[place]) : s.parent[i];
    if (s.rank[i] >= kept) {
      continue;
    }
    const int to = kept_before(s, i);
    int token = !is_new                  ? s.token[i]
                : child < kEarlyChildren ? s.child_token[child]
                                         : p.index[child];
    token = is_new && p.target_token != nullptr ? p.target_token[token] : token;
    const int depth = is_new ? static_cast<int>(p.level) + 1 : s.depth[i];
    pool.parent[to] = parent < 0 ? -1 : kept_before(s, parent);
    pool.depth[to] = depth;
    pool.token[to] = token;
    pool.log_probability[to] = s.score[i];
    // Above the bar is among the kept, and all that rank before it at its level are above it too.
    if (is_new && grows && s.score[i] > s.bar) {
      atomicAdd(&s.eligible_count, 1);
      const int next = s.level_rank[i];
      if (next < width) {
        pool.frontier[next] = to;
        write_slot(p, early.context_len, next, token,
                   p.level == 0 ? 0 : 1 + (static_cast<int>(p.level) - 1) * width + place, depth);
      }
    }
  }
}

// What follows once children and pool are read.
__device__ inline void grow(const GrowTreeParams& p, GrowShared& s, const EarlyPool& early,
                            float log_half, bool grows) {
  const int total = early.old_count + early.expanded * static_cast<int>(p.branch);
  const int kept = static_cast<int>(p.choice.nodes) - 1;
  const int width = static_cast<int>(p.choice.width);
  if (threadIdx.x == 0) {
    s.bar = -INFINITY;
    s.eligible_count = 0;
  }
  fill_scores(p, s, early, total, log_half);
  growing_sync();
  rank_pool(s, early.old_count, total, kept);
  growing_sync();
  write_pool(p, s, early, total, kept, grows);
  growing_sync();
  const int frontier_count = min(s.eligible_count, width);
  for (int i = frontier_count + static_cast<int>(threadIdx.x); grows && i < width;
       i += kGrowThreads) {
    write_slot(p, early.context_len, i, 0, 0, 1);
  }
  if (threadIdx.x == 0) {
    if (p.level == 0 && grows) {
      p.slot_parent[0] = -1;
      p.slot_position[0] = early.context_len;
    }
    p.state->pool.count = min(total, kept);
    p.state->pool.frontier_count = frontier_count;
  }
}

}  // namespace versieve::kernels
