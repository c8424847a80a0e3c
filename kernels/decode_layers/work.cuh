// A CTA of decode_layers: one warp that fills a ring of 32 KB stages with weights and cache tiles,
// in the order in which they will be wanted and however far ahead room allows, and eight warps that
// compute.
#pragma once

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/warp.cuh"
#include "kernels/decode_layers/table.h"
#include "kernels/nsa_verify/fused.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/packets.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "model/launches/decode_layers.h"

namespace versieve::kernels {

inline constexpr int kComputeWarps = 8;
inline constexpr int kComputeThreads = kComputeWarps * 32;
inline constexpr int kDecodeThreads = kComputeThreads + 128;  // a warp that loads, one that scales
inline constexpr int kBoxBytes = 8192;                        // 64 rows of 128 bytes
inline constexpr int kStageBoxes = 4;  // under one barrier: waiting costs more than copying
inline constexpr int kStageBytes = kStageBoxes * kBoxBytes;
inline constexpr int kStageArrivals = 4;  // that free a stage: the warps of a product
inline constexpr int kChosenStages = 4;   // of the ring, for chosen blocks
inline constexpr int kMostStages = 6;
// Stages that one CTA has under way: two where all wait for weights; one while the chain from a
// layer's joint matrix to its MLP runs, whose packets come sooner the fewer bytes are under way
// (linear/MEASURED.md). So many stages behind the parts of attention belong to that chain: what the
// ring holds, and what `output` makes room for.
inline constexpr int kStagesInFlight = 2;
inline constexpr int kCalmStagesInFlight = 1;
inline constexpr int kCalmStages = 9;
// Blocks of a piece of chosen ones.
__device__ constexpr int chosen_piece(int head_dim) {
  return kChosenStages * kStageBoxes / 2 / (head_dim / 64);
}
inline constexpr int kMergingWarp = 4;  // the first of those that merge
inline constexpr int kBranches = 3;
inline constexpr int kBranchFloats = 130;  // of a sum that a warp hands another
inline constexpr int kMatrixRows = 64;
inline constexpr int kMostGathered = 4;  // slices: a warp of a product has rows of one alone
// What a launch takes, by model/launches/decode_layers.h.
inline constexpr int kWorkBytes = static_cast<int>(kDecodeWorkBytes);
inline constexpr int kMostDecodeHeads = static_cast<int>(kDecodeMostHeads);
inline constexpr int kMostDecodeSpans = static_cast<int>(kDecodeMostSpans);
inline constexpr int kMostDecodeChosen = static_cast<int>(kDecodeMostChosen);
static_assert(kTileKeys == kDecodeBlockTokens && kSegments == kDecodeSegments &&
              kMostStages * kStageBytes == kDecodeRingBytes);
inline constexpr int kMostCandidates = 192;

// Registers of a thread: warps that compute take those of the others (65,536 an SM).
inline constexpr int kComputeRegisters = 232;
inline constexpr int kOtherRegisters = 40;

// Barrier of the computing warps.
__device__ __forceinline__ void compute_sync() {
  meet<1, kComputeThreads>();
}
__device__ __forceinline__ void free_stage(std::uint32_t barrier) {
  barrier_arrive_times<kStageArrivals>(barrier);
}

// What lies in shared memory behind the stages.
struct DecodeShared {
  std::uint64_t full[kMostStages], empty[kMostStages], chosen_full;
  std::uint64_t scaled[2];  // scales of the rows behind joint, and behind gate_up
  alignas(16) unsigned char work[kWorkBytes];
  alignas(16) unsigned char overrun[256];  // wgmma reads rows past x, whose products nobody takes
  alignas(16) Bf16 q[kMostDecodeHeads * 128];
  alignas(16) Bf16 own[2][128], own_raw[128];  // the node's key and value
  alignas(16) Bf16 own_compressed[2][128];
  float cosine[64], sine[64];
  alignas(16) float branch[kBranches - 1][kBranchFloats];
  alignas(16) float sums[2][kMatrixRows];  // of a product without slices: gate, up
  float tile_most[kComputeWarps][kMostDecodeHeads];
  float2 head_state[kMostDecodeHeads];
  float pooled_key[128], pooled_turns[128];  // cosines, sines from 64 on
  std::int32_t chosen[kMostDecodeChosen], sorted[kMostDecodeChosen];
  std::int32_t tiles[kMostDecodeChosen];  // first keys of this segment's tiles, in any order
  std::int32_t sorted_tiles[kMostDecodeChosen];
  int tile_count, candidate_count;
  unsigned bound;     // that candidates reach
  float scale[2][2];  // 1 / RMS of those rows, by layer parity
  uint2 candidates[kMostCandidates];
  alignas(16) float2 span_state[kMostDecodeHeads][kMostDecodeSpans];
};

// A place of the ring that goes round.
struct StageCursor {
  int place = 0;
  int parity = 0;

