// The launches of one layer's sparse attention in both forms, with what each thread block loads.
#include <algorithm>
#include <cmath>

#include "model/fused_parts.h"
#include "model/launch_parts.h"

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
  const double grouped = neighbours(number(std::min(s.group_size, s.num_queries)));
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
          .group_blocks = grouped,
          .overlap = s.overlap};
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

// How a fused launch lies on the chip; kernels/nsa_verify/fused_plan.cuh plans the same. A CTA has
// four warps: up to four tiles of 16 rows (queries x heads of a KV head) and a part of their keys,
// or fewer row tiles and several parts. Two CTAs share an SM.
constexpr double kSms = 132.0;  // the chip whose measurements the weights below come from
constexpr double kCtaWarps = 4.0;
constexpr double kCtasOfSm = 2.0;
constexpr double kMaxRanks = 16.0;
constexpr double kManyGroups = 16.0;
constexpr double kTileKeys = 64.0;
// What is not attention, in tiles of keys: tables, lists, first tile and arrival of a CTA; the tail
// of a part that reaches into the draft tree; the merge of a node.
constexpr double kCtaTiles = 4.0;
constexpr double kTailTiles = 3.0;
constexpr double kFinishTiles = 2.0;
// A node alone has neither tables nor a tail (kernels/nsa_verify/fused_lone.cuh).
constexpr double kLoneCtaTiles = 1.0;

double cta_tiles(const traffic::NsaVerifyShape& s) {
  return s.num_queries == 1 ? kLoneCtaTiles : kCtaTiles;
}
double tail_tiles(const traffic::NsaVerifyShape& s) {
  return s.num_queries == 1 ? 0.0 : kTailTiles;
}

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

struct FusedGrid {
  double row_tiles = 1.0;  // of a CTA
  double groups = 1.0;     // of queries, times KV heads
  double ranks = 0.0;      // shares of the compressed tokens
};

FusedGrid fused_grid(const traffic::NsaVerifyShape& s, double compressed) {
  FusedGrid grid;
  const double row_tiles = std::ceil(number(s.num_queries) / queries_of_row_tile(s));
  grid.row_tiles = std::min(kCtaWarps, power_of_two_from(row_tiles));
  grid.groups = std::ceil(row_tiles / grid.row_tiles) * number(s.num_kv_heads);
  if (compressed > 0.0) {
    grid.ranks =
        std::clamp(traffic::nsa_route_spans(static_cast<std::int64_t>(compressed)), 1.0, kMaxRanks);
  }
  return grid;
}

// Parts of one group of queries and the tiles of the longest and of all of them.
struct PartTiles {
  double parts = 0.0;
  double longest = 0.0;
  double all = 0.0;

  void add(double count, double tiles) {
    parts += count;
    longest = std::max(longest, tiles);
    all += count * tiles;
  }
};

// Thread blocks and their steps, so that waves of CTAs and the longest of one both count.
void place(const traffic::NsaVerifyShape& s, const FusedGrid& grid, const PartTiles& tiles,
           const FusedSegments& segments, FusedLoads& loads) {
  const double slots = kCtaWarps / grid.row_tiles;
  const double ctas = std::ceil(tiles.parts / slots) * grid.groups;
  const double capacity = kSms * (s.head_dim <= 64 ? kCtasOfSm : kCtasOfSm / 2.0);
  const double mean = tiles.all / std::max(tiles.parts, 1.0);
  // More parts than CTAs on the chip: a CTA works off several, so that tables and first tile of
  // each are paid once.
  const bool many = slots == 1.0 && grid.groups >= kManyGroups && ctas > capacity;
  const double work = ctas * (cta_tiles(s) + mean) / capacity;
  const double nodes = number(s.num_queries * s.num_kv_heads);
  loads.blocks = kSms;
  loads.steps = (many ? fused_time(fused_group(s, grid.row_tiles, grid.groups, segments)).steps
                      : std::max(cta_tiles(s) + tiles.longest, work)) +
                kFinishTiles * std::max(1.0, nodes / 2.0 / capacity);
}

// Compressed attention: each group of row tiles reads the whole cache, a CTA's share by spans.
void add_spans(const traffic::NsaVerifyShape& s, const FusedGrid& grid, const Traffic& unique,
               PartTiles& tiles, FusedSegments& segments, FusedLoads& loads) {
  const double keys = number(compressed_count(s.nsa, s.context_len));
  segments.compressed = keys;
  const double cached = unique.read_bytes[static_cast<std::size_t>(TrafficTerm::kCompressedCache)];
  loads.add(grid.groups / number(s.num_kv_heads) * cached, cached);
  if (grid.ranks > 0.0) {
    tiles.add(grid.ranks, keys / grid.ranks / kTileKeys);
  }
}

