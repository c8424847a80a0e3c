#include "model/launches/traffic.h"

#include <algorithm>

namespace versieve::traffic {

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

}  // namespace versieve::traffic
