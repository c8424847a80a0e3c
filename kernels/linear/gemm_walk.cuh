// A warpgroup of linear/gemm.cu: the products of its block's tiles, and their end between them.
#pragma once

#include "kernels/linear/gemm_outputs.cuh"
#include "kernels/linear/gemm_ring.cuh"

namespace versieve::kernels {

// Ends a tile part by part.
template <class Plan, bool kSwiglu>
struct TileEnd {
  const GemmParams& s;
  const Plan& plan;
  int group;

  __device__ __forceinline__ void fetch(const GemmEnd& end, int part, Residuals& r) const {
    if (!kSwiglu && s.p.residual != nullptr) {
      load_residuals(s, end, part, r);
    }
  }
  template <int kPart, int kSums>
  __device__ __forceinline__ void finish(const GemmEnd& end, const float (&sum)[kSums][4],
                                         const Residuals& r) const {
    if constexpr (kSwiglu) {
      finish_products<kPart>(s, end, sum);
    } else {
      finish_part<Plan, kPart>(s, plan, end, r, group, sum);
    }
  }
  // All parts, one after the other.
  template <int kSums>
  __device__ __forceinline__ void finish_all(const GemmEnd& end,
                                             const float (&sum)[kSums][4]) const {
    Residuals residuals[kSums / 4] = {};
#pragma unroll
    for (int part = 0; part < kSums / 4; ++part) {
      fetch(end, part, residuals[part]);
    }
    finish_from<0>(end, sum, residuals);
  }

 private:
  template <int kPart, int kSums>
  __device__ __forceinline__ void finish_from(const GemmEnd& end, const float (&sum)[kSums][4],
                                              const Residuals (&r)[kSums / 4]) const {
    if constexpr (kPart < kSums / 4) {
      finish<kPart>(end, sum, r[kPart]);
      finish_from<kPart + 1>(end, sum, r);
    }
  }
};

// A warpgroup's sums and where it is in the ring.
template <class Plan, int kReaders>
class RingProducts {
 public:
  __device__ RingProducts(const Plan& plan, int group) : plan_(plan), group_(group) {}

  // A K tile's products asked for.
  __device__ __forceinline__ void begin(bool adds, float (&sum)[Plan::kNodes / 8][4]) {
    begin_products<Plan>(plan_, group_, place_, adds, sum);
  }
  // Those of the K tile before awaited.
  __device__ __forceinline__ void free_last() {
    wgmma_wait<1>();
    if (last_stage_ >= 0) {
      free_gemm_stage<kReaders>(plan_, last_stage_);
    }
    last_stage_ = place_.stage;
    place_.advance();
  }
  __device__ __forceinline__ void multiply(bool adds, float (&sum)[Plan::kNodes / 8][4]) {
    begin(adds, sum);
    free_last();
  }
  // All awaited.
  __device__ __forceinline__ void end(float (&sum)[Plan::kNodes / 8][4]) {
    wgmma_wait<0>();
    free_gemm_stage<kReaders>(plan_, last_stage_);
    last_stage_ = -1;
    settle_sums(sum);
  }

 private:
  const Plan& plan_;
  const int group_;
  RingPlace<Plan> place_;
  int last_stage_ = -1;  // whose products may still run
};

// A warpgroup's walk over its block's tiles. `done` holds the sums of finished slices, and, while
// `pending`, those of the tile before, which are not written yet.
template <class Plan, bool kSwiglu>
class GemmWalk {
 public:
  __device__ GemmWalk(const GemmParams& s, const Plan& plan, int warp, int rank)
      : s_(s),
        plan_(plan),
        warp_(warp),
        group_(warp / 4),
        rank_(rank),
        end_of_tile_{s, plan, warp / 4},
        ring_(plan, warp / 4),
        spread_(first_k_tile(s, 1) >= 2 * Plan::kParts) {}

