// The launches of one layer's sparse attention in both forms, with what each thread block loads.
#include <algorithm>
#include <cmath>

#include "model/launch_parts.h"

namespace versieve {
namespace {

constexpr double kSpanKeys = 512.0;         // compressed tokens of a block, vanilla form
constexpr double kCombineElements = 512.0;  // of a block of nsa_combine

}  // namespace

traffic::NsaVerifyShape attention_shape(const StepShape& s, double growth) {
  const LlmShape& t = s.target;
  const double blocks = std::floor(number(s.context_len) / number(t.nsa.sel_block)) + 1.0;
  const double chosen = number(t.nsa.sel_count);
  const bool approx = s.group_mode == GroupMode::kApprox && s.group_size > 1;
  // Representatives are C queries apart, so they share less than neighbours do.
  const double routed =
      approx ? std::ceil(number(s.num_queries) / number(s.group_size)) : number(s.num_queries);
  const double shared =
      approx ? std::max(0.0, 1.0 - number(s.group_size) * (1.0 - s.overlap)) : s.overlap;
  const auto distinct = [&](double queries, double overlap) {
    return s.imposed_chain ? chain_blocks(queries - 1.0, std::min(chosen, blocks), blocks, overlap)
                           : distinct_blocks(queries, chosen, blocks, overlap, growth);
  };
  const double unique = s.unique_blocks > 0.0 ? s.unique_blocks : distinct(routed, shared);
  const double grouped = distinct(number(std::min(s.group_size, s.num_queries)), s.overlap);
  return {.nsa = t.nsa,
          .num_heads = t.num_heads,
          .num_kv_heads = t.num_kv_heads,
          .head_dim = t.head_dim,
          .context_len = s.context_len,
          .num_queries = s.num_queries,
          .element_bytes = s.element_bytes,
          .unique_blocks = unique,
          .group_size = s.group_size,
          .group_mode = s.group_mode,
          .group_blocks = grouped};
}

namespace {

// What traffic.h's unique bytes count and DRAM does not deliver, in tokens of K and V: those that
// the newest selected block still lacks (every query selects it), and those of the window that lie
// in selected blocks: the forced ones, of the others as many as of all blocks.
struct SparedTokens {
  double selected = 0.0;
  double window = 0.0;
};

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

// The five launches of the baseline: a thread block a query and KV head.
void add_vanilla(const traffic::NsaVerifyShape& s, bool reuse, double layers, StepWork& out) {
  const double rows = number(s.num_queries);
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
    out.add(streaming(LaunchKind::kNsaSelect, Phase::kAttention, layers, traffic::nsa_select(s),
                      row_blocks, keys / kElementsPerBlock + chosen));
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
  out.add(streaming(LaunchKind::kNsaCombine, Phase::kAttention, layers, traffic::nsa_combine(s),
                    rows * number(s.num_heads * s.head_dim) / kCombineElements, 1.0));
}

// Launches whose thread blocks load the bytes of several cached terms again and again.
struct FusedLoads {
  double loaded = 0.0;
  double reused = 0.0;
  double blocks = 0.0;
  double steps = 0.0;

