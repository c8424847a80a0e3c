// A decoding step of ReSA (kernels/resa_decode; Rectified Sparse Attention, section 2.3): scoring
// of block keys, selection and attention over the chosen blocks. In one launch each is a phase, and
// what each takes is a parameter of its own; in the vanilla form each is a launch.
#pragma once

#include <cstdint>

#include "model/words/strategy.h"
#include "model/words/traffic.h"

namespace versieve {

struct DenseRead;  // model/launches/step_shape.h
struct StepShape;  // the same
struct StepWork;   // model/launches/launch_work.h

// Blocks that a KV head attends to (equation 4, as the kernel counts).
std::int64_t resa_active_blocks(std::int64_t context_len, std::int64_t key_block,
                                double active_ratio, std::int64_t n_min = kResaFewestBlocks,
                                std::int64_t n_local = kResaLocalBlocks);
std::int64_t resa_active_blocks(std::int64_t context_len, const Strategy& strategy);
// p by which a step is told from others: where n_min or n_local are not the usual ones, the share
// of the blocks that they lead to.
double resa_attended_ratio(std::int64_t context_len, const DenseRead& read);

namespace traffic {

// One layer.
struct ResaShape {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t context_len = 0;    // L
  std::int64_t key_block = 16;     // b
  std::int64_t blocks = 0;         // M
  std::int64_t local_blocks = 1;   // newest ones, chosen unscored
  std::int64_t active_blocks = 0;  // attended blocks of a KV head
  std::int64_t element_bytes = 2;
};

// A decoding step of a layer, KV(L) (1/b + p), and its launches: scoring, selection, attention.
Traffic resa_decode(const ResaShape& shape);
Traffic resa_score(const ResaShape& shape);
Traffic resa_select(const ResaShape& shape);
Traffic resa_attend(const ResaShape& shape);
// Of the vanilla form: results of `chunks` parts of each query head, written or read.
Traffic resa_partials(const ResaShape& shape, std::int64_t chunks, bool written);
// One dense pass that encodes `tokens` tokens anew, KV(L), and its rows written: a step's share is
// a `tokens`-th of it.
Traffic rectify(const ResaShape& shape, std::int64_t tokens);

}  // namespace traffic

void add_resa_decode(const StepShape& shape, double layers, StepWork& out);

}  // namespace versieve