  __device__ void run(const GemmSpan& span) {
    float sum[Plan::kNodes / 8][4];
    float done[Plan::kNodes / 8][4];
#pragma unroll
    for (int i = 0; i < Plan::kNodes / 2; ++i) {
      sum[i / 4][i % 4] = 0.0F;
      done[i / 4][i % 4] = 0.0F;
    }
#pragma unroll 1
    for (int unit = span.first_unit; unit < unit_count(s_); unit += span.unit_step) {
      const GemmTile tile = tile_of<Plan>(s_, unit, rank_);
      int k_tile = begin_tile(tile, sum, done);
#pragma unroll 1
      for (int slice = 0; slice < s_.slices; ++slice) {
        const int end = first_k_tile(s_, slice + 1);
        bool adds = slice == 0;  // products of the first slice are there already
#pragma unroll 1
        for (; k_tile < end; ++k_tile) {
          ring_.multiply(adds, sum);
          adds = true;
        }
        ring_.end(sum);
#pragma unroll
        for (int i = 0; i < Plan::kNodes / 2; ++i) {
          const float before = slice == 0 ? 0.0F : done[i / 4][i % 4];
          done[i / 4][i % 4] = before + sum[i / 4][i % 4];
        }
      }
      end_ = end_of(s_, plan_, tile.first_row, tile.first_node, plan_.scales(group_, odd_), warp_);
      odd_ ^= 1;
      pending_ = true;
      meet_at<128>(1 + group_);  // the tile's scales are there
    }
    if (pending_) {
      end_of_tile_.finish_all(end_, done);
    }
  }

 private:
  // The tile's first K tiles; while their products run, the outputs of the tile before. Returns how
  // many.
  __device__ __forceinline__ int begin_tile(const GemmTile& tile, float (&sum)[Plan::kNodes / 8][4],
                                            const float (&done)[Plan::kNodes / 8][4]) {
    ring_.begin(false, sum);
    stage_scales(s_, plan_, tile, group_, odd_, true);
    if (!pending_) {
      ring_.free_last();
      return 1;
    }
    Residuals residuals{};
    end_of_tile_.fetch(end_, 0, residuals);
    ring_.free_last();
    overlap<0>(sum, done, residuals);
    return spread_ ? 2 * Plan::kParts : 1 + Plan::kParts;
  }
  template <int kPart>
  __device__ __forceinline__ void overlap(float (&sum)[Plan::kNodes / 8][4],
                                          const float (&done)[Plan::kNodes / 8][4],
                                          Residuals& residuals) {
    if constexpr (kPart < Plan::kParts) {
      ring_.begin(true, sum);
      end_of_tile_.template finish<kPart>(end_, done, residuals);
      if constexpr (kPart + 1 < Plan::kParts) {
        end_of_tile_.fetch(end_, kPart + 1, residuals);
      }
      ring_.free_last();
      if (kPart + 1 < Plan::kParts && spread_) {
        ring_.multiply(true, sum);
      }
      overlap<kPart + 1>(sum, done, residuals);
    }
  }

  const GemmParams& s_;
  const Plan& plan_;
  const int warp_, group_, rank_;
  const TileEnd<Plan, kSwiglu> end_of_tile_;
  RingProducts<Plan, kGemmPair> ring_;
  const bool spread_;  // slices long enough for two K tiles beside each part but the last
  GemmEnd end_ = {};   // of the tile that is pending
  int odd_ = 0;
  bool pending_ = false;
};

// A warpgroup's part of a tile whose slices of K are shared out to the kBlocks blocks of a cluster:
// its block's slices, then, of the tile's nodes, the block's share. The first block sends the sum
// of its slices, the others each slice's, for they are added behind it one by one.
template <class Plan, int kBlocks, int kSlices>
class SliceWalk {
 public:
  static constexpr int kOwnSlices = kSlices / kBlocks;  // of a block
  static constexpr int kArrays = 1 + (kBlocks - 1) * kOwnSlices;
  static constexpr int kShareNodes = Plan::kNodes / kBlocks;
  static constexpr int kReceivedBytes = kArrays * kShareNodes * kGemmRows * 4;
  static_assert(kOwnSlices == 1 || kOwnSlices == 2, "registers hold the sums of two");
  static_assert(kShareNodes % kPartNodes == 0, "a share is finished in whole parts");
  static_assert(kReceivedBytes <= Plan::kTurnAt, "what a block is sent fits the ring");