  void add(double loads, double unique) {
    loaded += std::max(loads, unique);
    reused += unique;
  }
};

// How a fused launch lies on the chip; kernels/nsa_verify/fused.cu plans the same. A CTA holds up
// to four tiles of 16 rows (queries x heads of a KV head), a cluster of `ranks` CTAs shares out the
// keys.
struct FusedGrid {
  double row_tiles = 1.0;  // of a CTA
  double ranks = 1.0;
  double waves = 1.0;
};

constexpr double kSms = 132.0;             // the chip whose measurements the capacities come from
constexpr double kClustersOfEight = 15.0;  // that it holds at one CTA an SM
constexpr double kMaxRowTiles = 4.0;
constexpr double kMaxRanks = 8.0;
constexpr double kTileKeys = 64.0;
// A CTA's tables, lists, barriers and merges weigh as many tiles of keys, and so many more for each
// row tile: rounded from least-squares fits to the launches of 1,070 points of one H200,
// 2026-11-21.
constexpr double kCtaTiles = 8.0;
constexpr double kRowTileTiles = 2.0;

double power_of_two_from(double x) {
  double power = 1.0;
  while (power < x) {
    power *= 2.0;
  }
  return power;
}

double queries_of_row_tile(const traffic::NsaVerifyShape& s) {
  const double heads = power_of_two_from(number(s.num_heads / s.num_kv_heads));
  return std::max(1.0, traffic::kMmaRows / heads);
}

// `sharing_tiles`: row tiles that share tiles of keys; 0: all of a CTA. `rank_keys`: compressed
// keys whose weights a CTA keeps.
FusedGrid fused_grid(const traffic::NsaVerifyShape& s, double ranks, double sharing_tiles,
                     double rank_keys) {
  FusedGrid grid{.ranks = ranks};
  const double row_tiles = std::ceil(number(s.num_queries) / queries_of_row_tile(s));
  const double heads = number(s.num_kv_heads);
  grid.row_tiles = std::min(kMaxRowTiles, power_of_two_from(row_tiles * heads * ranks / kSms));
  grid.row_tiles = std::max(grid.row_tiles, std::min(sharing_tiles, kMaxRowTiles));
  // Shared memory: states to merge and kept weights a row tile, three stages a team, four at least.
  const double teams =
      sharing_tiles > 0.0 ? grid.row_tiles / std::min(sharing_tiles, grid.row_tiles) : 1.0;
  const double bytes = grid.row_tiles * (18944.0 + 34.0 * rank_keys) +
                       std::max(4.0, 3.0 * teams) * kTileKeys * number(s.head_dim) * 4.0;
  const double ctas_an_sm = bytes <= 113e3 && grid.row_tiles <= 2.0 ? 2.0 : 1.0;
  const double clusters = std::ceil(row_tiles / grid.row_tiles) * heads;
  const double capacity =
      ctas_an_sm * (ranks == kMaxRanks ? kClustersOfEight : std::floor(kSms / ranks));
  grid.waves = std::ceil(clusters / capacity);
  return grid;
}

// Compressed attention: each row tile reads the whole cache, a CTA's share by spans.
FusedLoads route_loads(const traffic::NsaVerifyShape& s, const Traffic& unique, bool with_weights) {
  const std::int64_t compressed = compressed_count(s.nsa, s.context_len);
  const double spans = traffic::nsa_route_spans(compressed);
  const double ranks = with_weights ? std::clamp(spans, 1.0, kMaxRanks) : kMaxRanks;
  // A span goes to one rank whole.
  const double keys = std::max(number(compressed) / ranks,
                               compressed > 1024 ? 512.0 : std::min(128.0, number(compressed)));
  const FusedGrid grid = fused_grid(s, ranks, 0.0, with_weights ? keys : 0.0);
  const double tiles = std::ceil(number(s.num_queries) / (queries_of_row_tile(s) * grid.row_tiles));
  const double cached = unique.read_bytes[static_cast<std::size_t>(TrafficTerm::kCompressedCache)];
  FusedLoads loads;
  loads.add(tiles * cached, cached);
  loads.blocks = grid.waves * kSms;
  loads.steps = kCtaTiles + kRowTileTiles * grid.row_tiles + keys / kTileKeys;
  return loads;
}

// Selected blocks once a group, window once for those who share it; segments run side by side.
FusedLoads attend_loads(const traffic::NsaVerifyShape& s, const Traffic& unique) {
  const double kv = 2.0 * number(s.num_kv_heads * s.head_dim * s.element_bytes);
  const auto read = [&](TrafficTerm term) {
    return unique.read_bytes[static_cast<std::size_t>(term)];
  };
  const double group_keys =
      std::min(s.blocks_of_group() * number(s.nsa.sel_block), number(s.context_len));
  const double sharing = std::ceil(number(s.num_queries) / traffic::nsa_window_sharers(s));
  FusedLoads loads;
  loads.add(s.group_count() * group_keys * kv, read(TrafficTerm::kSelectedBlocks));
  loads.add(sharing * read(TrafficTerm::kWindow), read(TrafficTerm::kWindow));
  const double tile_queries = queries_of_row_tile(s);
  const double group = number(s.group_size);
  const double sharing_tiles = std::max(1.0, std::floor(group / tile_queries));
  const FusedGrid grid = fused_grid(s, kMaxRanks, sharing_tiles, 0.0);
  // Groups smaller than a row tile go through it one after the other.
  const double groups =
      std::max(1.0, std::min(tile_queries, number(s.num_queries)) / std::min(group, tile_queries));
  const double selected = groups * group_keys / kTileKeys / traffic::kSelectedSegments;
  const double window = number(s.nsa.window) / kTileKeys / traffic::kWindowSegments + 1.5;
  loads.blocks = grid.waves * kSms;
  loads.steps = kCtaTiles + kRowTileTiles * grid.row_tiles + std::max(selected, window);
  return loads;
}

LaunchWork fused(LaunchKind kind, double layers, const traffic::NsaVerifyShape& s,
                 const Traffic& traffic, const FusedLoads& loads) {
  LaunchWork work = streaming(kind, Phase::kAttention, layers, traffic, loads.blocks, loads.steps);
  work.loaded = loads.loaded;
  work.reused = loads.reused;
  if (kind != LaunchKind::kNsaRoute) {
    const double kv = 2.0 * number(s.num_kv_heads * s.head_dim * s.element_bytes);
    const SparedTokens spared = spared_tokens(s);
    spare(TrafficTerm::kSelectedBlocks, spared.selected * kv, work);
    spare(TrafficTerm::kWindow, spared.window * kv, work);
  }
  work.reuse_distance = work.working_set;
  work.handover_distance = 0.0;  // partial results are merged within the launch
  work.dependent = true;
  return work;
}

void add_fused(const traffic::NsaVerifyShape& s, bool reuse, double layers, StepWork& out) {
  if (!reuse) {
    const Traffic route = traffic::nsa_route(s);
    const Traffic attend = traffic::nsa_attend(s);
    out.add(fused(LaunchKind::kNsaRoute, layers, s, route, route_loads(s, route, true)));
    out.add(fused(LaunchKind::kNsaAttend, layers, s, attend, attend_loads(s, attend)));
    return;
  }
  const Traffic traffic = traffic::nsa_reuse(s);
  FusedLoads loads = attend_loads(s, traffic);
  const FusedLoads spans = route_loads(s, traffic, false);
  loads.loaded += spans.loaded;
  loads.reused += spans.reused;
  loads.steps += spans.steps - kCtaTiles;
  out.add(fused(LaunchKind::kNsaReuse, layers, s, traffic, loads));
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
    add_fused(s, reuse, layers, out);
  }
  for (std::size_t i = first; i < out.count; ++i) {
    out.work[i].layer = reuse ? LayerKind::kReuse : LayerKind::kRefresh;
  }
}

}  // namespace versieve
