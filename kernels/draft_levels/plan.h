// What a draft_levels launch reads beside its weights: how CTAs are shared out and where packets
// lie. Rows and K slices of a matrix are those of model/launches/linear.h, so that sums have
// the order that kernels/linear gives them.
#pragma once

#include <cstdint>

#include "kernels/draft_levels/params.h"
#include "kernels/ops.h"
#include "model/launches/draft_levels.h"

namespace versieve::kernels {

// A matrix of which a CTA holds 64 rows (64 pairs of gate and up rows) and all of K.
struct DraftMatrix {
  int k_tiles, slices, slice_bits;

  __host__ __device__ int first_tile(int slice) const { return (k_tiles * slice) >> slice_bits; }
};

enum DraftRole : int { kFuse, kFeature, kAttend, kOutput, kGateUp, kDown, kHead, kGrow, kRoles };

// Where packets lie, in pairs of packets (16 bytes) from the start of a pass parity's half.
struct DraftMail {
  int feature;                  // [P, hidden / 4]: of the entries
  int joint;                    // [P, joint / 2]: features' half of the projection, f32
  int attended;                 // [W, H d / 4]
  int output, output_weighted;  // [W, hidden / 4]
  int output_squares;           // [blocks of 64 rows, W]
  int mlp;                      // [W, intermediate / 4]
  int down, down_weighted;      // [W, hidden / 4]
  int down_squares;             // [blocks of 64 rows, W]
  int logits;                   // [W, V / 4 rounded up]
  int grown;                    // [W]: the next frontier
  int half;                     // pairs of a parity
};

struct DraftLevelsArguments {
  const Bf16 *fuse, *joint, *output, *gate_up, *down, *head;
  const Bf16 *hidden_norm, *post_norm, *norm;
  const float* token_rows;  // [target V, joint]: tokens' half of the projection, before rounding
  const Bf16* captured;
  const std::int32_t *entry_token, *entry_row, *entry_position;
  Bf16 *k, *v;
  StepState* state;
  uint2* packets;   // [2, 2 half]
  unsigned* epoch;  // of the last launch's last pass
  unsigned* ended;  // CTAs of this launch that are through
  int first_cta[kRoles + 1];
  DraftMail mail;
  DraftMatrix fuse_cut, output_cut, gate_up_cut, down_cut, head_cut;
  int hidden, intermediate, heads, kv_heads, group_heads, vocab, joint_rows, window;
  int levels, width, entries;
  double eps;
  double mean_unit;  // turns a sum of squares into their mean
  float log_half;
  double frequency[kDraftHeadDim / 2];  // of rotary pairs
  GrowTreeParams grow;                  // all but the level and what it points to
};

}  // namespace versieve::kernels