  __device__ static void run(const GemmParams& s, const Plan& plan, int warp, int rank,
                             const GemmSpan& span) {
    const int group = warp / 4;
    const GemmTile tile = tile_of<Plan>(s, span.first_unit, rank);
    stage_scales(s, plan, tile, group, 0, rank == 0);
    float sum[Plan::kNodes / 8][4];
    float first[Plan::kNodes / 8][4];
#pragma unroll
    for (int i = 0; i < Plan::kNodes / 2; ++i) {
      sum[i / 4][i % 4] = 0.0F;
      first[i / 4][i % 4] = 0.0F;
    }
    RingProducts<Plan, 1> ring(plan, group);
    make_slice(s, ring, rank * kOwnSlices, sum);
    if constexpr (kOwnSlices == 2) {
#pragma unroll
      for (int i = 0; i < Plan::kNodes / 2; ++i) {
        first[i / 4][i % 4] += sum[i / 4][i % 4];
      }
      make_slice(s, ring, rank * kOwnSlices + 1, sum);
    }
    cluster_arrive_relaxed();  // this block's ring is free
    const int first_node = tile.first_node + rank * kShareNodes;
    const GemmEnd end =
        end_of(s, plan, tile.first_row, first_node,
               plan.scales(group, 0) + static_cast<std::uint32_t>(rank * kShareNodes * 4), warp);
    const int array = rank == 0 ? 0 : 1 + (rank - 1) * kOwnSlices;
    if (kOwnSlices == 2 && rank == 0) {
#pragma unroll
      for (int i = 0; i < Plan::kNodes / 2; ++i) {
        sum[i / 4][i % 4] = first[i / 4][i % 4] + sum[i / 4][i % 4];
      }
    }
    cluster_wait();
    if (kOwnSlices == 2 && rank > 0) {
      send<0>(plan, warp, array, first);
    }
    send<0>(plan, warp, rank == 0 ? 0 : array + kOwnSlices - 1, sum);
    barrier_wait(plan.received(), 0);
    float done[kShareNodes / 8][4];
    collect(plan, warp, done);
    meet_at<128>(1 + group);  // scales are there
    TileEnd<Plan, false>{s, plan, group}.finish_all(end, done);
  }

 private:
  __device__ static __forceinline__ void make_slice(const GemmParams& s,
                                                    RingProducts<Plan, 1>& ring, int slice,
                                                    float (&sum)[Plan::kNodes / 8][4]) {
    const int k_tiles = first_k_tile(s, slice + 1) - first_k_tile(s, slice);
    ring.multiply(false, sum);
#pragma unroll 1
    for (int i = 1; i < k_tiles; ++i) {
      ring.multiply(true, sum);
    }
    ring.end(sum);
  }
  // Sums of each block's share of the nodes to it.
  template <int kBlock>
  __device__ static __forceinline__ void send(const Plan& plan, int warp, int array,
                                              const float (&sum)[Plan::kNodes / 8][4]) {
    if constexpr (kBlock < kBlocks) {
      const std::uint32_t lane = threadIdx.x % 32;
      const std::uint32_t to =
          address_in_block(plan.part_sums(array, kShareNodes, warp) + lane * 16, kBlock);
      const std::uint32_t barrier = address_in_block(plan.received(), kBlock);
#pragma unroll
      for (int i = 0; i < kShareNodes / 8; ++i) {
        const float(&of)[4] = sum[kBlock * (kShareNodes / 8) + i];
        push_word(to + static_cast<std::uint32_t>(i * 512),
                  make_uint4(__float_as_uint(of[0]), __float_as_uint(of[1]), __float_as_uint(of[2]),
                             __float_as_uint(of[3])),
                  barrier);
      }
      send<kBlock + 1>(plan, warp, array, sum);
    }
  }
  // The sums of all slices, added ascending.
  __device__ static __forceinline__ void collect(const Plan& plan, int warp,
                                                 float (&done)[kShareNodes / 8][4]) {
    const std::uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kShareNodes / 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        done[i][j] = 0.0F;
      }
#pragma unroll
      for (int array = 0; array < kArrays; ++array) {
        const uint4 part = load_16(plan.part_sums(array, kShareNodes, warp) +
                                   static_cast<std::uint32_t>(i * 512) + lane * 16);
        done[i][0] += __uint_as_float(part.x);
        done[i][1] += __uint_as_float(part.y);
        done[i][2] += __uint_as_float(part.z);
        done[i][3] += __uint_as_float(part.w);
      }
    }
  }
};

}  // namespace versieve::kernels