  __device__ __forceinline__ void advance(int by) {
    place += by;
    if (place >= kMostStages) {
      place -= kMostStages;
      parity ^= 1;
    }
  }
  __device__ __forceinline__ StageCursor ahead(int by) const {
    StageCursor c = *this;
    c.advance(by);
    return c;
  }
};

enum class Role { kNone, kChosen, kWindow, kSpans };

// What a CTA is, and where its stages are.
struct DecodeCta {
  const DecodeArguments& a;
  DecodeShared& shared;
  std::uint32_t stages_at, full_at, empty_at, chosen_full_at;
  int cta;
  int g, index;  // KV head, and which of its CTAs this is
  Role role;
  int warp;  // of the CTA

  __device__ __forceinline__ DecodeCta(const DecodeArguments& arguments, DecodeShared& memory,
                                       unsigned char* stage_memory)
      : a(arguments),
        shared(memory),
        stages_at(shared_address(stage_memory)),
        full_at(shared_address(memory.full)),
        empty_at(shared_address(memory.empty)),
        chosen_full_at(shared_address(&memory.chosen_full)),
        cta(static_cast<int>(blockIdx.x)),
        warp(warp_of_block()) {
    index = cta / a.kv_heads;
    g = cta - index * a.kv_heads;
    role = index >= a.head_ctas        ? Role::kNone
           : index < kSelectedSegments ? Role::kChosen
           : index < kSegments         ? Role::kWindow
                                       : Role::kSpans;
  }
  __device__ __forceinline__ std::uint32_t stage(int place) const {
    return stages_at + static_cast<std::uint32_t>(place * kStageBytes);
  }
  __device__ __forceinline__ std::uint32_t full(int place) const {
    return full_at + static_cast<std::uint32_t>(place * 8);
  }
  __device__ __forceinline__ std::uint32_t empty(int place) const {
    return empty_at + static_cast<std::uint32_t>(place * 8);
  }
  // First unit of this CTA; the others follow `ctas` apart.
  __device__ __forceinline__ int first_unit(const DecodeMatrix& m) const {
    const int unit = cta - m.first_cta;
    return unit < 0 ? unit + a.ctas : unit;
  }
  // Which scales this CTA asks for.
  __device__ __forceinline__ bool wants_joint_scale() const {
    return joint_in_slices() ? role != Role::kNone : works_on(a.matrix[kJoint]);
  }
  __device__ __forceinline__ bool works_on(const DecodeMatrix& m) const {
    return first_unit(m) < m.units;
  }
  __device__ __forceinline__ std::uint32_t scaled(int which) const {
    return shared_address(shared.scaled + which);
  }
  // Whether readers of the joint row add its two slices themselves, which saves a meeting.
  __device__ __forceinline__ bool joint_in_slices() const {
    return a.matrix[kJoint].slice_bits == 1;
  }
  __device__ __forceinline__ uint2* mail(int layer) const {
    return a.packets + (layer & 1) * a.mail.half;
  }
  __device__ __forceinline__ int compressed_of(int tokens) const {
    return tokens >= a.cmp_block ? ((tokens - a.cmp_block) >> a.stride_bits) + 1 : 0;
  }
};

// Stages of `boxes` boxes.
__device__ __forceinline__ int stages_of(int boxes) {
  return (boxes + kStageBoxes - 1) / kStageBoxes;
}

// K tiles of a unit, in each slice of a gathered one.
struct KRange {
  int first, count;

