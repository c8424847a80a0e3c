// nsa_route: the compressed branch, the importance of every selection block and each node's n
// blocks, in one launch.
//
// Grid: cluster rank x tile of queries x KV head; a cluster's ranks share out the spans of
// compressed tokens. 1. Each CTA attends its spans; softmax weights stay in shared memory as bf16,
// with the reference they were taken under. 2. After a cluster barrier every row's maximum and sum
// are known: weights become probabilities, are summed over the H/G heads and weighted into the
// importance of the rank's blocks, which goes to memory (L2). 3. After a second one a warp a query
// picks n blocks; the compressed output is merged in between. Traffic: traffic::nsa_route. Bound by
// tensor-core and exponential throughput at many nodes, by latency at few.
#pragma once

#include "kernels/nsa_verify/fused_lists.cuh"
#include "kernels/nsa_verify/fused_merge.cuh"
#include "kernels/nsa_verify/fused_select.cuh"

namespace versieve::kernels {

// Weights of the rows of a CTA: p as bf16 [row, token of the rank] and references by slice.
struct WeightStore {
  std::uint16_t* weights;  // [row tiles * 16, pitch]
  float* references;       // [row tiles * 16, slices]
  int pitch;               // elements; 8 mod 64 spreads rows over the banks
  int slices;
  int first_token;
};

// Weights of the slice of tokens token, ..., token + 15, of rows lane / 4 and lane / 4 + 8.
template <int kD>
__device__ __forceinline__ void keep_weights(const Queries& t, const SliceRows<kD>& rows, int token,
                                             bool first_row, bool second_row,
                                             const WeightStore& store) {
  const int at = token - store.first_token;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (r == 0 ? first_row : second_row) {
      const int row = t.tile * kTileRows + t.lane / 4 + r * 8;
      std::uint32_t* const to =
          reinterpret_cast<std::uint32_t*>(store.weights + row * store.pitch + at);
      to[t.lane % 4] = rows.p[r];
      to[t.lane % 4 + 4] = rows.p[2 + r];
      if (t.lane % 4 == 0) {
        store.references[row * store.slices + at / kSliceKeys] = rows.reference[r];
      }
    }
  }
}

// References of a row tile's rows become factors in place: 2^(reference - maximum) / sum. Each of
// its warps takes four rows, eight lanes a row.
__device__ __forceinline__ void finish_references(const Queries& t, const WeightStore& store,
                                                  int used_slices) {
  const int row = t.slice * 4 + t.lane / 8;
  const int spans = t.has_row(row) ? span_count(t.seen_by(t.query_of(row))) : 0;
  const float2* const states =
      t.has_row(row)
          ? t.a.span_states + t.row_index(t.query_of(row), t.head_of(row)) * t.a.max_spans
          : t.a.span_states;
  const int longest = __reduce_max_sync(0xFFFFFFFFU, spans);
  float most = kNoReference;
#pragma unroll 1
  for (int i = t.lane % 8; i < spans; i += 8) {
    const float2 state = __ldcg(states + i);
    most = state.y > 0.0F ? fmaxf(most, state.x) : most;
  }
#pragma unroll
  for (int apart = 4; apart > 0; apart /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, apart));
  }
  float sum = 0.0F;
#pragma unroll 1
  for (int base = 0; base < longest; base += 8) {
    const int i = base + t.lane % 8;
    const float2 state = i < spans ? __ldcg(states + i) : make_float2(kNoReference, 0.0F);
    const float share =
        state.y > 0.0F ? multiply_flushed(state_weight(state.x, most), state.y) : 0.0F;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      sum += __shfl_sync(0xFFFFFFFFU, share, t.lane / 8 * 8 + k);
    }
  }
  const float inverse = sum > 0.0F ? 1.0F / sum : 0.0F;
  float* const references = store.references + (t.tile * kTileRows + row) * store.slices;
#pragma unroll 1
  for (int slice = t.lane % 8; slice < used_slices; slice += 8) {
    references[slice] = multiply_flushed(state_weight(references[slice], most), inverse);
  }
}

