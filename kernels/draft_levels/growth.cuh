// The CTA that grows the tree, with the code of kernels/draft_tree: lists of the logits, growth,
// and the next frontier to those who attend and project. The pool stays in shared memory.
#pragma once

#include "kernels/draft_levels/grown.cuh"
#include "kernels/draft_levels/work.cuh"
#include "kernels/draft_tree/grow.cuh"
#include "kernels/top_logits/short_rows.cuh"

namespace versieve::kernels {

struct GrowthShared {
  GrowShared grow;
  StepState state;  // counts and pool
  float child_score[kMostRows * kMostRows];
  std::int32_t node_token[kMostRows];
  std::int32_t slot_parent[1 + kMostEntries * kMostRows];
  std::int32_t slot_position[1 + kMostEntries * kMostRows];
  alignas(16) Bf16 logits[kMostRows][kDraftMostVocab];
};

__device__ __forceinline__ void receive_logits(const DraftCta& c, int pass, GrowthShared& s) {
  constexpr int kFlying = 4;
  const int row_quads = (c.a.vocab + 3) / 4;
  const int count = c.rows(pass) * row_quads;
#pragma unroll 1
  for (int base = static_cast<int>(threadIdx.x); base < count; base += kFlying * kGrowThreads) {
    const int mine = min((count - base + kGrowThreads - 1) / kGrowThreads, kFlying);
    uint4 packets[kFlying];
    receive(c.mail(pass, c.a.mail.logits + base), 2 * kGrowThreads, mine, c.epoch_of(pass),
            packets);
#pragma unroll
    for (int i = 0; i < kFlying; ++i) {
      const int at = base + i * kGrowThreads;
      const int row = at / row_quads;
      if (i < mine) {
        *reinterpret_cast<uint2*>(&s.logits[row][(at - row * row_quads) * 4]) =
            make_uint2(packets[i].x, packets[i].z);
      }
    }
  }
}

template <int kOwn>
__device__ __forceinline__ void grow_levels(const DraftCta& c) {
  const DraftLevelsArguments& a = c.a;
  GrowthShared& s = *reinterpret_cast<GrowthShared*>(c.shared);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= kGrowThreads) {
    return;
  }
  if (thread == 0) {
    s.state.counts.context_len = __ldcg(&a.state->counts.context_len);
  }
  GrowTreeParams p = a.grow;
  p.state = &s.state;
  p.node_token = s.node_token;
  p.slot_parent = s.slot_parent;
  p.slot_position = s.slot_position;
  TopLogitsParams<Bf16> top = a.top;
  top.log_probability = s.child_score;  // asked for; put where `put` says
#pragma unroll 1
  for (int pass = 0; pass < a.levels; ++pass) {
    receive_logits(c, pass, s);
    growing_sync();
    p.level = pass;
    EarlyPool early = read_pool(p, s.grow);
    const int k = static_cast<int>(top.k);
    const int row = thread / 32;
    if (row < c.rows(pass)) {
      top.logits = s.logits[row];
      list_short_row<Bf16, kOwn>(top, 0, [&](int place, int index, float log_probability) {
        s.grow.child_token[row * k + place] = index;
        s.child_score[row * k + place] = log_probability;
      });
    }
    growing_sync();
    early.child_score = thread < c.rows(pass) * k ? s.child_score[thread] : 0.0F;
    const bool grows = pass + 1 < a.levels;
    grow(p, s.grow, early, a.log_half, grows);
    growing_sync();
    if (grows && thread < a.width) {
      const int first = pass == 0 ? 0 : 1 + (pass - 1) * a.width;
      const GrownNode node = thread < s.state.pool.frontier_count
                                 ? GrownNode::of(s.node_token[thread],
                                                 s.slot_parent[1 + pass * a.width + thread] - first)
                                 : GrownNode::none();
      send_packets(c.mail(pass, a.mail.grown + thread), node.word, 0U, c.epoch_of(pass));
    }
  }
  const std::uint32_t* const from = reinterpret_cast<const std::uint32_t*>(&s.state.pool);
  std::uint32_t* const to = reinterpret_cast<std::uint32_t*>(&a.state->pool);
  for (int i = thread; i < static_cast<int>(sizeof(TreePool) / 4); i += kGrowThreads) {
    to[i] = from[i];
  }
}

}  // namespace versieve::kernels
