// Partial sums of linear/stream.cu, many nodes: they travel as wgmma leaves them in a warp's
// registers, in matrices of 8 weight rows by 16 nodes, a lane 16 bytes of each, so that nobody
// works out where a sum lies; and what a thread of the block's end has to do (stream_outputs.cuh).
#pragma once

#include "kernels/linear/stream_plan.cuh"
#include "kernels/linear/stream_ring.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/settle.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace versieve::kernels {

inline constexpr int kMatrixNodes = 16;
inline constexpr int kMatrixBytes = 8 * kMatrixNodes * 4;

// Partial sums of a block's share of the rows, from one slice:
// [groups, rows of the share / 8, nodes of a round / 16] matrices.
template <class Plan>
struct Fragments {
  static constexpr int kChunks = Plan::kRoundNodes / kMatrixNodes;
  int row_matrices;  // of a group

  __device__ explicit Fragments(const Tile& t) : row_matrices(8 >> t.slice_bits) {}
  __device__ int place(int group, int row_matrix, int chunk) const {
    return ((group * row_matrices + row_matrix) * kChunks + chunk) * kMatrixBytes;
  }
  __device__ int bytes() const { return place(Plan::kGroups, 0, 0); }
};
// What arrives of the other blocks.
template <class Plan>
__device__ inline int received_bytes(const Tile& t) {
  return (t.slices - 1) * Fragments<Plan>(t).bytes();
}

// Where the ring of a block of so many K tiles has room for the sums that it makes, for those that
// it collects and for outputs that are turned: with early sums the stages of tiles k_tiles to
// k_tiles + 2, which nobody fills any more.
template <class Plan>
__device__ inline std::uint32_t sums_at(const Places& at, int k_tiles) {
  return Plan::kEarlySums ? at.stage(k_tiles, Plan::kStageBytes, Plan::kStages) : at.ring;
}
template <class Plan>
__device__ inline std::uint32_t received_at(const Places& at, int k_tiles) {
  if constexpr (Plan::kOwnRoom || !Plan::kEarlySums) {
    return at.ring + Plan::kReceivedAt;
  } else {
    return at.stage(k_tiles + 1, Plan::kStageBytes, Plan::kStages);
  }
}
template <class Plan>
__device__ inline std::uint32_t turned_at(const Places& at, int k_tiles, int warp) {
  const std::uint32_t from = Plan::kEarlySums
                                 ? at.stage(k_tiles + 2, Plan::kStageBytes, Plan::kStages)
                                 : at.ring + Plan::kTurnedAt;
  return from + static_cast<std::uint32_t>(warp * kMatrixBytes);
}

// Whether outputs are written 8 at a time, and all that belongs to a node's sum of squares lies
// with one warp.
template <class Plan>
__device__ inline bool whole_octets(const LinearParams<Bf16>& p, const Tile& t) {
  const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(p.y) |
                                   reinterpret_cast<std::uintptr_t>(p.y_copy) |
                                   reinterpret_cast<std::uintptr_t>(p.residual) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weight) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weighted);
  const bool one_group =
      Plan::kGroups == 1 || (p.residual == nullptr && p.norm.y_weight == nullptr);
  const bool fits =
      p.residual == nullptr || Plan::kNodes << t.share_bits() <= Plan::kResidualElements;
  return p.m % 8 == 0 && p.y_copy_stride % 8 == 0 && addresses % sizeof(uint4) == 0 && one_group &&
         fits;
}

// Shared addresses of what a block's end needs beside sums.
struct EndPlaces {
  std::uint32_t scale;     // [nodes of the tile] f32, of the sums
  std::uint32_t residual;  // [nodes of the tile, rows of the share] bf16
  std::uint32_t weights;   // [rows of the share] bf16
};

// What a thread of a warp that multiplies does once its products are made, worked out before them:
// a lone warp takes five cycles for an instruction that waits for the one before.
struct FragmentEnd {
  bool whole;              // outputs are written 8 at a time
  std::uint32_t write[2];  // partial sums of rows lane / 4 and + 8, chunk 0
  std::uint32_t from, to;  // and, of the lane that sends them,
  int block, bytes;        // bytes is 0 if it has none to send
  // Of matrices of 16 rows by 16 nodes, counted [groups, rows of the share / 16], those first,
  // first + step ... of one chunk of nodes. Shares of 8 rows have one group of outputs
  // (model/launches/linear.h).
  int first, step, count;
  std::uint32_t sums, scale, residual, turn, turned, weights;  // this lane's
  int local, m;    // node of the round and first row of the 8 outputs that this lane writes
  std::int64_t y;  // their place
};

