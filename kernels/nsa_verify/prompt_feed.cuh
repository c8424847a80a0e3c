// What a thread block of the prompt's form works on, and the warp that feeds its ring with tiles.
#pragma once

#include "kernels/nsa_verify/fused_route.cuh"
#include "kernels/nsa_verify/prompt_plan.cuh"
#include "kernels/nsa_verify/prompt_rows.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/bulk_copy.cuh"

namespace versieve::kernels {

struct PromptArguments {
  FusedArguments a;
  // The same of rows [thread block, query, H/G]: where softmax weights lie while blocks are chosen.
  FusedArguments own;
  CUtensorMap maps[4];  // keys, values, compressed keys, compressed values
  float* branches;      // [thread blocks, kD / 2, kWorkers]: what a thread keeps of its rows
  int per_tile;         // tokens of a row tile
  int groups;           // of tokens, a thread block each
};

// What a thread block works on. The longest contexts come first.
template <int kD>
__device__ __forceinline__ PromptQueries prompt_queries(const PromptArguments& p, int item) {
  const int g = item % p.a.kv_heads;
  const int of_block = PromptPlan<kD>::kWarps * p.per_tile;
  const int first = (p.groups - 1 - item / p.a.kv_heads) * of_block;
  return {p.a,
          g,
          first,
          min(of_block, p.a.nodes - first),
          static_cast<int>(threadIdx.x) / 32,
          static_cast<int>(threadIdx.x) % 32,
          p.per_tile};
}
__device__ __forceinline__ int tiles_of(int keys) {
  return (keys + kTileKeys - 1) / kTileKeys;
}
// Chunks of 64 positions of a window segment that any token of the block sees: every second from
// `first` on, up to the last token's.
struct WindowChunks {
  int first, last;

  __device__ __forceinline__ WindowChunks(const PromptQueries& t, int segment)
      : first(max(t.position_of(0) - t.a.window + 1, 0) / kTileKeys),
        last(t.a.window > 0 ? t.last_position() / kTileKeys : -1) {
    first += (first + segment) % kWindowSegments;
  }
};

// The warp that feeds: one lane asks for the tiles in the order in which the others take them.
template <int kD>
class PromptFeeder {
 public:
  using Plan = PromptPlan<kD>;

  __device__ __forceinline__ PromptFeeder(const PromptArguments& p, const Plan& plan)
      : p_(p), plan_(plan) {}

  __device__ __forceinline__ void feed_compressed(const PromptQueries& t) {
    const int tiles = tiles_of(t.a.compressed_of(t.last_position() + 1));
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      ask(p_.maps + 2, t.g, p_.a.row_of(true, i * kTileKeys));
    }
  }
  __device__ __forceinline__ void feed_tokens(const PromptQueries& t) {
    const int blocks = plan_.starts()[kSelectedSegments];
    const int last = t.last_position();
#pragma unroll 1
    for (int i = 0; i < blocks; ++i) {
      const int first = plan_.list()[i] << t.a.block_bits;
      const int end = min(first + (1 << t.a.block_bits), last + 1);
#pragma unroll 1
      for (int at = first; at < end; at += kTileKeys) {
        ask(p_.maps, t.g, p_.a.row_of(false, at));
      }
    }
#pragma unroll 1
    for (int segment = 0; segment < kWindowSegments; ++segment) {
      const WindowChunks chunks(t, segment);
#pragma unroll 1
      for (int chunk = chunks.first; chunk <= chunks.last; chunk += kWindowSegments) {
        ask(p_.maps, t.g, p_.a.row_of(false, chunk * kTileKeys));
      }
    }
  }

 private:
  __device__ __forceinline__ void ask(const CUtensorMap* maps, int g, int row) {
    barrier_wait(plan_.empty(at_.place), at_.parity ^ 1);  // a first round waits for nobody
    const std::uint32_t full = plan_.full(at_.place);
    barrier_expect(full, Plan::kTileBytes);
#pragma unroll
    for (int values = 0; values < 2; ++values) {
#pragma unroll
      for (int panel = 0; panel < kD / 64; ++panel) {
        copy_box_3d(plan_.tile(at_.place) + static_cast<std::uint32_t>(values * Plan::kUnitBytes +
                                                                       panel * kTileKeys * 128),
                    maps + values, panel * 64, g, row, full);
      }
    }
    at_.advance();
  }

  const PromptArguments& p_;
  const Plan& plan_;
  RingTurn<Plan::kTiles> at_;
};

}  // namespace versieve::kernels
