#include "model/launches/fused_cut.h"

#include <algorithm>
#include <bit>

namespace versieve {
namespace {

constexpr std::int64_t kMostFinished = 4;  // times the nodes that a finishing CTA takes at once
constexpr std::int64_t kTeamUnits = 3;     // of a team at least
constexpr std::int64_t kMostUnits = 12;    // of a CTA where two share an SM
constexpr std::int64_t kMaxShared = 227 * 1024;  // of one CTA on compute capability 9.0
// Of which two CTAs fit an SM: 228 KB less 1 KB that each CTA reserves.
constexpr std::int64_t kHalfShared = 113 * 1024;
// Or three, of nodes alone in launches of several calls: other CTAs load while one begins or ends.
constexpr std::int64_t kThirdShared = 75 * 1024;
constexpr std::int64_t kThirdUnits = 8;  // of a CTA where three share an SM

std::int64_t power_of_two_above(std::int64_t x) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(x)));
}
std::int64_t quotient_up(std::int64_t x, std::int64_t by) {
  return (x + by - 1) / by;
}
int log2_of(std::int64_t power_of_two) {
  return std::countr_zero(static_cast<std::uint64_t>(power_of_two));
}
// A count that a cut holds; what no shared memory has room for stays so.
int held(std::int64_t count) {
  constexpr std::int64_t kMost = 1 << 24;
  return static_cast<int>(std::min(count, kMost));
}

// Whose rows a row tile has room for.
std::int64_t most_tile_queries(const FusedCall& call) {
  return kFusedRows / power_of_two_above(call.num_heads / call.num_kv_heads);
}
// Row tiles of a CTA.
std::int64_t row_tiles_of(const FusedCall& call, std::int64_t tile_queries) {
  return std::min<std::int64_t>(kFusedWarps,
                                power_of_two_above(quotient_up(call.num_queries, tile_queries)));
}
// Groups of queries, times KV heads, of all calls of the launch.
std::int64_t groups_of(const FusedCall& call, std::int64_t tile_queries) {
  const std::int64_t cta_queries = row_tiles_of(call, tile_queries) * tile_queries;
  return quotient_up(call.num_queries, cta_queries) * call.num_kv_heads * call.calls;
}
constexpr std::int64_t kLeastShare = 256;  // compressed tokens of a row tile of few queries

class Planner {
 public:
  Planner(const FusedCall& call, FusedLaunch launch)
      : call_(call),
        launch_(launch),
        queries_(call.num_queries),
        tile_queries_(fused_tile_queries(call, launch)),
        depth_(call.counted ? queries_
                            : std::max<std::int64_t>(
                                  1, std::min(queries_, call.num_blocks * call.nsa.sel_block -
                                                            call.context_len))),
        path_compressed_(quotient_up(depth_, call.nsa.cmp_stride) + 1),
        tails_(quotient_up(tile_queries_, kFusedTailQueries)) {
    // Where row tiles hold few queries no more share loads than one has room for, since a team's
    // list passes by all of them.
    const std::int64_t most = few_queries() ? most_tile_queries(call) : kFusedMostShared;
    while (group_ < most && group_ * 2 <= call.group_size) {
      group_ *= 2;
    }
  }

  std::optional<FusedCut> best() const {
    for (std::int64_t tiles = row_tiles_of(call_, tile_queries_); tiles >= 1; tiles /= 2) {
      const std::int64_t team =
          launch_ == FusedLaunch::kRoute
              ? tiles
              : std::min(tiles, std::max<std::int64_t>(1, group_ / tile_queries_));
      for (const auto& [room, team_tiles] : {std::pair{kThirdShared, team},
                                             {kHalfShared, team},
                                             {kMaxShared, team},
                                             {kMaxShared, tiles}}) {
        if (room == kThirdShared && !shares_sms_by_three()) {
          continue;
        }
        const FusedCut cut = with_row_tiles(tiles, team_tiles, room);
        const bool one_each =
            queries_ > 1 &&  // a lone node leaves room for the launches around it
            (cut.part_blocks * cut.query_tiles + queries_) * kv_heads_of_calls() <= kFusedSms;
        const std::int64_t least = room == kThirdShared ? 2 : least_units(team_tiles);
        if (cut.units >= least * (tiles / team_tiles) && !(one_each && room == kHalfShared)) {
          return cut;
        }
      }
    }
    return {};
  }

