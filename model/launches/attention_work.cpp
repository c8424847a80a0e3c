// The launches of one layer's sparse attention in both forms, with what each thread block loads.
#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"

namespace versieve {
namespace {

constexpr double kSpanKeys = 512.0;         // compressed tokens of a block, vanilla form
constexpr double kCombineElements = 512.0;  // of a block of nsa_combine

}  // namespace

namespace {

// Of a query's distance: how fast the overlap of routed selections decays. Fits 53 approximate
// groups of C = 8 on an H200.
constexpr double kDecayPower = 0.42;
// Representatives (greatest position, lowest row) lie in places closer than C rows.
constexpr double kMeanDistance = 0.75;

// Overlap of the selections of two representatives, C queries apart. What every query selects and
// what two meet by chance is shared at any distance; of the rest, a chain of sets loses the same
// share at each step, routed queries less and less.
double representatives_overlap(const StepShape& s, double chosen, double blocks) {
  const double c = number(s.group_size);
  const double forced =
      std::min(chosen, number(s.target.nsa.init_blocks + s.target.nsa.local_blocks));
  const double chance =
      s.imposed_chain || blocks <= forced ? 0.0 : (chosen - forced) / (blocks - forced);
  const double always = (forced + (chosen - forced) * std::min(1.0, chance)) / chosen;
  if (always >= 1.0) {
    return 1.0;
  }
  const double own = std::clamp((s.overlap - always) / (1.0 - always), 0.0, 1.0);
  const double left = s.imposed_chain ? std::pow(own, kMeanDistance * c)
                                      : std::max(0.0, 1.0 - (1.0 - own) * std::pow(c, kDecayPower));
  return always + (1.0 - always) * left;
}

}  // namespace

traffic::NsaVerifyShape attention_shape(const StepShape& s, double growth) {
  const LlmShape& t = s.target;
  const double blocks = std::floor(number(s.context_len) / number(t.nsa.sel_block)) + 1.0;
  const double chosen = std::min(number(t.nsa.sel_count), blocks);
  const auto neighbours = [&](double queries) {
    return s.imposed_chain ? remembering_chain_blocks(queries - 1.0, chosen, blocks, s.overlap)
                           : distinct_blocks(queries, chosen, blocks, s.overlap, growth);
  };
  const auto distinct = [&] {
    if (s.group_mode != GroupMode::kApprox || s.group_size <= 1) {
      return neighbours(number(s.num_queries));
    }
    const double groups = std::ceil(number(s.num_queries) / number(s.group_size));
    const double shared = representatives_overlap(s, chosen, blocks);
    return s.imposed_chain ? chain_blocks(groups - 1.0, chosen, blocks, shared)
                           : distinct_blocks(groups, chosen, blocks, shared, growth);
  };
  const double unique = s.unique_blocks > 0.0 ? s.unique_blocks : distinct();
  const std::int64_t sharers = std::min(s.group_size, s.num_queries);
  traffic::NsaVerifyShape out = {.nsa = t.nsa,
                                 .num_heads = t.num_heads,
                                 .num_kv_heads = t.num_kv_heads,
                                 .head_dim = t.head_dim,
                                 .context_len = s.context_len,
                                 .num_queries = s.num_queries,
                                 .element_bytes = s.element_bytes,
                                 .unique_blocks = unique,
                                 .group_size = s.group_size,
                                 .group_mode = s.group_mode,
                                 .group_blocks = neighbours(number(sharers)),
                                 .overlap = s.overlap};
  out.row_tile_blocks = neighbours(number(std::min(sharers, out.row_tile_queries())));
  return out;
}

// The newest selected block lacks tokens; of the window some lie in selected blocks: the forced
// ones, of the others as many as of all blocks.
SparedTokens spared_tokens(const traffic::NsaVerifyShape& s) {
  const double block = number(s.nsa.sel_block);
  const double length = number(s.context_len);
  const double blocks = std::floor(length / block) + 1.0;
  const double newest = length - (blocks - 1.0) * block;
  const double unique = std::min(
      s.unique_blocks > 0.0 ? s.unique_blocks : number(s.num_queries) * s.chosen_blocks(), blocks);
  const double window = std::min(number(s.nsa.window), length);
  const double forced = number(s.nsa.init_blocks + s.nsa.local_blocks);
  const double forced_tokens = std::min(window, newest + block * number(s.nsa.local_blocks - 1));
  const double share =
      blocks > forced ? std::clamp((unique - forced) / (blocks - forced), 0.0, 1.0) : 1.0;
  return {.selected = std::max(0.0, std::min(unique * block, length) -
                                        std::min(unique * block - (block - newest), length)),
          .window = forced_tokens + (window - forced_tokens) * share};
}

void spare(TrafficTerm term, double bytes, LaunchWork& work) {
  double& read = work.unique.read_bytes[static_cast<std::size_t>(term)];
  const double less = std::min(bytes, read);
  read -= less;
  work.reused = std::max(0.0, work.reused - less);
  work.working_set = std::max(0.0, work.working_set - less);
}

namespace {

// The five launches of the baseline: a thread block a query and KV head.
void add_vanilla(const traffic::NsaVerifyShape& s, bool reuse, double layers, StepWork& out) {
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

}  // namespace

void add_attention(const traffic::NsaVerifyShape& shape, NsaForm form, bool reuse, double layers,
                   StepWork& out) {
  traffic::NsaVerifyShape s = shape;
  s.routing = !reuse;
  const std::size_t first = out.count;
  if (form == NsaForm::kVanilla) {
    add_vanilla(s, reuse, layers, out);
  } else {
    add_fused_attention(s, reuse, layers, out);
  }
  for (std::size_t i = first; i < out.count; ++i) {
    out.work[i].layer = reuse ? LayerKind::kReuse : LayerKind::kRefresh;
  }
}

}  // namespace versieve
