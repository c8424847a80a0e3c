// One NSA layer's verification step, as both forms' launches see it (kernels/nsa_verify).
#pragma once

#include <cstdint>

#include "model/launches/step_shape.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve {
namespace traffic {

inline constexpr double kMmaRows = 16.0;  // rows of a tensor-core tile: queries x heads

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
  // Requests of one launch, each with these queries over a cache of its own. Traffic is of one; the
  // fused form's cut and its launches are of all.
  std::int64_t requests = 1;

  double block_count() const;    // selection blocks of the context
  double group_count() const;    // ceil(N / C)
  double chosen_blocks() const;  // min(n, blocks of the context)
  double blocks_of_group() const;
  std::int64_t row_tile_queries() const;  // whose rows lie in one tile
  double kv_bytes() const;                // of one token's K and V, all KV heads
  double query_bytes() const;
  double branch_bytes() const;  // of one branch's output, passed through memory as float
  double index_bytes() const;   // of chosen blocks
  // Score and value products of `keys` keys for every query and head: 2 d multiply-adds each.
  double attention_flops(double keys) const;
};

}  // namespace traffic

// One layer's attention in that step, distinct blocks filled in.
traffic::NsaVerifyShape attention_shape(const StepShape& shape, double growth);

// What unique bytes count and DRAM does not deliver, in tokens of K and V: those that the newest
// selected block still lacks (every query selects it), and those of the window that lie in selected
// blocks.
struct SparedTokens {
  double selected = 0.0;
  double window = 0.0;
};
SparedTokens spared_tokens(const traffic::NsaVerifyShape& shape);

}  // namespace versieve