 private:
  FusedCut with_row_tiles(std::int64_t tiles, std::int64_t team_tiles, std::int64_t room) const {
    FusedCut cut{.tile_bits = log2_of(tiles),
                 .tile_queries = held(tile_queries_),
                 .slots = held(kFusedWarps / tiles)};
    cut.half = 2 * std::min(tile_queries_, queries_) <= most_tile_queries(call_);
    cut.team_bits = log2_of(team_tiles);
    cut.group = held(std::min<std::int64_t>(group_, cut.team_queries()));
    cut.query_tiles = held(quotient_up(queries_, cut.cta_queries()));
    cut.depth = held(depth_);
    cut.path_compressed = held(path_compressed_);
    cut.announced = fused_announces(launch_, queries_, call_.num_heads, call_.head_dim,
                                    span_count(call_.max_compressed()));
    share_out(cut);
    cut.finish_warps = finish_warps(cut);
    cut.finish_bits = log2_of(finish_nodes(cut));
    lay_out_lists(cut);
    cut.map_words = held(map_words(cut));
    fit_units(room, cut);
    return cut;
  }

  // A team's ring holds a tile's keys, its values and the next keys, and at once all keys of a
  // slice of the tail: committed rows and the tree's; one more where row tiles share it.
  std::int64_t least_units(std::int64_t team_tiles) const {
    return std::max(kTeamUnits, tree_units() + 1 + (team_tiles > 1 ? 1 : 0));
  }
  std::int64_t tree_units() const { return quotient_up(queries_, kFusedTile); }

  bool few_queries() const { return tile_queries_ < most_tile_queries(call_); }
  std::int64_t resident_ctas() const { return fused_resident(call_.head_dim); }
  // A lone node's warps take a tile's keys, then its values: two units.
  bool shares_sms_by_three() const {
    return call_.calls > 1 && queries_ == 1 && call_.head_dim <= kFusedManyHead;
  }
  std::int64_t kv_heads_of_calls() const { return call_.num_kv_heads * call_.calls; }
  std::int64_t segments() const { return launch_ == FusedLaunch::kRoute ? 0 : kFusedSegments; }

  std::int64_t select_bytes(std::int64_t nodes) const {
    return kFusedFinishRows * 8 +
           nodes * fused_select_words(call_.num_blocks, call_.nsa.sel_count) * 4;
  }

  // All of a CTA's where kernels have registers for it (kernels/nsa_verify/fused_attend.cuh), else
  // those that work.
  int finish_warps(const FusedCut& cut) const {
    const bool narrow = call_.head_dim <= kFusedManyHead;
    const bool all =
        queries_ > 1 && (launch_ == FusedLaunch::kRoute ||
                         (narrow && (cut.many || (launch_ == FusedLaunch::kAttend && !cut.half))));
    return all ? 2 * kFusedWarps : kFusedWarps;
  }

  // Whether two nodes share a finishing CTA of nsa_route rather than start behind the working CTAs:
  // its threads, four blocks each, take all blocks of both at once, and a node alone would have too
  // many of them to be ranked by counting.
  bool pairs(const FusedCut& cut) const {
    constexpr std::int64_t kThreads = 2 * kFusedWarps * 32;
    const std::int64_t ctas =
        (std::int64_t{cut.part_blocks} * cut.query_tiles + queries_) * kv_heads_of_calls();
    return launch_ == FusedLaunch::kRoute && call_.head_dim <= kFusedManyHead &&
           call_.num_blocks > kFusedMostCounted && 2 * call_.num_blocks <= 4 * kThreads &&
           ctas > resident_ctas();
  }