  __device__ __forceinline__ KRange(const DecodeMatrix& m, int unit) {
    const int slice = m.gathered > 1 ? 0 : unit & ((1 << m.slice_bits) - 1);
    first = (m.k_tiles * slice) >> m.slice_bits;
    count = ((m.k_tiles * (slice + 1)) >> m.slice_bits) - first;
  }
};

// Where the node stands.
struct DecodePosition {
  int position = 0;    // L
  int seen = 0;        // compressed tokens, the one that it completes included
  int own_compressed;  // index of that one; -1: none
  int from, to;        // spans of this CTA; beside a segment if it attends chosen blocks

  DecodePosition() = default;
  // After the wait for predecessors; whole warps.
  __device__ __forceinline__ explicit DecodePosition(const DecodeCta& c) {
    const bool counted = c.a.counts != nullptr;
    position = counted ? c.a.counts->context_len : c.a.context_len;
    const int completes = counted ? c.a.counts->tree_compressed : c.a.tree_compressed;
    const int committed = c.compressed_of(position);
    own_compressed = completes > 0 ? committed : -1;
    seen = committed + (completes > 0 ? 1 : 0);
    // A span costs latency more than its length, so as few of them in a row as can be: CTAs that
    // attend chosen blocks, and wait for the spans in a routing layer, take those that are left.
    const int spans = span_count(seen);
    const int own_ranks = c.a.head_ctas - kSegments;
    const int ranks = min(max(spans, own_ranks), own_ranks + kSelectedSegments);
    const int rank = c.role == Role::kSpans    ? c.index - kSegments
                     : c.role == Role::kChosen ? own_ranks + c.index
                                               : ranks;
    from = min(rank, ranks) * spans / ranks;
    to = min(rank + 1, ranks) * spans / ranks;
  }
};

// A CTA's parts of a layer in the order in which it attends them: spans before the blocks that are
// chosen by them, behind blocks that are known beforehand.
struct PartOrder {
  int from, spans;
  int segment;  // which of the parts is the CTA's segment; `spans` or 0, -1: none

  __device__ __forceinline__ PartOrder(const DecodeCta& c, const DecodePosition& at, bool routes)
      : from(at.from),
        spans(at.to - at.from),
        segment(c.role == Role::kSpans ? -1
                : routes               ? spans
                                       : 0) {}
  __device__ __forceinline__ int count() const { return spans + (segment < 0 ? 0 : 1); }
  __device__ __forceinline__ bool is_span(int i) const { return i != segment; }
  __device__ __forceinline__ int span(int i) const { return from + i - (segment == 0 ? 1 : 0); }
};

// Tiles of 64 keys of one part: a span, or a window segment.
struct PartTiles {
  int first, apart, count;  // first key of the first tile, between tiles
  int low, end;             // keys that the node sees
  int own;                  // its own key's index, -1: not here

  __device__ __forceinline__ static PartTiles of_span(const DecodePosition& at, int span) {
    const int begin = span_start(span);
    const int end = min(span_start(span + 1), at.seen);
    return {begin, kTileKeys, (end - begin + kTileKeys - 1) / kTileKeys, 0, end, at.own_compressed};
  }
  __device__ __forceinline__ static PartTiles of_window(const DecodeArguments& a,
                                                        const DecodePosition& at, int segment) {
    const int low = max(at.position - a.window + 1, 0);
    int chunk = low / kTileKeys;
    chunk += (chunk + segment) % kWindowSegments;
    const int chunks = at.position / kTileKeys + 1 - chunk;
    return {chunk * kTileKeys,
            kWindowSegments * kTileKeys,
            a.window > 0 ? max((chunks + kWindowSegments - 1) / kWindowSegments, 0) : 0,
            low,
            at.position + 1,
            at.position};
  }
};

}  // namespace versieve::kernels
