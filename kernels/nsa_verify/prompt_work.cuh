// What the warps of a thread block of the prompt's form go through for one group of tokens and KV
// head: compressed tokens, the choice of blocks, selected blocks, window.
#pragma once

#include "kernels/nsa_verify/fused_route.cuh"
#include "kernels/nsa_verify/prompt_feed.cuh"
#include "kernels/nsa_verify/prompt_plan.cuh"
#include "kernels/nsa_verify/prompt_rows.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/bulk_copy.cuh"

namespace versieve::kernels {

// A warp that works: a row tile.
template <int kD>
class PromptWorker {
 public:
  using Plan = PromptPlan<kD>;
  static constexpr bool kByGroup = Plan::kByGroup;
  static constexpr int kTeam = kByGroup ? 4 : 1;  // row tiles that multiply together
  // Keys whose scores are held at once: a warp alone has registers for half a tile's.
  static constexpr int kPieceKeys = kByGroup ? kTileKeys : kTileKeys / 2;
  static constexpr int kPieceSlots = kPieceKeys / kSliceKeys;

  __device__ __forceinline__ PromptWorker(const PromptArguments& p, const Plan& plan)
      : p_(p), plan_(plan) {}

  // The compressed branch, gated, to this thread's memory; weights and states for the choice.
  __device__ __forceinline__ void attend_compressed(const PromptQueries& t) {
    begin(t);
    const PromptQueries own{p_.own,    0,      static_cast<int>(blockIdx.x) * Plan::kQueries,
                            t.count,   t.tile, t.lane,
                            t.per_tile};
    const KeepBlocks keep(own);
    PartTotal<kD, 32> join(plan_.kept(t.tile) + t.lane, plan_.states(t.tile));
    PartTotal<kD, Plan::kWorkers> total(branch(), plan_.states(t.tile, 1));
    join.clear();
    total.clear();
    const int seen[2] = {t.a.compressed_of(position_[0] + 1), t.a.compressed_of(position_[1] + 1)};
    const int team_seen = t.a.compressed_of(team_last_ + 1);
    const int warp_seen = t.a.compressed_of(last_ + 1);
    const int least_seen = t.a.compressed_of(first_ + 1);
    const int tiles = tiles_of(t.a.compressed_of(t.last_position() + 1));
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      const int first = i * kTileKeys;
      if (first >= team_seen) {
        pass_tile();
        continue;
      }
      const int end[2] = {seen[0] - first, seen[1] - first};
      const bool hides = least_seen < first + kTileKeys;
      attend_tile<1>(first < warp_seen, {0, 0}, end, {true, true}, hides,
                     [&](int behind, const std::uint32_t(&p)[kPieceSlots][4]) {
                       keep.slices(p_.own, (first + behind) / kSliceKeys, rows_, p);
                     });
      const int next = first + kTileKeys;
      if (next >= team_seen || span_of(next) != span_of(first)) {
        join.add(rows_);
        if (next >= team_seen || ends_join(span_of(first))) {
          total.add(join);
        }
      }
    }
    end_compressed(t, total);
  }

  // Each token's blocks, and the list of the thread block's, which is there for all working warps
  // behind it. By those; the thread that feeds learns of it by a barrier in shared memory, since
  // checkers want all threads at a block's own barrier at one place of the program.
  __device__ __forceinline__ void choose(const PromptQueries& t) {
    SliceWeights weights;  // of the next token
    __syncwarp();          // the warp's own lanes wrote them
    weights.fetch(p_.own, node_of(t, 0, true), t.lane, 0);
    meet<1, Plan::kWorkers>();  // all tiles and earlier lists are read
    const int blocks = (t.last_position() >> t.a.block_bits) + 1;
    unsigned long long* const masks = plan_.masks();
    for (int i = static_cast<int>(threadIdx.x); i < blocks; i += Plan::kWorkers) {
      masks[i] = 0ULL;
    }
    meet<1, Plan::kWorkers>();
    const int tokens = min(t.per_tile, t.count - t.tile * t.per_tile);
#pragma unroll 1
    for (int i = 0; i < tokens; ++i) {
      choose_of(t, i, i + 1 < tokens, weights);
    }
    fence_for_copies();  // tiles come where the choice was made
    meet<1, Plan::kWorkers>();
    if (t.tile == 0) {
      list_blocks(t, blocks);
      barrier_arrive(plan_.listed());
    }
    meet<1, Plan::kWorkers>();
  }