  // As many as the warps of a finishing CTA take at once, or more where the finishing CTAs would
  // not fit the chip at once.
  std::int64_t finish_nodes(const FusedCut& cut) const {
    const std::int64_t cta_queries = cut.cta_queries();
    const bool routes = launch_ == FusedLaunch::kRoute;
    const std::int64_t rows = 2 * cut.finish_warps;
    const std::int64_t at_once =
        routes ? 1
               : std::clamp<std::int64_t>(rows * most_tile_queries(call_) / kFusedRows, 1,
                                          cta_queries);
    std::int64_t nodes = at_once;
    while (nodes * 2 <= cta_queries && nodes < kMostFinished * at_once &&
           ((nodes == 1 && pairs(cut)) ||
            quotient_up(queries_, nodes) * kv_heads_of_calls() > resident_ctas()) &&
           !(routes && select_bytes(nodes * 2) > kHalfShared)) {
      nodes *= 2;
    }
    return nodes;
  }

  // One part a slot, or several where such slots would not fit the chip at once. Where there are
  // many groups the few tokens of the tree get no share of their own.
  void share_out(FusedCut& cut) const {
    const std::int64_t groups = cut.query_tiles * kv_heads_of_calls();
    const bool many =
        cut.slots == 1 && groups >= kFusedManyGroups && call_.head_dim <= kFusedManyHead;
    const std::int64_t tokens =
        many ? compressed_count(call_.nsa, call_.context_len) : call_.max_compressed();
    cut.ranks =
        launch_ == FusedLaunch::kAttend ? 0 : held(fused_share_count(tokens, few_queries()));
    if (many && groups * (cut.ranks + segments()) > resident_ctas()) {
      join_parts(groups, tokens, cut);
      return;
    }
    cut.part_blocks = held(quotient_up(cut.ranks + segments(), cut.slots));
  }

  // Which CTAs run several parts: model/launches/fused_parts.h.
  void join_parts(std::int64_t groups, std::int64_t tokens, FusedCut& cut) const {
    const NsaGeometry& nsa = call_.nsa;
    const std::int64_t joins = launch_ == FusedLaunch::kAttend
                                   ? 0
                                   : std::max<std::int64_t>(1, quotient_up(tokens, kFusedJoin));
    const FusedShares shares = fused_shares(
        {.groups = groups,
         .resident = resident_ctas(),
         .shared_sms = resident_ctas() > kFusedSms,
         .joins = joins,
         .compressed_tiles = static_cast<double>(quotient_up(tokens, kFusedTile)),
         .window_tiles = segments() > 0 ? window_segment(nsa.window, call_.context_len) : 0.0,
         .queries = {.sel_count = nsa.sel_count,
                     .sel_block = nsa.sel_block,
                     .num_blocks = call_.num_blocks,
                     .tile_queries = tile_queries_,
                     .group = cut.group,
                     .one_list = call_.group_mode == GroupMode::kApprox}});
    cut.many = true;
    cut.joined = joins > 0;
    cut.ranks = shares.ranks;
    cut.part_blocks = shares.ctas;
    std::copy(shares.segment_end.begin(), shares.segment_end.end(), std::begin(cut.segment_ends));
    std::copy(shares.order.begin(), shares.order.end(), std::begin(cut.slot_order));
    for (int slot = 0; slot < kFusedSlots; ++slot) {
      const SlotParts parts = cut.parts_of(slot);
      cut.slot_segments = std::max({cut.slot_segments, parts.window.to - parts.window.from,
                                    parts.selected.to - parts.selected.from});
    }
  }

