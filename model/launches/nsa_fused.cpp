#include "model/launches/nsa_fused.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/nsa_vanilla.h"

namespace versieve {
namespace traffic {
namespace {

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
  t.read(TrafficTerm::kCompressedCache, keys * s.kv_bytes());
  t.read(TrafficTerm::kQueryOutput, s.query_bytes());
  add_partials(s, nsa_compressed_parts(s, segments), t);
  t.flops = s.attention_flops(keys);
  return t;
}

// Selection, window, gates and the one write of the output.
Traffic fused_branches(const NsaVerifyShape& s) {
  const double window = static_cast<double>(std::min(s.nsa.window, s.context_len));
  const double block = static_cast<double>(s.nsa.sel_block);
  Traffic t = nsa_selected(s);
  t.write_bytes.fill(0.0);
  t.read(TrafficTerm::kWindow, window * s.kv_bytes());
  t.read(TrafficTerm::kScores, s.index_bytes());
  t.read(TrafficTerm::kQueryOutput,
         static_cast<double>(3 * s.num_queries * s.num_heads * s.element_bytes));
  add_partials(s, kSelectedSegments + kWindowSegments, t);
  t.write(TrafficTerm::kQueryOutput, s.query_bytes());
  t.flops = s.attention_flops(s.blocks_of_group() * block) *
                padded_rows(s, static_cast<double>(s.group_size)) +
            s.attention_flops(window) * padded_rows(s, nsa_window_sharers(s));
  return t;
}

}  // namespace

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
  const double groups = ctas * static_cast<double>(s.num_kv_heads * s.requests);
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

Traffic nsa_route(const NsaVerifyShape& s) {
  const double blocks = s.block_count();
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
  t.write(TrafficTerm::kQueryOutput, s.branch_bytes());
  t.write(TrafficTerm::kScores, s.index_bytes() + (s.importance ? rows * blocks * 4.0 : 0.0));
  return t;
}

Traffic nsa_attend(const NsaVerifyShape& s) {
  Traffic t = fused_branches(s);
  t.read(TrafficTerm::kQueryOutput, s.branch_bytes());
  return t;
}

Traffic nsa_reuse(const NsaVerifyShape& s) {
  Traffic t = routed_attention(s, kSelectedSegments + kWindowSegments);
  t += fused_branches(s);
  // Both parts ask for the queries, which are touched once.
  t.read(TrafficTerm::kQueryOutput, -s.query_bytes());
  return t;
}

}  // namespace traffic

namespace {

// A CTA has four warps: up to four tiles of 16 rows (queries x heads of a KV head) and a part of
// their keys, or fewer row tiles and several parts. Two CTAs share an SM.
constexpr double kTileKeys = static_cast<double>(kFusedTile);
constexpr double kFinishTiles = 2.0;  // the merge of a node, in tiles of keys
constexpr double kLoneCtaTiles =
    1.0;  // a node alone has neither tables nor a tail (fused_lone.cuh)
// Of heads wider than kFusedManyHead, in tiles of narrow ones: a tile; a tile of a team of row
// tiles where CTAs follow one another, since two of these share an SM; blocks that are only waited
// for.
constexpr double kWideTile = 1.3, kWideTeamTile = 0.65, kWidePassed = 0.35;

bool wide(const traffic::NsaVerifyShape& s) {
  return s.head_dim > kFusedManyHead;
}

bool alone(const traffic::NsaVerifyShape& s) {
  return s.num_queries == 1;
}

std::int64_t power_of_two_from(std::int64_t x) {
  std::int64_t power = 1;
  while (power < x) {
    power *= 2;
  }
  return power;
}

// Compressed tokens that a launch reads; one at least where it has shares of them at all.
double compressed_of(const traffic::NsaVerifyShape& s, LaunchKind kind) {
  return kind == LaunchKind::kNsaAttend
             ? 0.0
             : std::max(number(compressed_count(s.nsa, s.context_len)), 1.0);
}

struct FusedGrid {
  std::int64_t tile_queries = 1;  // of a row tile
  bool few_queries = false;       // of those that it has room for
  std::int64_t row_tiles = 1;     // of a CTA
  std::int64_t groups = 1;        // of queries, times KV heads and requests
};

FusedLaunch fused_launch(LaunchKind kind) {
  return kind == LaunchKind::kNsaRoute    ? FusedLaunch::kRoute
         : kind == LaunchKind::kNsaAttend ? FusedLaunch::kAttend
                                          : FusedLaunch::kReuse;
}

FusedGrid fused_grid(const traffic::NsaVerifyShape& s, LaunchKind kind) {
  const std::int64_t queries = fused_tile_queries(traffic::fused_call(s), fused_launch(kind));
  const std::int64_t row_tiles = (s.num_queries + queries - 1) / queries;
  FusedGrid grid{.tile_queries = queries, .few_queries = queries < s.row_tile_queries()};
  grid.row_tiles = std::min<std::int64_t>(kFusedWarps, power_of_two_from(row_tiles));
  grid.groups = (row_tiles + grid.row_tiles - 1) / grid.row_tiles * s.num_kv_heads * s.requests;
  return grid;
}

// Launches whose thread blocks load the bytes of several cached terms again and again.
struct FusedLoads {
  double loaded = 0.0;
  double reused = 0.0;

