#include "model/launches/nsa_vanilla.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"

namespace versieve {
namespace {

constexpr double kSpanKeys = 512.0;         // compressed tokens of a block, vanilla form
constexpr double kCombineElements = 512.0;  // of a block of nsa_combine

double score_bytes(const traffic::NsaVerifyShape& s) {
  const double compressed = static_cast<double>(compressed_count(s.nsa, s.context_len));
  return static_cast<double>(s.num_queries * s.num_heads) * compressed * 4.0;
}

}  // namespace

namespace traffic {

Traffic nsa_compressed(const NsaVerifyShape& s) {
  const double keys = static_cast<double>(compressed_count(s.nsa, s.context_len));
  Traffic t;
  t.read(TrafficTerm::kCompressedCache, keys * s.kv_bytes());
  t.read(TrafficTerm::kQueryOutput, s.query_bytes());
  t.write(TrafficTerm::kQueryOutput, s.branch_bytes());
  t.write(TrafficTerm::kScores, s.routing ? score_bytes(s) : 0.0);
  t.flops = s.attention_flops(keys);
  return t;
}

Traffic nsa_select(const NsaVerifyShape& s) {
  const double blocks = s.block_count();
  const double rows = static_cast<double>(s.num_queries * s.num_kv_heads);
  Traffic t;
  t.read(TrafficTerm::kScores, score_bytes(s));
  t.write(TrafficTerm::kScores, rows * (blocks + static_cast<double>(s.nsa.sel_count)) * 4.0);
  t.flops = score_bytes(s) / 4.0 * 2.0;
  return t;
}

Traffic nsa_weigh(const NsaVerifyShape& s) {
  const double blocks = s.block_count();
  const double rows = static_cast<double>(s.num_queries * s.num_kv_heads);
  Traffic t;
  t.read(TrafficTerm::kScores, score_bytes(s));
  t.write(TrafficTerm::kScores, rows * blocks * (s.importance ? 8.0 : 4.0));
  t.flops = score_bytes(s) / 4.0 * 2.0;
  return t;
}

Traffic nsa_trim(const NsaVerifyShape& s) {
  Traffic t;
  t.read(TrafficTerm::kScores, s.index_bytes());
  return t;
}

Traffic nsa_selected(const NsaVerifyShape& s) {
  const double blocks = s.block_count();
  const double chosen = std::min(static_cast<double>(s.nsa.sel_count), blocks);
  const double unique = s.unique_blocks > 0.0
                            ? s.unique_blocks
                            : std::min(static_cast<double>(s.num_queries) * chosen, blocks);
  Traffic t;
  t.read(TrafficTerm::kSelectedBlocks, std::min(unique * static_cast<double>(s.nsa.sel_block),
                                                static_cast<double>(s.context_len)) *
                                           s.kv_bytes());
  t.read(TrafficTerm::kTreeBuffer, static_cast<double>(s.num_queries) * s.kv_bytes());
  t.read(TrafficTerm::kQueryOutput, s.query_bytes());
  t.write(TrafficTerm::kQueryOutput, s.branch_bytes());
  t.flops = s.attention_flops(chosen * static_cast<double>(s.nsa.sel_block));
  return t;
}

Traffic nsa_window(const NsaVerifyShape& s) {
  const double keys = static_cast<double>(std::min(s.nsa.window, s.context_len));
  Traffic t;
  t.read(TrafficTerm::kWindow, keys * s.kv_bytes());
  t.read(TrafficTerm::kTreeBuffer, static_cast<double>(s.num_queries) * s.kv_bytes());
  t.read(TrafficTerm::kQueryOutput, s.query_bytes());
  t.write(TrafficTerm::kQueryOutput, s.branch_bytes());
  t.flops = s.attention_flops(keys);
  return t;
}

Traffic nsa_combine(const NsaVerifyShape& s) {
  Traffic t;
  t.read(TrafficTerm::kQueryOutput,
         3.0 * s.branch_bytes() +
             static_cast<double>(3 * s.num_queries * s.num_heads * s.element_bytes));
  t.write(TrafficTerm::kQueryOutput, s.query_bytes());
  t.flops = 5.0 * static_cast<double>(s.num_queries * s.num_heads * s.head_dim);
  return t;
}

}  // namespace traffic

// A thread block a query and KV head.
void add_nsa_vanilla(const traffic::NsaVerifyShape& s, bool reuse, double layers, StepWork& out) {
  const double rows = number(s.num_queries);
  const std::size_t first = out.count;
  const double row_blocks = rows * number(s.num_kv_heads);
  const double blocks = std::floor(number(s.context_len) / number(s.nsa.sel_block)) + 1.0;
  const double chosen = std::min(number(s.nsa.sel_count), blocks);
  const double kv = 2.0 * number(s.num_kv_heads * s.head_dim * s.element_bytes);
  const double keys = number(compressed_count(s.nsa, s.context_len));
  const double window = number(std::min(s.nsa.window, s.context_len));
  const double chosen_keys = std::min(chosen * number(s.nsa.sel_block), number(s.context_len));
  if (keys > 0.0) {
    out.add(reloading(LaunchKind::kNsaCompressed, Phase::kAttention, layers,
                      traffic::nsa_compressed(s), TrafficTerm::kCompressedCache, rows * keys * kv,
                      row_blocks * std::ceil(keys / kSpanKeys),
                      std::min(keys, kSpanKeys) / kKeysPerStep));
  }
  if (!reuse) {
    LaunchWork select =
        streaming(LaunchKind::kNsaSelect, Phase::kAttention, layers, traffic::nsa_select(s),
                  row_blocks, keys / kElementsPerBlock + chosen);
    select.handover_distance = traffic::nsa_compressed(s).total();  // the scores, in their order
    out.add(select);
  }
  const SparedTokens spared = spared_tokens(s);
  LaunchWork selected = reloading(LaunchKind::kNsaSelected, Phase::kAttention, layers,
                                  traffic::nsa_selected(s), TrafficTerm::kSelectedBlocks,
                                  rows * chosen_keys * kv, row_blocks, chosen_keys / kKeysPerStep);
  spare(TrafficTerm::kSelectedBlocks, spared.selected * kv, selected);
  out.add(selected);
  LaunchWork recent =
      reloading(LaunchKind::kNsaWindow, Phase::kAttention, layers, traffic::nsa_window(s),
                TrafficTerm::kWindow, rows * window * kv, row_blocks, window / kKeysPerStep);
  spare(TrafficTerm::kWindow, spared.window * kv, recent);
  out.add(recent);
  LaunchWork combine =
      streaming(LaunchKind::kNsaCombine, Phase::kAttention, layers, traffic::nsa_combine(s),
                rows * number(s.num_heads * s.head_dim) / kCombineElements, 1.0);
  for (std::size_t i = first; i < out.count; ++i) {
    combine.handover_distance += out.work[i].working_set;  // the first branch lies furthest back
  }
  out.add(combine);
}

}  // namespace versieve