  // As many units as the room allows beside lists, bit maps and tables; none: it does not fit.
  void fit_units(std::int64_t of_cta, FusedCut& cut) const {
    const std::int64_t room = of_cta - (call_.calls > 1 ? kFusedCallBytes : 0);
    const std::int64_t lists = std::int64_t{cut.list_entries} * kFusedEntryBytes;
    const std::int64_t fixed =
        cut.slots * (lists + (std::int64_t{cut.unit_entries} + cut.map_words) * 4) +
        kFusedReadyBytes + 16 +
        fused_table_bytes(queries_, cut.cta_queries(), depth_, path_compressed_);
    const std::int64_t unit = kFusedTile * fused_width(call_.head_dim) * 2 + kFusedUnitBarrierBytes;
    const std::int64_t teams = cut.row_tiles() / cut.team_tiles();
    const std::int64_t most = of_cta == kThirdShared  ? kThirdUnits
                              : of_cta == kHalfShared ? kMostUnits
                                                      : 2 * kMostUnits;
    const std::int64_t units = room > fixed ? (room - fixed) / unit : 0;
    cut.units = held(std::min(units, most) / cut.slots / teams * teams);
    cut.shared_bytes =
        held(std::max(cut.slots * cut.units * unit + fixed,
                      launch_ == FusedLaunch::kRoute ? select_bytes(cut.finish_nodes()) : 0));
    if (cut.shared_bytes > room) {
      cut.units = 0;
    }
  }

  std::int64_t map_words(const FusedCut& cut) const {
    return launch_ == FusedLaunch::kRoute ? 0
                                          : std::int64_t{cut.cta_queries()} * cut.slot_segments *
                                                fused_map_words(call_.num_blocks);
  }

  // Lists of spans, of the window, of selected blocks; each team of a slot has one of those.
  void lay_out_lists(FusedCut& cut) const {
    const std::int64_t teams = cut.row_tiles() / cut.team_tiles();
    const std::int64_t slices = std::max(depth_, path_compressed_) / kFusedSlice + 2;
    const std::array<std::int64_t, kFusedKinds> entries = list_entries(cut);
    for (std::size_t kind = 0; kind < entries.size(); ++kind) {
      // Two units an entry, or a tail slice's all.
      const std::int64_t lists = kind + 1 == entries.size() ? teams : 1;
      const std::int64_t units =
          2 * entries[kind] + (entries[kind] > 0 ? lists * slices * 2 * (tree_units() + 1) : 0);
      cut.list_starts[kind] = cut.many ? cut.list_entries : 0;
      cut.unit_starts[kind] = cut.many ? cut.unit_entries : 0;
      cut.list_entries = std::max(cut.list_entries, held(cut.list_starts[kind] + entries[kind]));
      cut.unit_entries = std::max(cut.unit_entries, held(cut.unit_starts[kind] + units));
    }
  }

  // All blocks of a list may fall into one slot's segments. Of compressed tokens the longest share:
  // an even one and the span or join that its end falls into.
  std::array<std::int64_t, kFusedKinds> list_entries(const FusedCut& cut) const {
    const std::int64_t tails = tails_ * cut.row_tiles();
    const std::int64_t tokens = call_.max_compressed();
    const std::int64_t share =
        cut.ranks == 0 ? 0
                       : std::min(tokens, quotient_up(tokens, cut.ranks) +
                                              (cut.joined ? kFusedJoin : kFusedLongSpan));
    const std::int64_t compressed =
        cut.ranks == 0 ? 0 : share / kFusedTile + 2 + (path_compressed_ / kFusedSlice + 2) * tails;
    if (launch_ == FusedLaunch::kRoute) {
      return {compressed, 0, 0};
    }
    const NsaGeometry& nsa = call_.nsa;
    const std::int64_t window = std::min(nsa.window, call_.context_len) + depth_;
    const std::int64_t chunks =
        cut.slot_segments * (window / kFusedTile / kFusedWindowSegments + 3);
    const std::int64_t selected =
        cut.cta_queries() * nsa.sel_count * quotient_up(nsa.sel_block, kFusedTile);
    const std::int64_t ends = (depth_ / kFusedSlice + 2) * tails;
    return {compressed, chunks + ends, selected + ends};
  }