  void add(double loads, double unique) {
    loaded += std::max(loads, unique);
    reused += unique;
  }
};

// Parts of one group of queries and the tiles of the longest and of all of them.
struct PartTiles {
  double parts = 0.0;
  double longest = 0.0;
  double all = 0.0;
  SelectedSegment selected;

  void add(double count, double tiles) {
    parts += count;
    longest = std::max(longest, tiles);
    all += count * tiles;
  }
};

// Compressed attention: each group of row tiles reads the whole cache, a CTA's share by spans.
void add_spans(const traffic::NsaVerifyShape& s, const FusedGrid& grid, const Traffic& unique,
               PartTiles& tiles, FusedLoads& loads) {
  const std::int64_t keys = compressed_count(s.nsa, s.context_len);
  const double cached = unique.read_bytes[static_cast<std::size_t>(TrafficTerm::kCompressedCache)];
  loads.add(number(grid.groups) / number(s.num_kv_heads * s.requests) * cached, cached);
  const double shares =
      number(fused_share_count(std::max<std::int64_t>(keys, 1), grid.few_queries));
  tiles.add(shares, number(keys) / shares / kTileKeys);
}

// Blocks that `own` queries of a row tile choose, of which a full one chooses row_tile_blocks.
double own_blocks(const traffic::NsaVerifyShape& s, std::int64_t own) {
  const std::int64_t full = std::min({s.group_size, s.row_tile_queries(), s.num_queries});
  const double one = std::min(s.chosen_blocks(), s.row_tile_blocks);
  return own >= full ? s.row_tile_blocks
                     : one + (s.row_tile_blocks - one) * number(own - 1) / number(full - 1);
}

// Selected blocks once a group, window once for those who share it; segments run side by side.
void add_segments(const traffic::NsaVerifyShape& s, const FusedGrid& grid, const Traffic& unique,
                  PartTiles& tiles, FusedLoads& loads) {
  const double kv = 2.0 * number(s.num_kv_heads * s.head_dim * s.element_bytes);
  const auto read = [&](TrafficTerm term) {
    return unique.read_bytes[static_cast<std::size_t>(term)];
  };
  const double block = number(s.nsa.sel_block);
  const double group_keys = std::min(s.blocks_of_group() * block, number(s.context_len));
  loads.add(s.group_count() * group_keys * kv, read(TrafficTerm::kSelectedBlocks));
  loads.add(number(grid.groups) / number(s.num_kv_heads * s.requests) * read(TrafficTerm::kWindow),
            read(TrafficTerm::kWindow));
  // Groups smaller than a row tile go through it one after the other; of larger ones it passes over
  // what others alone have chosen.
  const std::int64_t queries = std::min(grid.tile_queries, s.num_queries);
  const std::int64_t own = std::min(s.group_size, queries);
  const double own_keys = s.row_tile_blocks > 0.0 && s.group_mode == GroupMode::kExact
                              ? std::min(group_keys, own_blocks(s, own) * block)
                              : group_keys;
  tiles.selected = selected_segment(
      {.own = own_keys / kTileKeys,
       .passed = (wide(s) ? kWidePassed : 1.0) * (group_keys - own_keys) / kTileKeys,
       .groups = number((queries + own - 1) / own),
       .reach = std::pow(s.overlap, number(own)),
       .tail = alone(s) ? 0.0 : kFusedSelectedTail,
       .first = alone(s) ? 0.0 : kFusedFirstTail});
  tiles.add(kFusedSelectedSegments, tiles.selected.tiles);
  tiles.longest =
      std::max(tiles.longest, tiles.selected.tiles + kLongestSegment * tiles.selected.spread);
  tiles.add(kFusedWindowSegments,
            window_segment(s.nsa.window, s.context_len) - (alone(s) ? kFusedWindowTail : 0.0));
}

// Tiles of the launch: the longest CTA, or waves of them.
double steps_of(const traffic::NsaVerifyShape& s, LaunchKind kind, const FusedGrid& grid,
                const PartTiles& tiles) {
  const double slots = number(kFusedWarps / grid.row_tiles);
  const double ctas = std::ceil(tiles.parts / slots) * number(grid.groups);
  const double capacity = number(fused_resident(s.head_dim));
  const double merge =
      kFinishTiles *
      std::max(1.0, number(s.requests * s.num_queries * s.num_kv_heads) / 2.0 / capacity);
  // More parts than CTAs on the chip: a CTA works off several, so that tables and first tile of
  // each are paid once.
  if (slots == 1.0 && grid.groups >= kFusedManyGroups && ctas > capacity && !wide(s)) {
    const FusedGroup group = fused_group(s, kind);
    return fused_steps(group, fused_shares(group), tiles.selected) + merge;
  }
  const double start = alone(s) ? kLoneCtaTiles : kFusedKind;
  const double mean = tiles.all / std::max(tiles.parts, 1.0);
  const double tile = wide(s) ? kWideTile : 1.0;
  const bool team = s.group_size > grid.tile_queries;
  const double tile_of_waves = wide(s) && team ? kWideTeamTile : tile;
  return std::max(tile * (start + tiles.longest),
                  tile_of_waves * ctas * (start + mean) / capacity) +
         merge;
}

void add_launch(LaunchKind kind, const traffic::NsaVerifyShape& s, const Traffic& traffic,
                double layers, StepWork& out) {
  const FusedGrid grid = fused_grid(s, kind);
  FusedLoads loads;
  PartTiles tiles;
  if (kind != LaunchKind::kNsaAttend) {
    add_spans(s, grid, traffic, tiles, loads);
  }
  if (kind != LaunchKind::kNsaRoute) {
    add_segments(s, grid, traffic, tiles, loads);
  }
  LaunchWork work = streaming(kind, Phase::kAttention, layers, traffic, number(kFusedSms),
                              steps_of(s, kind, grid, tiles));
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
  if (s.requests > 1) {  // their blocks are in the steps, as waves
    widen(number(s.requests), work);
    work.blocks = number(kFusedSms);
  }
  out.add(work);
}

}  // namespace

