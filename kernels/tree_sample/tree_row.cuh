// A node's row in the fused launch: a cluster reads it once, every chunk's statistics go to its
// first block, and that block tests the children one after the other and draws in case none passes.
// Nothing but statistics is kept: what a test or a draw needs of the logits are the chunks of the
// children's tokens and the chunk that the draw hits, read again from the second-level cache.
#pragma once

#include "kernels/ptx/cluster.cuh"
#include "kernels/spec_sample/block_law.cuh"
#include "kernels/spec_sample/cluster_law.cuh"
#include "kernels/tree_sample/tree_law.cuh"
#include "model/launches/spec_sample.h"
#include "model/launches/tree_sample.h"

namespace versieve::kernels {

inline constexpr int kTreeNodes = static_cast<int>(kMostFusedNodes);  // the most of a tree

// What a node's tests note: the child that is accepted, or -1, and the token drawn when none is.
// One word, so that who finds it needs no fence; 0 is no note.
__device__ inline unsigned note_of(int next, int drawn) {
  return 0x80000000U | static_cast<unsigned>(drawn) << 8 | static_cast<unsigned>(next + 1);
}
__device__ inline int noted_next(unsigned note) {
  return static_cast<int>(note & 0xFFU) - 1;
}
__device__ inline int noted_token(unsigned note) {
  return static_cast<int>(note >> 8 & 0x7FFFFFU);
}
static_assert(kTreeNodes < 256 && kMostFusedVocab < 1 << 23, "a note holds both");

struct TreeShared {
  std::int32_t parent[kTreeNodes];
  std::int32_t proposed[kTreeNodes];  // tokens of the nodes
  float uniform[kTreeNodes];          // [i - 1] tests node i, the last draws
  std::int32_t has_child[kTreeNodes];
  std::int32_t inner[kTreeNodes];  // nodes that have children, ascending
  int inner_count;
  std::uint64_t pushed;          // counts what comes into `chunk`
  LawStat chunk[kMaxLawChunks];  // first block: of the row
  // First block: the node's children, and what is left once they are taken out one by one.
  int child_count;
  std::int32_t child[kTreeNodes];
  std::int32_t token[kTreeNodes];
  std::int32_t token_chunk[kTreeNodes];  // that holds it, or -1
  std::int32_t token_tile[kTreeNodes];
  float logit[kTreeNodes];        // of the token
  LawStat step[kTreeNodes];       // child i's chunk without the children up to i
  LawStat tile_step[kTreeNodes];  // its tile
  LawStat left[kTreeNodes + 1];   // the row without the first i children
  LawStat tile[kMaxTiles];        // nothing taken out
  float mass[kMaxLawChunks];
  int next, drawn;   // of the node
  int ends_at_leaf;  // the leaf that this cluster draws from, or -1
  int accepted;
};

// Chunks that each block of a cluster reads.
__device__ inline int block_chunks(Place place, const LawCut& cut) {
  return (cut.chunks + place.blocks - 1) / place.blocks;
}

// The nodes i for which `is(i)`, ascending, into `list`; by one warp, the count on all its lanes.
template <class Is>
__device__ int list_nodes(int num_nodes, std::int32_t* list, const Is& is) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int count = 0;
  for (int base = 0; base < num_nodes; base += 32) {
    const bool listed = base + lane < num_nodes && is(base + lane);
    const unsigned mask = __ballot_sync(0xFFFFFFFFU, listed);
    if (listed) {
      list[count + __popc(mask & ((1U << lane) - 1U))] = base + lane;
    }
    count += __popc(mask);
  }
  return count;
}

// By the first block: the node's children with their tokens.
__device__ inline void list_children(int num_nodes, int node, const LawCut& cut,
                                     TreeShared& shared) {
  if (threadIdx.x < 32) {
    const int count =
        list_nodes(num_nodes, shared.child, [&](int i) { return shared.parent[i] == node; });
    __syncwarp();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += 32) {
      const int token = shared.proposed[shared.child[i]];
      const bool known = token >= 0 && token < cut.vocab;
      const int chunk = known ? token / cut.chunk : -1;
      shared.token[i] = token;
      shared.token_chunk[i] = chunk;
      shared.token_tile[i] = known ? chunk / cut.tile_chunks : -1;
    }
    if (threadIdx.x == 0) {
      shared.child_count = count;
    }
  }
  __syncthreads();
}

// A row's logits without the tokens of its first `count` children.
template <class T>
struct RowWithout {
  const TreeSetting<T>& a;
  const T* row;
  float least;
  const TreeShared& shared;
  int count;

  __device__ void operator()(int first, float (&z)[kLaneElements]) const {
    load_round(row, first, a.cut.vocab, a.words, z);
    keep_from(least, z);
    for (int i = 0; i < count; ++i) {
      leave_out<T>(z, first, shared.token[i]);
    }
  }
};

