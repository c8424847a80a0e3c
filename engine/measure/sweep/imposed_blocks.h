// Block sets of a declared overlap, for reuse layers of synthetic points: what an earlier layer's
// routing might have left. A chain of sets: neighbours share exactly n rho blocks in expectation,
// and what a query does not share with its predecessor it shares with none of the last eight, as
// far as the context has blocks enough. A group of C <= 8 neighbours then holds U(C, rho) = n (1 +
// (C - 1) (1 - rho)) distinct blocks (design: cost model, part 7).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/measure/sweep/synthetic_random.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

// [N, G, n], each row ascending, then -1; forced blocks inside. `own_block` [N]: the block that
// holds the query itself; the row chooses among blocks 0 ... own. KV heads draw independently.
// pool > 0: fresh blocks come from that many of the context's, spread evenly, while they last, so
// that queries far apart meet again, as routing's do.
std::vector<std::int32_t> imposed_blocks(const NsaGeometry& nsa, std::int64_t num_kv_heads,
                                         const std::vector<std::int32_t>& own_block, double overlap,
                                         SyntheticRandom& random, std::int64_t pool = 0);

// Every query of a group takes the blocks of its representative: greatest position, lowest row.
void share_in_groups(const std::vector<std::int32_t>& position, std::int64_t group_size,
                     std::vector<std::int32_t>& indices);

}  // namespace versieve::engine
