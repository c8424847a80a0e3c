// Bytes and flops of one NSA layer's launches, in the vanilla form's five and in the fused ones.
#include <algorithm>
#include <cmath>

#include "model/launches/fused_cut.h"
#include "model/launches/fused_parts.h"
#include "model/launches/traffic.h"

namespace versieve::traffic {
namespace {

// K and V of one token, all KV heads.
double kv_bytes(const NsaVerifyShape& s) {
  return static_cast<double>(2 * s.num_kv_heads * s.head_dim * s.element_bytes);
}

double query_bytes(const NsaVerifyShape& s) {
  return static_cast<double>(s.num_queries * s.num_heads * s.head_dim * s.element_bytes);
}

// Score and value products of `keys` keys for every query and head: 2 d multiply-adds each.
double attention_flops(const NsaVerifyShape& s, double keys) {
  return 4.0 * static_cast<double>(s.num_queries * s.num_heads * s.head_dim) * keys;
}

// One branch's output, passed through memory as float.
double branch_bytes(const NsaVerifyShape& s) {
  return static_cast<double>(s.num_queries * s.num_heads * s.head_dim) * 4.0;
}

double score_bytes(const NsaVerifyShape& s) {
  const double compressed = static_cast<double>(compressed_count(s.nsa, s.context_len));
  return static_cast<double>(s.num_queries * s.num_heads) * compressed * 4.0;
}

// Partial softmax states and outputs of `parts` pieces of every row: written, read once to be
// merged.
void add_partials(const NsaVerifyShape& s, double parts, Traffic& t) {
  const double bytes =
      static_cast<double>(s.num_queries * s.num_heads * (fused_width(s.head_dim) + 2)) * parts *
      4.0;
  t.write(TrafficTerm::kQueryOutput, bytes);
  t.read(TrafficTerm::kQueryOutput, bytes);
}

// Rows that the tensor cores compute for every query: head tiles are padded to whole MMA tiles.
double padded_rows(const NsaVerifyShape& s, double queries_of_tile) {
  const double heads = static_cast<double>(s.num_heads / s.num_kv_heads);
  const double rows = queries_of_tile * heads;
  return std::ceil(rows / kMmaRows) * kMmaRows / rows;
}

// Compressed branch of the fused form, up to its output, beside `segments` other parts.
Traffic routed_attention(const NsaVerifyShape& s, double segments) {
  const double keys = static_cast<double>(compressed_count(s.nsa, s.context_len));
  Traffic t;
  t.read(TrafficTerm::kCompressedCache, keys * kv_bytes(s));
  t.read(TrafficTerm::kQueryOutput, query_bytes(s));
  add_partials(s, nsa_compressed_parts(s, segments), t);
  t.flops = attention_flops(s, keys);
  return t;
}

double index_bytes(const NsaVerifyShape& s) {
  return static_cast<double>(s.num_queries * s.num_kv_heads * s.nsa.sel_count) * 4.0;
}

// Selection, window, gates and the one write of the output.
Traffic fused_branches(const NsaVerifyShape& s) {
  const double window = static_cast<double>(std::min(s.nsa.window, s.context_len));
  const double block = static_cast<double>(s.nsa.sel_block);
  Traffic t = nsa_selected(s);
  t.write_bytes.fill(0.0);
  t.read(TrafficTerm::kWindow, window * kv_bytes(s));
  t.read(TrafficTerm::kScores, index_bytes(s));
  t.read(TrafficTerm::kQueryOutput,
         static_cast<double>(3 * s.num_queries * s.num_heads * s.element_bytes));
  add_partials(s, kSelectedSegments + kWindowSegments, t);
  t.write(TrafficTerm::kQueryOutput, query_bytes(s));
  t.flops = attention_flops(s, s.blocks_of_group() * block) *
                padded_rows(s, static_cast<double>(s.group_size)) +
            attention_flops(s, window) * padded_rows(s, nsa_window_sharers(s));
  return t;
}

}  // namespace

double NsaVerifyShape::group_count() const {
  return std::ceil(static_cast<double>(num_queries) / static_cast<double>(group_size));
}

double NsaVerifyShape::chosen_blocks() const {
  const double blocks = static_cast<double>(context_len / nsa.sel_block + 1);
  return std::min(static_cast<double>(nsa.sel_count), blocks);
}

double NsaVerifyShape::blocks_of_group() const {
  if (group_mode == GroupMode::kApprox || group_size == 1) {
    return chosen_blocks();
  }
  const double blocks = static_cast<double>(context_len / nsa.sel_block + 1);
  const double queries = static_cast<double>(std::min(group_size, num_queries));
  const double most = std::min(queries * chosen_blocks(), blocks);
  return group_blocks > 0.0 ? std::min(group_blocks, most) : most;
}

std::int64_t NsaVerifyShape::row_tile_queries() const {
  const double heads =
      std::exp2(std::ceil(std::log2(static_cast<double>(num_heads / num_kv_heads))));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kMmaRows / heads));
}