// By the first block: what each child's token leaves of its chunk. A warp a child, the last warps
// first: where a block has more warps than chunks, those have nothing else to do.
template <class T>
__device__ void step_children(const TreeSetting<T>& a, const T* row, float least,
                              TreeShared& shared) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = warps - 1 - static_cast<int>(threadIdx.x) / 32; i < shared.child_count; i += warps) {
    if (shared.token_chunk[i] < 0) {
      continue;
    }
    const float logit = keep_from(least, load_f32(row + shared.token[i]));
    const LawStat stat = chunk_stat<T>(RowWithout<T>{a, row, least, shared, i + 1},
                                       shared.token_chunk[i], a.cut, a.scale);
    if (lane == 0) {
      shared.logit[i] = logit;
      shared.step[i] = stat;
    }
  }
}

// Statistics of `count` groups of 16, a half-warp each: member(group, i) gives the i-th, put(group,
// stat) takes the whole.
template <class Member, class Put>
__device__ void combine_groups(int count, const LawScale& scale, const Member& member,
                               const Put& put) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int pair = static_cast<int>(threadIdx.x) / 32; pair * 2 < count; pair += warps) {
    const int group = pair * 2 + lane / 16;
    const LawStat whole = combine16(member(min(group, count - 1), lane % 16), scale);
    if (group < count && lane % 16 == 0) {
      put(group, whole);
    }
  }
}

// By the first block, from the chunks' statistics: the tiles', then the row's before each child.
template <class T>
__device__ void combine_row(const TreeSetting<T>& a, TreeShared& shared) {
  const LawCut& cut = a.cut;
  const int count = a.scale.one_hot ? 0 : shared.child_count;
  // Statistics `whole` of a part, or what the last of the first `steps` children in it leaves.
  const auto after = [](LawStat whole, const LawStat* left, const std::int32_t* part_of, int steps,
                        int part) {
    for (int i = 0; i < steps; ++i) {
      if (part_of[i] == part) {
        whole = left[i];
      }
    }
    return whole;
  };
  combine_groups(
      cut.tiles + count, a.scale,
      [&](int group, int member) {
        const int steps = max(0, group - cut.tiles + 1);
        const int tile = steps > 0 ? max(0, shared.token_tile[steps - 1]) : group;
        const int chunk = tile * cut.tile_chunks + member;
        return member < cut.tile_chunks && chunk < cut.chunks
                   ? after(shared.chunk[chunk], shared.step, shared.token_chunk, steps, chunk)
                   : empty_stat();
      },
      [&](int group, const LawStat& stat) {
        (group < cut.tiles ? shared.tile[group] : shared.tile_step[group - cut.tiles]) = stat;
      });
  __syncthreads();
  combine_groups(
      count + 1, a.scale,
      [&](int steps, int tile) {
        return tile < cut.tiles
                   ? after(shared.tile[tile], shared.tile_step, shared.token_tile, steps, tile)
                   : empty_stat();
      },
      [&](int steps, const LawStat& stat) { shared.left[steps] = stat; });
  __syncthreads();
}

// By one warp of the first block: tau of the node's children; the first that is accepted, or -1.
template <class T>
__device__ int test_children(const TreeSetting<T>& a, std::int64_t sample, TreeShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int next = -1;
  for (int base = 0; base < shared.child_count; base += 32) {
    const int i = base + lane;
    bool passes = false;
    if (i < shared.child_count) {
      const int token = shared.token[i];
      bool repeated = false;
      for (int earlier = 0; earlier < i; ++earlier) {
        repeated = repeated || shared.token[earlier] == token;
      }
      const float tau = repeated ? 0.0F
                                 : node_tau(token, shared.logit[i], shared.left[0],
                                            shared.left[a.scale.one_hot ? 0 : i], a.scale);
      a.s.tau[sample * a.s.num_nodes + shared.child[i]] = tau;
      passes = tau > 0.0F && shared.uniform[shared.child[i] - 1] <= tau;
    }
    const unsigned mask = __ballot_sync(0xFFFFFFFFU, passes);
    if (mask != 0 && next < 0) {
      next = shared.child[base + __ffs(static_cast<int>(mask)) - 1];
    }
  }
  return next;
}

// By the first block: masses of the chunks of what is left after all children, or of the untouched
// row if nothing is; returns how many children are out.
template <class T>
__device__ int weigh_left(const TreeSetting<T>& a, TreeShared& shared) {
  const int all = shared.child_count;
  const int out = has_mass(shared.left[all].largest, shared.left[0], a.scale) ? all : 0;
  for (int chunk = static_cast<int>(threadIdx.x); chunk < a.cut.chunks;
       chunk += static_cast<int>(blockDim.x)) {
    LawStat stat = shared.chunk[chunk];
    for (int i = 0; i < out; ++i) {
      if (shared.token_chunk[i] == chunk) {
        stat = shared.step[i];
      }
    }
    shared.chunk[chunk] = stat;
    shared.mass[chunk] = chunk_mass(stat, shared.left[out], a.scale);
  }
  return out;
}

// By one warp of the first block: the draw from those masses.
template <class T>
__device__ int draw_left(const TreeSetting<T>& a, const T* row, float least, int out, float u,
                         TreeShared& shared) {
  const ChunkHit hit = find_chunk(a.cut, shared.mass, u);
  return draw_in_chunk<T>(RowWithout<T>{a, row, least, shared, out}, hit, a.cut,
                          shared.chunk[hit.chunk], shared.left[out], a.scale);
}

}  // namespace versieve::kernels