// Importance of the blocks whose tokens are the rank's, in two parts that add up: tokens of the
// block itself (`own`), and the last tokens of the block before it, whose compression blocks reach
// into it
// (`before`). Heads are summed in their order, tokens ascending. A row tile's warps share out its
// queries' blocks. kFour: B/s = 4, l/s = 2.
template <bool kFour>
__device__ __forceinline__ void weigh_blocks_of_rank(const Queries& t, const WeightStore& store,
                                                     int end_token) {
  const FusedArguments& a = t.a;
  const int per_bits = kFour ? 2 : a.block_bits - a.stride_bits;
  const int per_block = 1 << per_bits;
  const int overlaps = kFour ? 2 : a.cmp_block >> a.stride_bits;
  const int blocks = (end_token - store.first_token + per_block - 1) >> per_bits;
#pragma unroll 1
  for (int i = t.slice * 32 + t.lane; i < blocks * t.per_tile; i += kSlices * 32) {
    const int local = i / blocks;
    const int query = t.tile * t.per_tile + local;
    if (query >= t.count) {
      break;
    }
    const int first = store.first_token + ((i - local * blocks) << per_bits);
    const int end = min(end_token, t.seen_by(query));
    if (first >= end) {
      continue;
    }
    const int first_row = t.tile * kTileRows + (local << a.head_bits);
    const std::int16_t* const path = t.path_row + query * a.plan.path_compressed;
    float own = 0.0F;
    float before = 0.0F;
#pragma unroll 1
    for (int o = 0; o < per_block; o += kFour ? 4 : 1) {
      const int at = first + o - store.first_token;
      const float* factor = store.references + first_row * store.slices + at / kSliceKeys;
      const std::uint16_t* weights = store.weights + first_row * store.pitch + at;
      float total[kFour ? 4 : 1] = {};
#pragma unroll 1
      for (int head = 0; head < a.group_heads; ++head) {
        if constexpr (kFour) {
          const uint2 four = *reinterpret_cast<const uint2*>(weights);
          total[0] += multiply_flushed(__uint_as_float(four.x << 16), *factor);
          total[1] += multiply_flushed(__uint_as_float(four.x & 0xFFFF0000U), *factor);
          total[2] += multiply_flushed(__uint_as_float(four.y << 16), *factor);
          total[3] += multiply_flushed(__uint_as_float(four.y & 0xFFFF0000U), *factor);
        } else {
          total[0] +=
              multiply_flushed(__uint_as_float(static_cast<unsigned>(*weights) << 16), *factor);
        }
        factor += store.slices;
        weights += store.pitch;
      }
#pragma unroll
      for (int k = 0; k < (kFour ? 4 : 1); ++k) {
        const int token = first + o + k;
        // Weights of tokens that the query does not see were never written.
        const bool seen =
            token < end &&
            (token < t.committed || (t.tree_compressed > 0 && path[token - t.committed] >= 0));
        const float p = seen ? total[k] : 0.0F;
        // The double sum over m < B/s and u < l/s meets offset o this often.
        const int mine = min(per_block, o + k + overlaps) - (o + k);
        const int next = o + k - per_block + overlaps;
        own = fmaf(static_cast<float>(mine), p, own);
        before = next > 0 ? fmaf(static_cast<float>(next), p, before) : before;
      }
    }
    const int at = t.pair_index(query) * a.max_blocks + (first >> per_bits);
    __stcg(a.importance_own + at, own);
    if ((first >> per_bits) + 1 < a.max_blocks) {
      __stcg(a.importance_before + at + 1, before);
    }
  }
}