FusedCall fused_call(const NsaVerifyShape& s) {
  return {.nsa = s.nsa,
          .num_heads = s.num_heads,
          .num_kv_heads = s.num_kv_heads,
          .head_dim = s.head_dim,
          .num_queries = s.num_queries,
          .context_len = s.context_len,
          .num_blocks = s.context_len / s.nsa.sel_block + 1,
          .group_size = s.group_size,
          .group_mode = s.group_mode};
}

double nsa_route_spans(std::int64_t compressed) {
  return static_cast<double>(span_count(compressed));
}

double nsa_compressed_parts(const NsaVerifyShape& s, double segments) {
  const std::int64_t compressed = compressed_count(s.nsa, s.context_len);
  const double spans = nsa_route_spans(compressed);
  const std::int64_t tile_queries =
      fused_tile_queries(fused_call(s), segments > 0.0 ? FusedLaunch::kReuse : FusedLaunch::kRoute);
  const double shares = static_cast<double>(fused_share_count(std::max<std::int64_t>(compressed, 1),
                                                              tile_queries < s.row_tile_queries()));
  const double ctas = std::ceil(static_cast<double>(s.num_queries) /
                                static_cast<double>(tile_queries * kFusedWarps));
  const double groups = ctas * static_cast<double>(s.num_kv_heads);
  const bool whole = s.num_queries > tile_queries * kFusedWarps / 2;
  return whole && s.head_dim <= kFusedManyHead && groups >= static_cast<double>(kFusedManyGroups) &&
                 groups * (shares + segments) > static_cast<double>(fused_resident(s.head_dim))
             ? std::ceil(static_cast<double>(compressed) / static_cast<double>(kFusedJoin))
             : spans;
}

double nsa_window_sharers(const NsaVerifyShape& s) {
  const double heads = static_cast<double>(s.num_heads / s.num_kv_heads);
  return std::max(static_cast<double>(s.group_size), std::floor(kMmaRows / heads));
}

Traffic nsa_compressed(const NsaVerifyShape& s) {
  const double keys = static_cast<double>(compressed_count(s.nsa, s.context_len));
  Traffic t;
  t.read(TrafficTerm::kCompressedCache, keys * kv_bytes(s));
  t.read(TrafficTerm::kQueryOutput, query_bytes(s));
  t.write(TrafficTerm::kQueryOutput, branch_bytes(s));
  t.write(TrafficTerm::kScores, s.routing ? score_bytes(s) : 0.0);
  t.flops = attention_flops(s, keys);
  return t;
}

Traffic nsa_select(const NsaVerifyShape& s) {
  const double blocks = static_cast<double>(s.context_len / s.nsa.sel_block + 1);
  const double rows = static_cast<double>(s.num_queries * s.num_kv_heads);
  Traffic t;
  t.read(TrafficTerm::kScores, score_bytes(s));
  t.write(TrafficTerm::kScores, rows * (blocks + static_cast<double>(s.nsa.sel_count)) * 4.0);
  t.flops = score_bytes(s) / 4.0 * 2.0;
  return t;
}

