#include "model/traffic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace versieve {

const char* name_of(TrafficTerm term) {
  switch (term) {
    case TrafficTerm::kCompressedCache:
      return "compressed";
    case TrafficTerm::kSelectedBlocks:
      return "selected";
    case TrafficTerm::kWindow:
      return "window";
    case TrafficTerm::kTreeBuffer:
      return "tree";
    case TrafficTerm::kQueryOutput:
      return "query_output";
    case TrafficTerm::kScores:
      return "scores";
    case TrafficTerm::kWeights:
      return "weights";
    case TrafficTerm::kDraft:
      return "draft";
    case TrafficTerm::kLogits:
      return "logits";
    case TrafficTerm::kKvAppend:
      return "kv_append";
    case TrafficTerm::kActivations:
      return "activations";
  }
  return "";
}

double Traffic::total_read() const {
  return std::accumulate(read_bytes.begin(), read_bytes.end(), 0.0);
}

double Traffic::total_write() const {
  return std::accumulate(write_bytes.begin(), write_bytes.end(), 0.0);
}

Traffic& Traffic::operator+=(const Traffic& other) {
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    read_bytes[i] += other.read_bytes[i];
    write_bytes[i] += other.write_bytes[i];
  }
  flops += other.flops;
  return *this;
}

namespace traffic {
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
      static_cast<double>(s.num_queries * s.num_heads * (s.head_dim + 2)) * parts * 4.0;
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

double nsa_route_spans(std::int64_t compressed) {
  const double keys = static_cast<double>(compressed);
  return std::ceil(std::min(keys, 1024.0) / 128.0) +
         std::ceil(std::max(keys - 1024.0, 0.0) / 256.0);
}

double nsa_compressed_parts(const NsaVerifyShape& s, double segments) {
  constexpr double kResidentCtas = 264.0;  // two on each of 132 SMs, one if d > 64
  constexpr std::int64_t kMostTiles = 4;   // row tiles of a CTA
  constexpr double kManyGroups = 16.0;
  constexpr double kMostShares = 16.0;
  constexpr double kJoin = 512.0;
  const std::int64_t compressed = compressed_count(s.nsa, s.context_len);
  const double spans = nsa_route_spans(compressed);
  const auto heads = std::bit_ceil(static_cast<std::uint64_t>(s.num_heads / s.num_kv_heads));
  const std::int64_t tile_queries = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kMmaRows) / static_cast<std::int64_t>(heads));
  const double ctas = std::ceil(static_cast<double>(s.num_queries) /
                                static_cast<double>(tile_queries * kMostTiles));
  const double groups = ctas * static_cast<double>(s.num_kv_heads);
  const double resident = s.head_dim <= 64 ? kResidentCtas : kResidentCtas / 2.0;
  const bool whole = s.num_queries > tile_queries * kMostTiles / 2;
  return whole && groups >= kManyGroups &&
                 groups * (std::min(spans, kMostShares) + segments) > resident
             ? std::ceil(static_cast<double>(compressed) / kJoin)
             : spans;
}

double nsa_window_sharers(const NsaVerifyShape& s) {
  const double heads = static_cast<double>(s.num_heads / s.num_kv_heads);
  return std::max(static_cast<double>(s.group_size), std::floor(kMmaRows / heads));
}

Traffic linear(std::int64_t n, std::int64_t k, std::int64_t m, std::int64_t element_bytes,
               TrafficTerm weight_term) {
  Traffic t;
  t.read(weight_term, static_cast<double>(m * k * element_bytes));
  t.read(TrafficTerm::kActivations, static_cast<double>(n * k * element_bytes));
  t.write(TrafficTerm::kActivations, static_cast<double>(n * m * element_bytes));
  t.flops = 2.0 * static_cast<double>(n) * static_cast<double>(m) * static_cast<double>(k);
  return t;
}

Traffic tree_attention(const TreeAttentionShape& s) {
  const double token = static_cast<double>(2 * s.num_kv_heads * s.head_dim * s.element_bytes);
  const double rows = static_cast<double>(s.num_queries * s.num_heads * s.head_dim);
  std::int64_t keys = s.context_len - s.first_position;
  keys = s.window > 0 ? std::min(keys, s.window) : keys;
  Traffic t;
  t.read(s.cache_term, static_cast<double>(keys) * token);
  t.read(TrafficTerm::kTreeBuffer, static_cast<double>(s.num_nodes) * token);
  t.read(TrafficTerm::kQueryOutput, rows * static_cast<double>(s.element_bytes));
  t.write(TrafficTerm::kQueryOutput, rows * static_cast<double>(s.element_bytes));
  t.flops = 4.0 * rows * static_cast<double>(keys);
  return t;
}

