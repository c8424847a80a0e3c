#include "model/launches/resa_decode.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/step_shape.h"

namespace versieve {
namespace {

constexpr double kScoresPerStep = 1024.0;
constexpr double kResaClusters = 16.0;  // blocks of a KV head
constexpr double kResaKeysPerStep = 4096.0;
constexpr std::int64_t kFewestBlocks = 16;  // n_min of resa_decode

}  // namespace

std::int64_t resa_active_blocks(std::int64_t context_len, std::int64_t key_block,
                                double active_ratio) {
  const std::int64_t blocks = context_len / key_block + 1;
  const double wanted = std::ceil(number(blocks) * active_ratio - 1e-9);
  return std::min(blocks, std::max(kFewestBlocks, static_cast<std::int64_t>(wanted)));
}

namespace traffic {
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

}  // namespace traffic

void add_resa_decode(const StepShape& s, double layers, StepWork& out) {
  const std::int64_t b = s.dense.key_block;
  const std::int64_t blocks = s.context_len / b + 1;
  const std::int64_t active = resa_active_blocks(s.context_len, b, s.dense.active_ratio);
  const Traffic t = traffic::resa_decode({.num_heads = s.target.num_heads,
                                          .num_kv_heads = s.target.num_kv_heads,
                                          .head_dim = s.target.head_dim,
                                          .context_len = s.context_len,
                                          .key_block = b,
                                          .blocks = blocks,
                                          .active_blocks = active,
                                          .element_bytes = s.element_bytes});
  add_dense_launch(
      streaming(LaunchKind::kResaDecode, Phase::kAttention, layers, t,
                number(s.target.num_kv_heads) * kResaClusters,
                number(blocks) / kScoresPerStep + number(active * b) / kResaKeysPerStep),
      out);
}

}  // namespace versieve