template <int kD>
__global__ void __launch_bounds__(kMaxRowTiles* kSlices * 32 * 64 / kD)
    nsa_route_kernel(const __grid_constant__ FusedArguments a,
                     const __grid_constant__ TileMaps maps) {
  namespace cg = cooperative_groups;
  release_successors();
  extern __shared__ __align__(1024) unsigned char shared[];
  const FusedPlan& plan = a.plan;
  const int rank = static_cast<int>(blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  WeightStore store;
  store.pitch = plan.rank_tokens + 8;
  store.slices = plan.rank_tokens / kSliceKeys;
  store.weights =
      reinterpret_cast<std::uint16_t*>(shared + plan.stages * SliceRows<kD>::kStageBytes);
  store.references =
      reinterpret_cast<float*>(store.weights + plan.row_tiles * kTileRows * store.pitch);
  float* const merges = store.references + plan.row_tiles * kTileRows * store.slices;
  std::uint64_t* const barriers =
      reinterpret_cast<std::uint64_t*>(merges + plan.row_tiles * kMergeFloats<kD>);
  const Ring ring{static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)),
                  static_cast<std::uint32_t>(__cvta_generic_to_shared(barriers)), plan.stages};
  Entry* const entries = reinterpret_cast<Entry*>(barriers + 2 * plan.stages);
  if (threadIdx.x == 0) {
    ring.init(plan.row_tiles * kSlices);
    publish_barriers();
  }
  wait_for_predecessors();
  Queries t = make_queries(a);
  SliceRows<kD> rows;
  load_rows(t, rows);
  fill_tables(t, reinterpret_cast<std::int32_t*>(entries + plan.list_capacity));

  const int visible = t.compressed_of(t.most_position + 1);
  const int from = first_span(rank, plan.ranks, visible);
  const int to = first_span(rank + 1, plan.ranks, visible);
  store.first_token = span_start(from);
  if (from < to) {
    const Team team{0, plan.row_tiles, static_cast<int>(threadIdx.x), 0};
    const int count = list_compressed(t, team, from, to, entries);
    const int low[2] = {0, 0};
    run_entries(t, maps, true, team, entries, count, ring, low, merges + t.tile * kMergeFloats<kD>,
                from, to, rows, [&](int token, bool first_row, bool second_row) {
                  keep_weights(t, rows, token, first_row, second_row, store);
                });
  }
  cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();  // all states of the queries' rows are there
  if (from < to) {
    const int end_token = min(span_start(to), visible);
    finish_references(t, store, (end_token - store.first_token + kSliceKeys - 1) / kSliceKeys);
    named_barrier(1 + t.tile, kSlices * 32);
    if (a.block_bits - a.stride_bits == 2 && a.cmp_block == 2 << a.stride_bits) {
      weigh_blocks_of_rank<true>(t, store, end_token);
    } else {
      weigh_blocks_of_rank<false>(t, store, end_token);
    }
  }
  const int warps = plan.row_tiles * kSlices * plan.ranks;
#pragma unroll 1
  for (int i = rank + warp * plan.ranks; i < t.count * a.group_heads; i += warps) {
    const int query = i / a.group_heads;
    const int row = t.row_index(query, i - query * a.group_heads);
    float2 value[kD / 64] = {};
    const int used = span_count(t.seen_by(query));
    if (used > 0) {
      add_merged<kD>(a.head_dim, a.span_states + row * a.max_spans,
                     a.span_outs + row * a.max_spans * a.head_dim, used, 1.0F, value);
    }
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      const int element = w * 64 + t.lane * 2;
      if (element < a.head_dim) {
        *reinterpret_cast<float2*>(a.compressed + row * a.head_dim + element) = value[w];
      }
    }
  }
  cluster.sync();  // the importance of all blocks is there
  unsigned* const keys =
      reinterpret_cast<unsigned*>(shared) + warp * select_floats(a.num_blocks, a.sel_count);
  std::int32_t* const chosen = reinterpret_cast<std::int32_t*>(keys + (a.num_blocks + 3) / 4 * 4);
  uint2* const candidates = reinterpret_cast<uint2*>(chosen + (a.sel_count + 3) / 4 * 4);
  // Neighbouring queries go to different CTAs.
#pragma unroll 1
  for (int query = rank + warp * plan.ranks; query < t.count; query += warps) {
    const int node = t.first_node + query;
    if (chooses(a, node)) {
      select_of_node(a, node, t.g, t.seen_by(query), t.position[query] >> a.block_bits, keys,
                     chosen, candidates);
    }
  }
}

}  // namespace versieve::kernels
