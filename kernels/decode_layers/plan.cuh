// How a decode_layers launch is cut: units of matrices, CTAs of a KV head, where packets lie, and
// the table of the layers. Host code; included by launch.cu alone.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "kernels/common/cuda_check.h"
#include "kernels/common/tensor_map.h"
#include "kernels/decode_layers/params.h"
#include "kernels/decode_layers/work.cuh"
#include "model/words/joint_rows.h"

namespace versieve::kernels {
namespace {

// Units of 64 rows and a slice of K. REQUIRES: decodes_in_one_launch, so linear cuts rows alike.
DecodeMatrix matrix_of(std::int64_t k, std::int64_t rows, bool swiglu) {
  const LinearCut cut = linear_cut(k, rows, swiglu);
  DecodeMatrix m{};
  m.rows = static_cast<int>(rows);
  m.slice_bits = std::countr_zero(static_cast<unsigned>(cut.slices));
  m.k_tiles = static_cast<int>(k / kLinearTileK);
  m.units = static_cast<int>((rows + kMatrixRows - 1) / kMatrixRows) << m.slice_bits;
  m.gathered = 1;
  return m;
}

// The same with all slices of a row in one CTA, which saves a meeting but has each CTA read all of
// x: where slices are equal and x has room.
DecodeMatrix gathered_matrix_of(std::int64_t k, std::int64_t rows) {
  DecodeMatrix m = matrix_of(k, rows, false);
  const int slices = 1 << m.slice_bits;
  if (slices == kMostGathered && m.k_tiles % slices == 0 &&
      k * static_cast<std::int64_t>(sizeof(Bf16)) <= kDecodeWorkBytes) {
    m.gathered = slices;
  }
  return m;
}

int max_compressed(const DecodeLayersParams<Bf16>& p) {
  return static_cast<int>(compressed_count(p.shape.nsa, p.context_len + 1));
}

DecodeArguments arguments_of(const DecodeLayersParams<Bf16>& p) {
  const LlmShape& s = p.shape;
  DecodeArguments a{};
  a.matrix[kJoint] = matrix_of(s.hidden, joint_rows(s), false);
  a.matrix[kOutput] = gathered_matrix_of(s.q_width(), s.hidden);
  a.matrix[kGateUp] = matrix_of(s.hidden, s.intermediate, true);
  a.matrix[kDown] = matrix_of(s.intermediate, s.hidden, false);
  a.ctas = multiprocessors();
  a.matrix[kJoint].first_cta = std::max(a.ctas - a.matrix[kJoint].units, 0);
  a.head_ctas = a.ctas / static_cast<int>(s.num_kv_heads);
  a.layers = static_cast<int>(s.layers);
  a.hidden = static_cast<int>(s.hidden);
  a.heads = static_cast<int>(s.num_heads);
  a.kv_heads = static_cast<int>(s.num_kv_heads);
  a.group_heads = a.heads / a.kv_heads;
  a.head_dim = static_cast<int>(s.head_dim);
  a.max_spans = std::max(span_count(max_compressed(p)), 1);
  a.max_slices = (max_compressed(p) + kSliceKeys - 1) / kSliceKeys + 1;
  a.cmp_block = static_cast<int>(s.nsa.cmp_block);
  a.stride_bits = std::countr_zero(static_cast<unsigned>(s.nsa.cmp_stride));
  a.block_bits = std::countr_zero(static_cast<unsigned>(s.nsa.sel_block));
  a.sel_count = static_cast<int>(s.nsa.sel_count);
  a.init_blocks = static_cast<int>(s.nsa.init_blocks);
  a.local_blocks = static_cast<int>(s.nsa.local_blocks);
  a.window = static_cast<int>(s.nsa.window);
  a.rotates_pooled = p.layers.front().k_raw != nullptr ? 1 : 0;
  a.theta = s.rope_theta;
  a.mean_unit = kSquareSumUnit / static_cast<double>(s.hidden);
  a.eps = static_cast<float>(s.norm_eps);
  a.counts = p.counts;
  a.pages[0] = p.pages.page;
  a.pages[1] = p.compressed_pages.page;
  a.context_len = static_cast<int>(p.context_len);
  a.tree_compressed = static_cast<int>(p.tree_compressed);
  a.source = p.source;
  a.block = p.block;
  a.cosine = p.cosine;
  a.sine = p.sine;
  a.hidden_rows = p.hidden;
  a.weighted = p.weighted;
  a.squares = p.squares;
  a.out_squares = p.out_squares;
  int packets = 0;
  const auto place = [&](std::int64_t count) {
    const int at = packets;
    packets += static_cast<int>((count + 15) / 16 * 16);  // lines of 128 bytes
    return at;
  };
  DecodeMail& mail = a.mail;
  mail.x[0] = place(s.hidden / 2);
  mail.x[1] = place(s.hidden / 2);
  mail.squares[0] = place(2 * a.matrix[kOutput].units);
  mail.squares[1] = place(2 * a.matrix[kDown].units);
  mail.stream[0] = place(s.hidden / 2);
  mail.stream[1] = place(s.hidden / 2);
  mail.joint = place(joint_rows(s) / 2);
  mail.attended = place(s.q_width() / 2);
  mail.mlp = place(s.intermediate / 2);
  for (int i = 0; i < kMatrices; ++i) {
    mail.partials[i] =
        place(!a.matrix[i].whole() ? a.matrix[i].units * kMatrixRows * (i == kGateUp ? 2 : 1) : 0);
  }
  mail.weights = place(static_cast<std::int64_t>(a.heads) * a.max_slices * 6);
  const std::int64_t parts = static_cast<std::int64_t>(a.heads) * (kSegments + a.max_spans);
  mail.part_states = place(parts * 2);
  mail.part_outs = place(parts * s.head_dim);
  mail.half = packets;
  return a;
}

DecodeTable table_of(const DecodeArguments& a, const DecodeLayersParams<Bf16>& p,
                     const DecodeLayer<Bf16>& layer) {
  const LlmShape& s = p.shape;
  DecodeTable t{};
  const auto matrix = [&](DecodeStage stage, const Bf16* rows, std::int64_t count, std::int64_t k) {
    const int gathered = a.matrix[stage].gathered;
    return sliced_matrix_map(rows, count, k, kMatrixRows / gathered, gathered);
  };
  t.matrix[kJoint] = matrix(kJoint, layer.joint, joint_rows(s), s.hidden);
  t.matrix[kOutput] = matrix(kOutput, layer.output, s.hidden, s.q_width());
  t.matrix[kGateUp] = matrix(kGateUp, layer.gate_up, 2 * s.intermediate, s.hidden);
  t.matrix[kDown] = matrix(kDown, layer.down, s.hidden, s.intermediate);
  const auto cache = [&](const Bf16* rows, std::int64_t count) {
    return cache_map(rows != nullptr ? rows : layer.k, std::max<std::int64_t>(count, 1),
                     s.num_kv_heads, s.head_dim, kTileKeys);
  };
  t.k = cache(layer.k, p.cache_rows);
  t.v = cache(layer.v, p.cache_rows);
  t.k_cmp = cache(layer.k_cmp, p.compressed_rows);
  t.v_cmp = cache(layer.v_cmp, p.compressed_rows);
  t.post_norm = layer.post_norm;
  t.next_norm = layer.next_norm;
  t.compress_key = layer.compress_key;
  t.compress_value = layer.compress_value;
  t.intra_block_pe = layer.intra_block_pe;
  t.pooled_k = layer.k_raw != nullptr ? layer.k_raw : layer.k;
  t.pooled_v = layer.v;
  t.k_tree = layer.k_tree;
  t.v_tree = layer.v_tree;
  t.k_raw_tree = layer.k_raw_tree;
  t.k_cmp_tree = layer.k_cmp_tree;
  t.v_cmp_tree = layer.v_cmp_tree;
  t.indices = layer.indices;
  t.captured = layer.captured;
  t.routes = layer.indices_in == nullptr ? 1 : 0;
  return t;
}

std::vector<DecodeTable> tables_of(const DecodeLayersParams<Bf16>& p) {
  const DecodeArguments a = arguments_of(p);
  std::vector<DecodeTable> tables;
  for (const DecodeLayer<Bf16>& layer : p.layers) {
    tables.push_back(table_of(a, p, layer));
  }
  return tables;
}

}  // namespace
}  // namespace versieve::kernels
