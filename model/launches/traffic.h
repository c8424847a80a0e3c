// Bytes and arithmetic of each kernel, by term: one definition for the launch's NVTX payload, the
// roofline, the cost model and the validation against counters (design: cost model, part 7).
// Bytes are the unique bytes a launch must touch once unless a function says otherwise.
#pragma once

#include <cstdint>

#include "model/launches/fused_parts.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"
#include "model/words/traffic.h"

namespace versieve {

struct FusedCall;  // model/launches/fused_cut.h

namespace traffic {

// One NSA layer's verification step, as the kernels of kernels/nsa_verify see it.
struct NsaVerifyShape {
  NsaGeometry nsa;
  std::int64_t num_heads = 0;     // H
  std::int64_t num_kv_heads = 0;  // G
  std::int64_t head_dim = 0;      // d
  std::int64_t context_len = 0;   // L
  std::int64_t num_queries = 0;   // N
  std::int64_t element_bytes = 2;
  // Selection blocks that at least one query reads, summed over KV heads / G; 0: not known, taken
  // as min(N * n, blocks of the context).
  double unique_blocks = 0.0;
  bool routing = true;  // false in a reuse layer: no scores are kept and no blocks are chosen
  // The fused form's groups. A group's distinct blocks are U(C, rho), a mean over groups and KV
  // heads; 0: not known, taken as the most there can be.
  std::int64_t group_size = 1;  // C
  GroupMode group_mode = GroupMode::kExact;
  double group_blocks = 0.0;
  // The same of those of a group's queries whose rows lie in one tile; 0: not known, taken as
  // the group's.
  double row_tile_blocks = 0.0;
  double overlap = 0.0;     // of neighbouring queries' blocks; evens out the parts' lengths or not
  bool importance = false;  // the fused form writes block importance too

  double group_count() const;    // ceil(N / C)
  double chosen_blocks() const;  // min(n, blocks of the context)
  double blocks_of_group() const;
  std::int64_t row_tile_queries() const;  // whose rows lie in one tile
};

// What the fused form cuts.
FusedCall fused_call(const NsaVerifyShape& shape);
// How the fused form cuts its work; what a CTA or a segment takes depends on positions and ranks
// alone, never on the number of queries.
inline constexpr double kMmaRows = 16.0;  // rows of a tensor-core tile: queries x heads
// Partials of a row over its selected blocks, and over its window.
inline constexpr double kSelectedSegments = kFusedSelectedSegments;
inline constexpr double kWindowSegments = kFusedWindowSegments;
// Spans of compressed tokens that are reduced at once: 128 tokens up to 1,024, 256 from there on.
double nsa_route_spans(std::int64_t compressed);
// Partials of a row over its compressed tokens in nsa_route, or in nsa_reuse beside `segments`
// others: one a span; where spans and segments would not be on the chip (an H200) all at once, CTAs
// add up those of 512 tokens and leave one (model/launches/fused_parts.h).
double nsa_compressed_parts(const NsaVerifyShape& shape, double segments);
// Queries that share one load of the window's keys.
double nsa_window_sharers(const NsaVerifyShape& shape);

// Dense or windowed attention of tree nodes (kernels/tree_attention).
struct TreeAttentionShape {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t context_len = 0, first_position = 0, window = 0;  // window 0: none
  std::int64_t num_queries = 0, num_nodes = 0;
  std::int64_t element_bytes = 2;
  TrafficTerm cache_term = TrafficTerm::kWindow;
};

// One layer of a ReSA decoding step (kernels/resa_decode; Rectified Sparse Attention, section 2.3).
struct ResaShape {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t context_len = 0;    // L
  std::int64_t key_block = 16;     // b
  std::int64_t blocks = 0;         // M
  std::int64_t active_blocks = 0;  // attended blocks of a KV head
  std::int64_t element_bytes = 2;
};

// Compressed tokens formed by phi (kernels/compress): `rows` neighbouring blocks.
struct CompressShape {
  std::int64_t rows = 0, num_kv_heads = 0, head_dim = 0, cmp_block = 0, cmp_stride = 0;
  std::int64_t element_bytes = 2;
};

// Linear layer y[N, M] = x[N, K] w[M, K]^T.
Traffic linear(std::int64_t n, std::int64_t k, std::int64_t m, std::int64_t element_bytes,
               TrafficTerm weight_term);
Traffic tree_attention(const TreeAttentionShape& shape);
Traffic compress(const CompressShape& shape);
// Block keys of `blocks` blocks of `key_block` tokens, in `layers` layers.
Traffic block_keys(std::int64_t layers, std::int64_t blocks, std::int64_t key_block,
                   std::int64_t width, std::int64_t element_bytes);
// A decoding step of a layer, KV(L) (1/b + p), and its launches: scoring, selection, attention.
Traffic resa_decode(const ResaShape& shape);
Traffic resa_score(const ResaShape& shape);
Traffic resa_select(const ResaShape& shape);
Traffic resa_attend(const ResaShape& shape);
// One dense pass that encodes `tokens` tokens anew, KV(L), and its rows written: a step's share is
// a `tokens`-th of it.
Traffic rectify(const ResaShape& shape, std::int64_t tokens);
// The vanilla form's five launches (Sparse Speculative Verification, section 3: separate launches,
// branch outputs in memory, as float).
Traffic nsa_compressed(const NsaVerifyShape& shape);
Traffic nsa_select(const NsaVerifyShape& shape);
// In the place of nsa_select with topk() between them: rows of importance to rank, and -1 where
// there are fewer blocks than wanted.
Traffic nsa_weigh(const NsaVerifyShape& shape);
Traffic nsa_trim(const NsaVerifyShape& shape);
Traffic nsa_selected(const NsaVerifyShape& shape);
Traffic nsa_window(const NsaVerifyShape& shape);
Traffic nsa_combine(const NsaVerifyShape& shape);
// The fused form: two launches of a refresh layer, one of a reuse layer. Flops are those that the
// tensor cores execute, rows that a mask or a tile throws away included.
Traffic nsa_route(const NsaVerifyShape& shape);
Traffic nsa_attend(const NsaVerifyShape& shape);
Traffic nsa_reuse(const NsaVerifyShape& shape);

}  // namespace traffic
}  // namespace versieve
