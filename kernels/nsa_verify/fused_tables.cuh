// What a CTA's tables say of its queries and of the tree: positions, ancestors, path-local
// compressed tokens. Positions are all that most lists need; a feeding warp fills the rest
// meanwhile.
#pragma once

#include "kernels/nsa_verify/fused.cuh"
#include "kernels/ptx/global_memory.cuh"
#include "kernels/ptx/mbarrier.cuh"

namespace versieve::kernels {

// Brings tables of pages into the first-level cache before lists look rows up: two warps.
__device__ __forceinline__ void prefetch_pages(const FusedArguments& a) {
  constexpr int kLine = 32;  // pages of a cache line
  const bool compressed = threadIdx.x >= 32;
  const std::int32_t* const page = a.pages[compressed ? 1 : 0];
  if (page == nullptr || threadIdx.x >= 64) {
    return;
  }
  const int rows = compressed ? a.compressed_of(a.context_len) : a.context_len;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % 32 * kLine; i <= rows / kPageRows; i += 32 * kLine) {
    prefetch_l1(page + i);
  }
}

// Reads the counts and lays out the tables in `memory` (8-byte aligned). `ready`: the barrier
// that signals when all of them are filled.
__device__ __forceinline__ void place_tables(Queries& t, std::int32_t* memory,
                                             std::uint32_t ready) {
  const FusedArguments& a = t.a;
  prefetch_pages(a);
  t.context_len = a.counts != nullptr ? a.counts->context_len : a.context_len;
  t.tree_compressed = a.counts != nullptr ? a.counts->tree_compressed : a.tree_compressed;
  t.committed = t.compressed_of(t.context_len);
  t.shared_tokens = t.context_len & -kSliceKeys;
  t.shared_compressed = t.tree_compressed > 0 ? t.committed & -kSliceKeys : t.committed;
  t.position = memory;
  t.ancestor = reinterpret_cast<std::int16_t*>(t.position + a.cta_queries) + (a.nodes + 1) / 2 * 4;
  t.path_row = t.ancestor + a.cta_queries * a.cut.depth;
  t.tables_ready = ready;
}

// The positions are there.
__device__ __forceinline__ void see_positions(Queries& t) {
  int most = -1;
#pragma unroll 1
  for (int i = t.lane; i < t.count; i += 32) {
    most = max(most, t.position[i]);
  }
  t.most_position = __reduce_max_sync(0xFFFFFFFFU, most);
}

// The other tables. kThreads threads fill them, 0, 1, ...: a feeding warp while working ones make
// lists, or those of all working warps while feeding ones do.
template <int kThreads>
__device__ __forceinline__ void fill_tables(const Queries& t, int thread) {
  const FusedArguments& a = t.a;
  const auto sync = [] {
    if constexpr (kThreads == 32) {
      __syncwarp();
    } else {
      work_sync();
    }
  };
  std::int16_t* const parents = reinterpret_cast<std::int16_t*>(t.position + a.cta_queries);
  std::int16_t* const own_row = parents + (a.nodes + 1) / 2 * 2;  // of k_cmp_tree, or -1
  const auto position_of = [&](int query) {
    return query < t.count ? a.position[t.first_node + query] : -1;
  };
  const auto owner_of = [&](int i) { return i < t.tree_compressed ? a.owner[i] : 0; };
  int position = position_of(thread);  // with the parents on their way
  int owner = owner_of(thread);
#pragma unroll(128 / kThreads)
  for (int i = thread; i < a.nodes; i += kThreads) {
    parents[i] = static_cast<std::int16_t>(a.parent[i]);
    own_row[i] = -1;
  }
  sync();
#pragma unroll 1
  for (int i = thread; i < t.tree_compressed; owner = owner_of(i)) {
    own_row[owner] = static_cast<std::int16_t>(i);
    i += kThreads;
  }
  sync();
#pragma unroll 1
  for (int query = thread; query < a.cta_queries; position = position_of(query)) {
    std::int16_t* const path = t.ancestor + query * a.cut.depth;
    int node = t.first_node + query;
#pragma unroll 1
    for (int depth = position - t.context_len; depth >= 0 && node >= 0; --depth) {
      path[depth] = static_cast<std::int16_t>(node);
      node = parents[node];
    }
    const int seen = t.compressed_of(position + 1);
    std::int16_t* const rows = t.path_row + query * a.cut.path_compressed;
#pragma unroll 1
    for (int i = 0; i < a.cut.path_compressed && t.tree_compressed > 0; ++i) {
      const int last = ((t.committed + i) << a.stride_bits) + a.cmp_block - 1;
      rows[i] = t.committed + i < seen ? own_row[path[last - t.context_len]] : std::int16_t{-1};
    }
    query += kThreads;
  }
  barrier_arrive(t.tables_ready);
}

}  // namespace versieve::kernels