// Standard deviation of a segment's tiles. A list's blocks fall into the six segments by their
// number modulo six, as if thrown; the lists of neighbouring groups, which one row tile runs
// through one after the other, fall alike as far as they overlap, so that they do not even out.
double segment_spread(const traffic::NsaVerifyShape& s, double groups, double group_keys) {
  constexpr double kShare = 1.0 / traffic::kSelectedSegments;
  const double list = group_keys / kTileKeys * kShare * (1.0 - kShare);  // variance of one
  const double reach = std::pow(s.overlap, number(std::min(s.group_size, s.num_queries)));
  double pairs = 0.0;  // ordered pairs of groups, weighed by what they share
  double shared = 1.0;
  for (double apart = 1.0; apart < groups; apart += 1.0) {
    shared *= reach;
    pairs += 2.0 * (groups - apart) * shared;
  }
  return std::sqrt(list * (groups + pairs));
}

// Selected blocks once a group, window once for those who share it; segments run side by side.
void add_segments(const traffic::NsaVerifyShape& s, const FusedGrid& grid, const Traffic& unique,
                  PartTiles& tiles, FusedSegments& segments, FusedLoads& loads) {
  const double kv = 2.0 * number(s.num_kv_heads * s.head_dim * s.element_bytes);
  const auto read = [&](TrafficTerm term) {
    return unique.read_bytes[static_cast<std::size_t>(term)];
  };
  const double group_keys =
      std::min(s.blocks_of_group() * number(s.nsa.sel_block), number(s.context_len));
  loads.add(s.group_count() * group_keys * kv, read(TrafficTerm::kSelectedBlocks));
  loads.add(grid.groups / number(s.num_kv_heads) * read(TrafficTerm::kWindow),
            read(TrafficTerm::kWindow));
  const double tile_queries = queries_of_row_tile(s);
  // Groups smaller than a row tile go through it one after the other.
  const double groups = std::max(1.0, std::min(tile_queries, number(s.num_queries)) /
                                          std::min(number(s.group_size), tile_queries));
  segments.selected_tiles =
      groups * group_keys / kTileKeys / traffic::kSelectedSegments + tail_tiles(s) / 2.0;
  segments.window_tiles =
      number(s.nsa.window) / kTileKeys / traffic::kWindowSegments + tail_tiles(s);
  segments.selected_spread = segment_spread(s, groups, group_keys);
  tiles.add(traffic::kSelectedSegments, segments.selected_tiles);
  tiles.longest =
      std::max(tiles.longest, segments.selected_tiles + kLongestOfSix * segments.selected_spread);
  tiles.add(traffic::kWindowSegments, segments.window_tiles);
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
  work.handover_distance = 0.5 * traffic.total();  // of partial results, on average
  work.dependent = true;
  return work;
}

void add_fused(const traffic::NsaVerifyShape& s, bool reuse, double layers, StepWork& out) {
  const double compressed = number(compressed_count(s.nsa, s.context_len));
  if (!reuse) {
    const Traffic route = traffic::nsa_route(s);
    FusedLoads route_loads;
    PartTiles route_tiles;
    const FusedGrid route_grid = fused_grid(s, std::max(compressed, 1.0));
    FusedSegments route_segments;
    add_spans(s, route_grid, route, route_tiles, route_segments, route_loads);
    place(s, route_grid, route_tiles, route_segments, route_loads);
    out.add(fused(LaunchKind::kNsaRoute, layers, s, route, route_loads));
  }
  const Traffic attend = reuse ? traffic::nsa_reuse(s) : traffic::nsa_attend(s);
  FusedLoads loads;
  PartTiles tiles;
  const FusedGrid grid = fused_grid(s, reuse ? std::max(compressed, 1.0) : 0.0);
  FusedSegments segments;
  if (reuse) {
    add_spans(s, grid, attend, tiles, segments, loads);
  }
  add_segments(s, grid, attend, tiles, segments, loads);
  place(s, grid, tiles, segments, loads);
  out.add(fused(reuse ? LaunchKind::kNsaReuse : LaunchKind::kNsaAttend, layers, s, attend, loads));
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