  // Selected blocks and window, and the output. The list is there.
  __device__ __forceinline__ void attend_tokens(const PromptQueries& t) {
    PartTotal<kD, 32> total(plan_.kept(t.tile) + t.lane, plan_.states(t.tile));
    if constexpr (!kByGroup) {
      rows_.load(t, plan_.queries());  // the choice had their registers
    }
    total.clear();
    attend_selected(t, total);
    put_selected(t, total);
    total.clear();
    attend_window(t, total);
    write(t, total);
  }

 private:
  __device__ __forceinline__ void begin(const PromptQueries& t) {
    rows_.load(t, plan_.queries());
    const int team = t.tile / kTeam * kTeam;
    team_first_ = t.position_of(team * t.per_tile);
    team_last_ = t.position_of((team + kTeam) * t.per_tile - 1);
    first_ = t.position_of(t.tile * t.per_tile);
    last_ = t.position_of((t.tile + 1) * t.per_tile - 1);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      position_[r] = t.position_of(t.query_of(t.lane / 4 + r * 8));
    }
  }
  __device__ __forceinline__ float* branch() const {
    return p_.branches + static_cast<std::int64_t>(blockIdx.x) * (kD / 2 * Plan::kWorkers) +
           threadIdx.x;
  }

  // All of it before the first is needed.
  __device__ __forceinline__ void read_branch(float (&value)[kD / 8][4]) const {
    const float* const from = branch();
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        value[n][e] = from[(n * 4 + e) * Plan::kWorkers];
      }
    }
  }

  // What a tile's weights are not kept for.
  struct KeepNothing {
    __device__ __forceinline__ void operator()(int, const std::uint32_t (&)[kPieceSlots][4]) const {
    }
  };
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      barrier_arrive(plan_.empty(at_.place));
    }
    at_.advance();
  }
  __device__ __forceinline__ void pass_tile() {
    barrier_wait(plan_.full(at_.place), at_.parity);
    release();
  }
  // The next tile, of which the team takes part. Where this warp does, rows see its keys
  // [begin, end), if `hides`, those that take part. kUnrolled: 1 where what is kept of a half
  // leaves no registers for the next one's scores.
  template <int kUnrolled = 2, class Keep>
  __device__ __forceinline__ void attend_tile(bool works, const int (&begin)[2],
                                              const int (&end)[2], const bool (&takes)[2],
                                              bool hides, const Keep& keep) {
    barrier_wait(plan_.full(at_.place), at_.parity);
    const std::uint32_t keys = plan_.tile(at_.place);
    const float offset[2] = {takes[0] ? Rows<kD>::kGrid : -INFINITY,
                             takes[1] ? Rows<kD>::kGrid : -INFINITY};
#pragma unroll kUnrolled
    for (int piece = 0; piece < kTileKeys; piece += kPieceKeys) {
      const std::uint32_t from = keys + static_cast<std::uint32_t>(piece * 128);
      float s[kPieceKeys / 8][4];
      rows_.multiply_keys(plan_.queries(), from, s);
      std::uint32_t p[kPieceSlots][4] = {};
      if (!kByGroup || works) {
        if (hides) {
          const int begins[2] = {begin[0] - piece, begin[1] - piece};
          const int ends[2] = {end[0] - piece, end[1] - piece};
          hide_scores(begins, ends, s);
        }
        rows_.weigh(s, offset);
#pragma unroll
        for (int slot = 0; slot < kPieceSlots; ++slot) {
          pack_weights(s[slot * 2], s[slot * 2 + 1], p[slot]);
        }
      }
      rows_.multiply_values(from + Plan::kUnitBytes, p);
      if (piece + kPieceKeys == kTileKeys) {
        release();
      }
      if (!kByGroup || works) {
        keep(piece, p);
      }
    }
  }

  __device__ __forceinline__ float gate(const PromptQueries& t, int half, int which) const {
    const int row = t.lane / 4 + half * 8;
    return t.has_row(row)
               ? load_f32(t.a.gates + t.row_index(t.query_of(row), t.head_of(row)) * 3 + which)
               : 0.0F;
  }

  __device__ __forceinline__ void end_compressed(const PromptQueries& t,
                                                 const PartTotal<kD, Plan::kWorkers>& total) {
    const float inverse[2] = {total.inverse(0), total.inverse(1)};
    const float gates[2] = {gate(t, 0, 0), gate(t, 1, 0)};
    const float2 state[2] = {total.state_of(0), total.state_of(1)};
    if (t.lane % 4 == 0) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        plan_.states(t.tile)[t.lane / 4 + r * 8] = make_float2(state[r].x, inverse[r]);
      }
    }
    float value[kD / 8][4];
    read_branch(value);
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float x = fmaf(inverse[e / 2], value[n][e], 0.0F);
        total.at[(n * 4 + e) * Plan::kWorkers] = gates[e / 2] * (state[e / 2].y > 0.0F ? x : 0.0F);
      }
    }
  }

  // The tile's token i; `own`: as rows of the thread block's softmax weights have it.
  __device__ __forceinline__ NodeOfHead node_of(const PromptQueries& t, int i, bool own) const {
    const int query = t.tile * t.per_tile + i;
    NodeOfHead node{};
    node.node = own ? static_cast<int>(blockIdx.x) * Plan::kQueries + query : t.first_node + query;
    node.g = own ? 0 : t.g;
    node.position = t.position_of(query);
    node.seen = t.a.compressed_of(node.position + 1);
    node.states = plan_.states(t.tile) + (i << t.a.head_bits);
    return node;
  }
  // Of the tile's token i, whose first weights are there; then the next one's are asked for, if
  // there is one. The warp's share of the ring holds keys, chosen blocks, candidates.
  __device__ __forceinline__ void choose_of(const PromptQueries& t, int i, bool next,
                                            SliceWeights& weights) {
    const int query = t.tile * t.per_tile + i;
    const NodeOfHead node = node_of(t, i, false);
    unsigned* const keys = plan_.choice(t.tile);
    std::int32_t* const chosen =
        reinterpret_cast<std::int32_t*>(keys + (t.a.num_blocks + 3) / 4 * 4);
    uint2* const candidates = reinterpret_cast<uint2*>(chosen + (t.a.sel_count + 3) / 4 * 4);
    importance_of_node(p_.own, node_of(t, i, true), keys, t.lane, 32, weights, true);
    if (next) {
      weights.fetch(p_.own, node_of(t, i + 1, true), t.lane, 0);
    }
    __syncwarp();
    select_of_node(t.a, node, keys, chosen, candidates);
    __syncwarp();
    const int count = min(t.a.sel_count, (node.position >> t.a.block_bits) + 1);
    for (int at = t.lane; at < count; at += 32) {
      // By halves: an atomic of 64 bits begins with a load, of which racecheck would tell.
      atomicOr(reinterpret_cast<unsigned*>(plan_.masks() + chosen[at]) + query / 32,
               1U << query % 32);
    }
    __syncwarp();
  }
  // Blocks that any token chose, segment after segment. One warp.
  __device__ __forceinline__ void list_blocks(const PromptQueries& t, int blocks) {
    int length = 0;
#pragma unroll 1
    for (int segment = 0; segment < kSelectedSegments; ++segment) {
      if (t.lane == 0) {
        plan_.starts()[segment] = length;
      }
#pragma unroll 1
      for (int first = segment; first < blocks; first += 32 * kSelectedSegments) {
        const int block = first + t.lane * kSelectedSegments;
        const bool there = block < blocks && plan_.masks()[block] != 0ULL;
        const unsigned found = __ballot_sync(0xFFFFFFFFU, there);
        if (there) {
          plan_.list()[length + __popc(found & ((1U << t.lane) - 1U))] =
              static_cast<std::uint16_t>(block);
        }
        length += __popc(found);
      }
    }
    if (t.lane == 0) {
      plan_.starts()[kSelectedSegments] = length;
    }
  }

  // A lane has an entry of the list: its block and which of the row tile's tokens chose it, from
  // bit 16 on. The team takes part in those of `used`.
  struct Entries {
    unsigned own;
    unsigned used;
  };
  __device__ __forceinline__ Entries entries_from(const PromptQueries& t, int first,
                                                  int end) const {
    const unsigned long long of_team = ((1ULL << (kTeam * t.per_tile)) - 1ULL)
                                       << (t.tile / kTeam * kTeam * t.per_tile);
    const int mine = first + t.lane;
    const unsigned block = mine < end ? plan_.list()[mine] : 0U;
    const unsigned long long readers = mine < end ? plan_.masks()[block] : 0ULL;
    const unsigned own =
        static_cast<unsigned>(readers >> (t.tile * t.per_tile)) & ((1U << t.per_tile) - 1U);
    return {block | own << 16, __ballot_sync(0xFFFFFFFFU, (readers & of_team) != 0ULL)};
  }
  __device__ __forceinline__ void attend_selected(const PromptQueries& t,
                                                  PartTotal<kD, 32>& total) {
    const int tile_keys = min(kTileKeys, 1 << t.a.block_bits);
    int i = 0;
#pragma unroll 1
    for (int segment = 0; segment < kSelectedSegments; ++segment) {
      const int end = plan_.starts()[segment + 1];
      bool any = false;
      Entries entries{};
#pragma unroll 1
      for (int of_lane = 0; i < end; ++i, ++of_lane) {
        if (of_lane % 32 == 0) {
          entries = entries_from(t, i, end);
        }
        const unsigned entry = __shfl_sync(0xFFFFFFFFU, entries.own, of_lane % 32);
        const bool used = (entries.used >> (of_lane % 32) & 1U) != 0U;
        const unsigned own = entry >> 16;
        const int begin = static_cast<int>(entry & 0xFFFFU) << t.a.block_bits;
        const int behind = min(begin + (1 << t.a.block_bits), t.last_position() + 1);
#pragma unroll 1
        for (int first = begin; first < behind; first += kTileKeys) {
          if (!used || first > team_last_) {
            pass_tile();
            continue;
          }
          any = true;
          const bool takes[2] = {(own >> (t.lane / 4 >> t.a.head_bits) & 1U) != 0U,
                                 (own >> ((t.lane / 4 + 8) >> t.a.head_bits) & 1U) != 0U};
          const int ends[2] = {min(position_[0] + 1 - first, tile_keys),
                               min(position_[1] + 1 - first, tile_keys)};
          const bool hides = tile_keys < kTileKeys || first + kTileKeys - 1 > first_;
          attend_tile(own != 0U && first <= last_, {0, 0}, ends, takes, hides, KeepNothing{});
        }
      }
      if (any) {
        total.add(rows_);
      }
    }
  }
  __device__ __forceinline__ void put_selected(const PromptQueries& t,
                                               const PartTotal<kD, 32>& total) {
    const float share[2] = {total.inverse(0) * gate(t, 0, 1), total.inverse(1) * gate(t, 1, 1)};
    const float sum[2] = {total.state_of(0).y, total.state_of(1).y};
    float value[kD / 8][4];
    read_branch(value);
    float* const to = branch();
#pragma unroll
    for (int n = 0; n < kD / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float with = fmaf(share[e / 2], total.out(n, e), value[n][e]);
        to[(n * 4 + e) * Plan::kWorkers] = sum[e / 2] > 0.0F ? with : value[n][e];
      }
    }
    rows_.reset();  // to what they are: so no register holds them up to here
  }

  __device__ __forceinline__ void attend_window(const PromptQueries& t, PartTotal<kD, 32>& total) {
#pragma unroll 1
    for (int segment = 0; segment < kWindowSegments; ++segment) {
      const WindowChunks chunks(t, segment);
      bool any = false;
#pragma unroll 1
      for (int chunk = chunks.first; chunk <= chunks.last; chunk += kWindowSegments) {
        const int first = chunk * kTileKeys;
        if (first > team_last_ || first + kTileKeys <= team_first_ - t.a.window + 1) {
          pass_tile();
          continue;
        }
        any = true;
        const int begins[2] = {position_[0] - t.a.window + 1 - first,
                               position_[1] - t.a.window + 1 - first};
        const int ends[2] = {position_[0] + 1 - first, position_[1] + 1 - first};
        const bool hides = first + kTileKeys - 1 > first_ || first <= last_ - t.a.window;
        const bool works = first <= last_ && first + kTileKeys > first_ - t.a.window + 1;
        attend_tile(works, begins, ends, {true, true}, hides, KeepNothing{});
      }
      if (any) {
        total.add(rows_);
      }
    }
  }
  __device__ __forceinline__ void write(const PromptQueries& t, const PartTotal<kD, 32>& total) {
    const float share[2] = {total.inverse(0) * gate(t, 0, 2), total.inverse(1) * gate(t, 1, 2)};
    const float sum[2] = {total.state_of(0).y, total.state_of(1).y};
    const float* const value = branch();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = t.lane / 4 + r * 8;
      Bf16* const out =
          t.has_row(row) ? t.a.out + t.row_index(t.query_of(row), t.head_of(row)) * t.a.head_dim +
                               t.lane % 4 * 2
                         : nullptr;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        float x[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          x[e] = value[(n * 4 + 2 * r + e) * Plan::kWorkers];
          if (sum[r] > 0.0F) {
            x[e] = fmaf(share[r], total.out(n, 2 * r + e), x[e]);
          }
        }
        if (out != nullptr && n * 8 < t.a.head_dim) {
          *reinterpret_cast<std::uint32_t*>(out + n * 8) = pack_bf16(x[0], x[1]);
        }
      }
    }
  }

  const PromptArguments& p_;
  const Plan& plan_;
  PromptRows<kD, kByGroup> rows_;
  RingTurn<Plan::kTiles> at_;
  int first_, last_;  // positions of the row tile's tokens
  int team_first_, team_last_;
  int position_[2];  // of the tokens of rows lane / 4 and lane / 4 + 8
};

}  // namespace versieve::kernels