Traffic nsa_weigh(const NsaVerifyShape& s) {
  const double blocks = static_cast<double>(s.context_len / s.nsa.sel_block + 1);
  const double rows = static_cast<double>(s.num_queries * s.num_kv_heads);
  Traffic t;
  t.read(TrafficTerm::kScores, score_bytes(s));
  t.write(TrafficTerm::kScores, rows * blocks * (s.importance ? 8.0 : 4.0));
  t.flops = score_bytes(s) / 4.0 * 2.0;
  return t;
}

Traffic nsa_trim(const NsaVerifyShape& s) {
  Traffic t;
  t.read(TrafficTerm::kScores, index_bytes(s));
  return t;
}

Traffic nsa_selected(const NsaVerifyShape& s) {
  const double blocks = static_cast<double>(s.context_len / s.nsa.sel_block + 1);
  const double chosen = std::min(static_cast<double>(s.nsa.sel_count), blocks);
  const double unique = s.unique_blocks > 0.0
                            ? s.unique_blocks
                            : std::min(static_cast<double>(s.num_queries) * chosen, blocks);
  Traffic t;
  t.read(TrafficTerm::kSelectedBlocks, std::min(unique * static_cast<double>(s.nsa.sel_block),
                                                static_cast<double>(s.context_len)) *
                                           kv_bytes(s));
  t.read(TrafficTerm::kTreeBuffer, static_cast<double>(s.num_queries) * kv_bytes(s));
  t.read(TrafficTerm::kQueryOutput, query_bytes(s));
  t.write(TrafficTerm::kQueryOutput, branch_bytes(s));
  t.flops = attention_flops(s, chosen * static_cast<double>(s.nsa.sel_block));
  return t;
}

Traffic nsa_window(const NsaVerifyShape& s) {
  const double keys = static_cast<double>(std::min(s.nsa.window, s.context_len));
  Traffic t;
  t.read(TrafficTerm::kWindow, keys * kv_bytes(s));
  t.read(TrafficTerm::kTreeBuffer, static_cast<double>(s.num_queries) * kv_bytes(s));
  t.read(TrafficTerm::kQueryOutput, query_bytes(s));
  t.write(TrafficTerm::kQueryOutput, branch_bytes(s));
  t.flops = attention_flops(s, keys);
  return t;
}

Traffic nsa_combine(const NsaVerifyShape& s) {
  Traffic t;
  t.read(TrafficTerm::kQueryOutput,
         3.0 * branch_bytes(s) +
             static_cast<double>(3 * s.num_queries * s.num_heads * s.element_bytes));
  t.write(TrafficTerm::kQueryOutput, query_bytes(s));
  t.flops = 5.0 * static_cast<double>(s.num_queries * s.num_heads * s.head_dim);
  return t;
}

Traffic nsa_route(const NsaVerifyShape& s) {
  const double blocks = static_cast<double>(s.context_len / s.nsa.sel_block + 1);
  const double rows = static_cast<double>(s.num_queries * s.num_kv_heads);
  Traffic t = routed_attention(s, 0.0);
  // Each query head's softmax weights pass through memory as sums of blocks, and by slice of 16
  // compressed tokens with their reference and the weight that reaches into the next slice.
  const double slices =
      std::ceil(static_cast<double>(compressed_count(s.nsa, s.context_len)) / 16.0);
  const double weights =
      static_cast<double>(s.num_queries * s.num_heads) * slices * (4.0 * 4.0 + 8.0);
  t.write(TrafficTerm::kScores, weights);
  t.read(TrafficTerm::kScores, weights);
  t.write(TrafficTerm::kQueryOutput, branch_bytes(s));
  t.write(TrafficTerm::kScores, index_bytes(s) + (s.importance ? rows * blocks * 4.0 : 0.0));
  return t;
}

Traffic nsa_attend(const NsaVerifyShape& s) {
  Traffic t = fused_branches(s);
  t.read(TrafficTerm::kQueryOutput, branch_bytes(s));
  return t;
}

Traffic nsa_reuse(const NsaVerifyShape& s) {
  Traffic t = routed_attention(s, kSelectedSegments + kWindowSegments);
  t += fused_branches(s);
  // Both parts ask for the queries, which are touched once.
  t.read(TrafficTerm::kQueryOutput, -query_bytes(s));
  return t;
}

}  // namespace versieve::traffic