Traffic compress(const CompressShape& s) {
  const double token = static_cast<double>(2 * s.num_kv_heads * s.head_dim * s.element_bytes);
  const std::int64_t tokens = s.rows > 0 ? (s.rows - 1) * s.cmp_stride + s.cmp_block : 0;
  Traffic t;
  t.read(TrafficTerm::kKvAppend, static_cast<double>(tokens) * token);
  t.write(TrafficTerm::kKvAppend, static_cast<double>(s.rows) * token);
  t.flops = 5.0 * static_cast<double>(s.rows * s.cmp_block * s.num_kv_heads * s.head_dim);
  return t;
}

Traffic block_keys(std::int64_t layers, std::int64_t blocks, std::int64_t key_block,
                   std::int64_t width, std::int64_t element_bytes) {
  const double block = static_cast<double>(layers * blocks * width * element_bytes);
  Traffic t;
  t.read(TrafficTerm::kKvAppend, block * static_cast<double>(key_block));
  t.write(TrafficTerm::kCompressedCache, 2.0 * block);
  t.flops = 2.0 * static_cast<double>(layers * blocks * key_block * width);
  return t;
}

namespace {

constexpr double kScoreBytes = 4.0;

// Bytes of a key and a value, or of a block's two keys, in all KV heads.
double resa_pair(const ResaShape& s) {
  return static_cast<double>(2 * s.num_kv_heads * s.head_dim * s.element_bytes);
}
double resa_query_bytes(const ResaShape& s) {
  return static_cast<double>(s.num_heads * s.head_dim * s.element_bytes);
}

}  // namespace

Traffic resa_score(const ResaShape& s) {
  const double blocks = static_cast<double>(s.blocks);
  Traffic t;
  t.read(TrafficTerm::kCompressedCache, blocks * resa_pair(s));
  t.read(TrafficTerm::kQueryOutput, resa_query_bytes(s));
  t.write(TrafficTerm::kScores, blocks * static_cast<double>(s.num_kv_heads) * kScoreBytes);
  t.flops = 3.0 * blocks * static_cast<double>(s.num_kv_heads * s.head_dim);
  return t;
}

Traffic resa_select(const ResaShape& s) {
  const double heads = static_cast<double>(s.num_kv_heads);
  Traffic t;
  t.read(TrafficTerm::kScores, static_cast<double>(s.blocks) * heads * kScoreBytes);
  t.write(TrafficTerm::kScores, static_cast<double>(s.active_blocks) * heads * kScoreBytes);
  return t;
}

Traffic resa_attend(const ResaShape& s) {
  const double tokens = static_cast<double>(std::min(s.context_len, s.active_blocks * s.key_block));
  Traffic t;
  t.read(TrafficTerm::kSelectedBlocks, tokens * resa_pair(s));
  t.read(TrafficTerm::kQueryOutput, resa_query_bytes(s));
  t.write(TrafficTerm::kQueryOutput, resa_query_bytes(s));
  t.flops = 4.0 * static_cast<double>(s.num_heads * s.head_dim) * tokens;
  return t;
}

Traffic resa_decode(const ResaShape& s) {
  Traffic t = resa_score(s);
  t += resa_select(s);
  t += resa_attend(s);
  return t;
}

Traffic rectify(const ResaShape& s, std::int64_t tokens) {
  const double pair = static_cast<double>(2 * s.num_kv_heads * s.head_dim * s.element_bytes);
  const double queries = static_cast<double>(tokens * s.num_heads * s.head_dim);
  Traffic t;
  t.read(TrafficTerm::kWindow, static_cast<double>(s.context_len) * pair);
  t.read(TrafficTerm::kQueryOutput, queries * static_cast<double>(s.element_bytes));
  t.write(TrafficTerm::kQueryOutput, queries * static_cast<double>(s.element_bytes));
  t.write(TrafficTerm::kKvAppend, static_cast<double>(tokens) * pair);
  t.flops = 4.0 * queries * static_cast<double>(s.context_len);
  return t;
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

}  // namespace traffic
}  // namespace versieve