template <class Plan>
__device__ inline FragmentEnd plan_end(const LinearParams<Bf16>& p, const Tile& t,
                                       const Places& places, const EndPlaces& of_end, int warp) {
  constexpr int kChunks = Fragments<Plan>::kChunks;
  const Fragments<Plan> of(t);
  const int lane = static_cast<int>(threadIdx.x % 32);
  FragmentEnd end;
  end.whole = whole_octets<Plan>(p, t);
  const std::uint32_t made = sums_at<Plan>(places, t.k_tiles);
  const std::uint32_t received = received_at<Plan>(places, t.k_tiles);
  const auto of_rows = [&](int row_matrix) {  // of the group's 8, in their block's array
    return static_cast<std::uint32_t>(of.place(warp / 4, row_matrix & (of.row_matrices - 1), 0));
  };
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row_matrix = warp % 4 * 2 + half;
    const int block = row_matrix >> (3 - t.slice_bits);
    end.write[half] = (block == t.slice ? received : made) +
                      static_cast<std::uint32_t>(block * of.bytes() + lane * 16) +
                      of_rows(row_matrix);
  }
  const int pieces = of.row_matrices == 1 ? 2 : 1;  // 16 rows of one block, or 8 each of two
  const int sent = warp % 4 * 2 + lane;
  end.block = sent >> (3 - t.slice_bits);
  end.bytes = lane < pieces && end.block != t.slice ? 2 / pieces * kChunks * kMatrixBytes : 0;
  end.from = made + static_cast<std::uint32_t>(end.block * of.bytes()) + of_rows(sent);
  end.to = received_at<Plan>(places, slice_tiles(p, t, end.block)) +
           static_cast<std::uint32_t>(t.slice * of.bytes()) + of_rows(sent);

  const bool squares = p.norm.y_squares != nullptr;  // one warp adds up all those of a node
  const int chunk = warp % kChunks;
  const int groups = Plan::kGroups == 2 && p.swiglu ? 1 : Plan::kGroups;
  end.count = groups << max(2 - t.slice_bits, 0);
  end.first = warp / kChunks;
  end.step = Plan::kMultiplyWarps / kChunks;
  if (squares) {
    end.count = end.first == 0 ? end.count : 0;
    end.step = 1;
  }
  const int nodes = chunk * kMatrixNodes;
  end.sums = received + static_cast<std::uint32_t>(of.place(0, 0, chunk) + lane * 16);
  end.scale = of_end.scale + static_cast<std::uint32_t>((nodes + lane % 4 * 2) * 4);
  // Matrices of 8 nodes by 8 rows: nodes 0 and rows 0, nodes 0 and rows 8, nodes 8 ...
  const int node = lane % 8 + lane / 16 * 8;
  const int rows = of.row_matrices == 1 ? 0 : lane / 8 % 2 * 8;
  end.residual =
      of_end.residual + static_cast<std::uint32_t>((((nodes + node) << t.share_bits()) + rows) * 2);
  const std::uint32_t turns = turned_at<Plan>(places, t.k_tiles, warp);
  const auto turned = [&](int of_node, int half) {
    return turns + static_cast<std::uint32_t>(of_node * 32 + (half ^ (of_node / 4 % 2)) * 16);
  };
  end.turn = turned(node, lane / 8 % 2);
  end.turned = turned(lane / 2, lane % 2);
  end.weights = of_end.weights + static_cast<std::uint32_t>(lane % 2 * 16);
  end.local = nodes + lane / 2;
  end.m = t.first_row[0] + (t.slice << t.share_bits()) + lane % 2 * 8;
  end.y = static_cast<std::int64_t>(t.first_node + end.local) * p.m + end.m;
  if (lane % 2 * 8 >= 1 << t.share_bits()) {
    end.m = static_cast<int>(p.m);  // 8 rows: half of the lanes have none
  }
  if constexpr (Plan::kNodes < 128) {  // more nodes leave no registers for it
    for (std::uint32_t* address :
         {&end.write[0], &end.write[1], &end.from, &end.to, &end.sums, &end.scale, &end.residual,
          &end.turn, &end.turned, &end.weights}) {
      settle(*address);
    }
    settle(end.y);
  }
  return end;
}

// A warp's partial sums of the round's nodes, the first in `sum`: what this block finishes to where
// it collects, the rest to where it is sent from.
template <class Plan>
__device__ inline void write_fragments(const FragmentEnd& end,
                                       const float (&sum)[Plan::kNodes / 8][4]) {
#pragma unroll
  for (int chunk = 0; chunk < Fragments<Plan>::kChunks; ++chunk) {
    const float(&low)[4] = sum[2 * chunk];
    const float(&high)[4] = sum[2 * chunk + 1];
    const std::uint32_t at = static_cast<std::uint32_t>(chunk * kMatrixBytes);
    store_16(end.write[0] + at, low[0], low[1], high[0], high[1]);
    store_16(end.write[1] + at, low[2], low[3], high[2], high[3]);
  }
}
// Sends them; by the warp that has written them.
__device__ inline void send_fragments(const FragmentEnd& end, const Places& places) {
  if (end.bytes > 0) {
    int block = end.block;
    settle(block);  // addresses there are worked out by who sends, not before
    copy_to_block(block, end.to, end.from, end.bytes, places.received);
  }
}

// The next round's nodes.
template <class Plan>
__device__ inline void advance(const LinearParams<Bf16>& p, const Tile& t, FragmentEnd& end) {
  end.scale += Plan::kRoundNodes * 4;
  end.residual += static_cast<std::uint32_t>(Plan::kRoundNodes * 2 << t.share_bits());
  end.y += Plan::kRoundNodes * p.m;
}

}  // namespace versieve::kernels
