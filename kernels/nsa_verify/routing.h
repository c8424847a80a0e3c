// From compressed probabilities to selected blocks: the importance sum with its multiplicities, the
// forced blocks and the tie rule (Sparse Speculative Verification, section 2). Host side, shared by
// the CPU kernel and by the launch code of the GPU kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/topk/params.h"
#include "model/words/llm_shape.h"

namespace versieve::kernels {

// importance[j] = sum_o weight[o] * p_cmp[(B/s) j + first_offset + o]: the double sum over m < B/s
// and u < l/s of p_cmp[(B/s) j + m - u], written once per offset. For 32/16/64: 1,2,2,2,1 from -1.
struct ImportanceWeights {
  std::int64_t first_offset = 0;
  std::vector<int> weight;  // [B/s + l/s - 1]
};
ImportanceWeights importance_weights(const NsaGeometry& nsa);

// Block of a query whose newest block is `own` that is chosen whatever its importance.
inline bool is_forced(const NsaGeometry& nsa, std::int64_t block, std::int64_t own) {
  return block < nsa.init_blocks || block > own - nsa.local_blocks;
}

// The n blocks of a query at block `own`, ascending, then -1: forced ones first, the rest by
// importance, lower index first among equals. `order` is scratch.
template <class S>
void select_blocks(const NsaGeometry& nsa, const S* importance, std::int64_t own,
                   std::vector<std::int32_t>& order, std::int32_t* indices);

// The same by kernels/topk: forced blocks score infinity. `hint` [n] or null, as TopkParams has it;
// `scores` and `values` are scratch.
template <class S>
void select_blocks_by(TopkVariant variant, const NsaGeometry& nsa, const S* importance,
                      std::int64_t own, const std::int32_t* hint, std::vector<S>& scores,
                      std::vector<S>& values, std::int32_t* indices);

// The row of a group [first, end) whose blocks the whole group takes (approximate groups): the one
// with the greatest position, the lowest such row.
std::int64_t representative(const std::int32_t* position, std::int64_t first, std::int64_t end);

}  // namespace versieve::kernels
