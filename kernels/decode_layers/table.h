// What a decode_layers launch reads beside its arguments: a table of the layers in device memory,
// and how the work of one layer is cut. Rows and K slices of a matrix are those of
// model/launches/linear.h, so that sums have the order that kernels/linear gives them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/common/bf16.h"
#include "kernels/common/page_table.h"
#include "kernels/common/square_sum.h"
#include "kernels/common/step_counts.h"

namespace versieve::kernels {

enum DecodeStage : int { kJoint, kOutput, kGateUp, kDown, kMatrices };

// One layer; maps first, they stand on 64 bytes.
struct alignas(128) DecodeTable {
  CUtensorMap matrix[kMatrices];   // boxes of 64 rows by 64 columns, or of gathered slices
  CUtensorMap k, v, k_cmp, v_cmp;  // boxes of 64 rows of a KV head
  const Bf16 *post_norm, *next_norm;
  const Bf16 *compress_key, *compress_value, *intra_block_pe;
  const Bf16 *pooled_k, *pooled_v;  // caches that phi reads
  Bf16 *k_tree, *v_tree, *k_raw_tree, *k_cmp_tree, *v_cmp_tree;
  std::int32_t* indices;
  Bf16* captured;
  int routes;
};

// A matrix: unit u = row block * slices + slice is 64 rows (64 pairs of gate and up rows) times a
// slice of K; or, gathered, 64 / slices rows times all slices, which a product takes as 64 rows.
// Either finishes rows u * 64 / slices and those behind. CTA (u + first_cta) mod ctas works on it.
struct DecodeMatrix {
  int rows, units, slice_bits, k_tiles, first_cta;
  int gathered;  // slices that a unit gathers, 2 or 4; 1: none

  // Whether one CTA has a row's whole sum.
  __host__ __device__ bool whole() const { return slice_bits == 0 || gathered > 1; }
};

// Where packets lie, in packets of 8 bytes from the start of a layer parity's half.
struct DecodeMail {
  int x[2];                 // [hidden / 2]: before gate_up, before the next layer's joint
  int squares[2];           // [units of output or down][2]
  int stream[2];            // [hidden / 2]: the residual stream itself
  int joint;                // [rows / 2]
  int attended;             // [H d / 2]
  int mlp;                  // [intermediate / 2]
  int partials[kMatrices];  // [row blocks, 64, slices]; of gate_up [row blocks, 2, 64, slices]
  int weights;              // [H, slices of 16 compressed tokens][6]
  int part_states;          // [H, parts][2]
  int part_outs;            // [H, parts, d]
  int half;                 // packets of a parity
};

struct DecodeArguments {
  const DecodeTable* table;
  DecodeMatrix matrix[kMatrices];
  DecodeMail mail;
  uint2* packets;   // [2, half]
  unsigned* epoch;  // of the last launch's last layer
  int ctas, head_ctas, layers;
  int hidden, heads, kv_heads, group_heads, head_dim;
  int max_spans, max_slices;
  int cmp_block, stride_bits, block_bits, sel_count, init_blocks, local_blocks, window;
  int rotates_pooled;  // phi takes keys before rotary
  double theta;
  double mean_unit;  // turns a sum of squares into their mean
  float eps;
  const StepCounts* counts;
  const std::int32_t* pages[2];      // of tokens, compressed tokens: PageTable::page
  int context_len, tree_compressed;  // read if counts is null
  const std::int32_t *source, *block;
  const float *cosine, *sine;
  Bf16 *hidden_rows, *weighted;
  const SquareSum* squares;
  SquareSum* out_squares;
};

}  // namespace versieve::kernels