FusedGroup fused_group(const traffic::NsaVerifyShape& s, LaunchKind kind) {
  const FusedGrid grid = fused_grid(s, kind);
  const std::int64_t compressed = static_cast<std::int64_t>(compressed_of(s, kind));
  std::int64_t shared = 1;
  const std::int64_t most = grid.few_queries ? s.row_tile_queries() : kFusedMostShared;
  while (shared < most && shared * 2 <= s.group_size) {
    shared *= 2;
  }
  const std::int64_t queries = grid.tile_queries;
  const std::int64_t team =
      queries * std::min(grid.row_tiles, std::max<std::int64_t>(1, shared / queries));
  return {.groups = grid.groups,
          .resident = fused_resident(s.head_dim),
          .shared_sms = fused_resident(s.head_dim) > kFusedSms,
          .joins = (compressed + kFusedJoin - 1) / kFusedJoin,
          .compressed_tiles = std::ceil(number(compressed) / kTileKeys),
          .window_tiles =
              kind != LaunchKind::kNsaRoute ? window_segment(s.nsa.window, s.context_len) : 0.0,
          .queries = {.sel_count = s.nsa.sel_count,
                      .sel_block = s.nsa.sel_block,
                      .num_blocks = s.context_len / s.nsa.sel_block + 1,
                      .tile_queries = queries,
                      .group = std::min(shared, team),
                      .one_list = s.group_mode == GroupMode::kApprox}};
}

void add_nsa_fused(const traffic::NsaVerifyShape& s, bool reuse, double layers, StepWork& out) {
  if (reuse) {
    add_launch(LaunchKind::kNsaReuse, s, traffic::nsa_reuse(s), layers, out);
    return;
  }
  add_launch(LaunchKind::kNsaRoute, s, traffic::nsa_route(s), layers, out);
  add_launch(LaunchKind::kNsaAttend, s, traffic::nsa_attend(s), layers, out);
}

}  // namespace versieve