  const FusedCall& call_;
  FusedLaunch launch_;
  std::int64_t queries_, tile_queries_, depth_, path_compressed_, tails_, group_ = 1;
};

}  // namespace

std::int64_t fused_width(std::int64_t head_dim) {
  return head_dim <= 64 ? 64 : 128;
}

std::int64_t fused_resident(std::int64_t head_dim) {
  return kFusedSms * (fused_width(head_dim) == 64 ? 2 : 1);
}

std::int64_t fused_map_words(std::int64_t num_blocks) {
  return (num_blocks / kFusedSelectedSegments + 32) / 32;
}

std::int64_t fused_table_bytes(std::int64_t nodes, std::int64_t cta_queries, std::int64_t depths,
                               std::int64_t paths) {
  return cta_queries * 4 + (nodes + 1) / 2 * 8 + cta_queries * (depths + paths) * 2;
}

std::int64_t FusedCall::max_compressed() const {
  const std::int64_t most = context_len + num_queries;
  return compressed_count(nsa, counted ? most : std::min(most, num_blocks * nsa.sel_block));
}

std::int64_t FusedCall::max_slices() const {
  return std::max(quotient_up(max_compressed(), kFusedSlice), quotient_up(num_blocks, 4));
}

std::int64_t fused_share_count(std::int64_t tokens, bool few_queries) {
  const std::int64_t most =
      few_queries ? std::max<std::int64_t>(2, quotient_up(tokens, kLeastShare)) : kMaxFusedRanks;
  return std::clamp<std::int64_t>(span_count(tokens), 1,
                                  std::min<std::int64_t>(most, kMaxFusedRanks));
}

std::int64_t FusedCut::share_start(std::int64_t rank, std::int64_t tokens) const {
  if (joined) {
    return joined_start(rank, tokens);
  }
  std::int64_t span = 0;
  // A span goes where its middle falls.
  while (span < span_count(tokens) &&
         (span_start(span) + std::min(span_start(span + 1), tokens)) * ranks < 2 * rank * tokens) {
    ++span;
  }
  return span;
}

std::int64_t fused_tile_queries(const FusedCall& call, FusedLaunch launch) {
  const std::int64_t most = most_tile_queries(call);
  const bool one_list = call.group_mode == GroupMode::kApprox && call.group_size > 1;
  if (launch == FusedLaunch::kRoute || call.num_queries == 1 || call.head_dim > kFusedManyHead ||
      one_list) {
    return most;
  }
  const std::int64_t tokens = call.max_compressed();
  const std::int64_t shares = launch == FusedLaunch::kAttend ? 0 : fused_share_count(tokens, true);
  for (std::int64_t queries = 1; queries < most; queries *= 2) {
    if (groups_of(call, queries) * (shares + kFusedSegments) <= fused_resident(call.head_dim)) {
      return queries;
    }
  }
  // Or half as many, several parts a CTA, while shares are no longer than others are.
  const bool halved = most > 1 && groups_of(call, most) < kFusedManyGroups &&
                      groups_of(call, most / 2) >= kFusedManyGroups &&
                      tokens <= kMaxFusedRanks * kLeastShare;
  return halved ? most / 2 : most;
}

bool fused_announces(FusedLaunch launch, std::int64_t num_queries, std::int64_t num_heads,
                     std::int64_t head_dim, std::int64_t spans) {
  const bool reuses = launch == FusedLaunch::kReuse;
  const std::int64_t parts = kFusedSegments + (reuses ? spans : 0);
  return launch != FusedLaunch::kRoute && fused_width(head_dim) == kFusedManyHead &&
         num_queries <= (reuses ? kMostAnnouncedReuse : kMostAnnouncedRefresh) &&
         (!reuses || spans <= kMostAnnouncedSpans) &&
         num_queries * num_heads * parts * (kFusedManyHead + 2) * 4 <= kFusedPartBytes;
}

std::optional<FusedCut> cut_fused(const FusedCall& call, FusedLaunch launch) {
  return Planner(call, launch).best();
}

}  // namespace versieve
