#include "model/fused_parts.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace versieve {
namespace {

constexpr std::int64_t kJoinTiles = 8;
constexpr std::int64_t kMaxRanks = 16;
constexpr std::int64_t kSelectedSegments = 6;
constexpr std::int64_t kWindowSegments = 2;
constexpr std::int64_t kSegments = kSelectedSegments + kWindowSegments;
constexpr std::int64_t kMaxSlots = kMaxRanks + kSegments + 4;
constexpr std::int64_t kJoin = 512;  // compressed tokens whose spans are summed up first
constexpr std::int64_t kTileKeys = 64;
constexpr std::int64_t kMostShared = 8;  // queries that share loads of selected blocks
constexpr std::int64_t kSms = 132;       // the chip that the kernels plan for
// In half tiles, the planner's unit.
constexpr std::int64_t kPlannedTile = 2;
constexpr std::int64_t kTail = 5;    // of a part that reaches into the draft tree
constexpr std::int64_t kStart = 8;   // tables, lists, first tile, store
constexpr std::int64_t kSwitch = 4;  // the next kind of parts

struct Shares {
  std::int64_t ctas = 1;
  std::int64_t ranks = 0;
  std::int64_t joins_each = 0;
  std::array<std::int64_t, kMaxSlots> ends{};  // of each CTA's segments, the window's first
};

enum class Kind { kNone, kShare, kSelected, kWindow };

class Search {
 public:
  explicit Search(const FusedGroup& g) : g_(g) {}

  Shares best() const {
    Shares best;
    std::int64_t least = 0;
    for (std::int64_t each = 1; each == 1 || each < 2 * g_.joins; each *= 2) {
      const std::int64_t ranks = (g_.joins + each - 1) / each;
      const std::int64_t room = std::clamp<std::int64_t>(g_.resident / g_.groups, 1, kMaxRanks);
      for (const std::int64_t ctas : {g_.segments ? room : ranks, ranks + segments()}) {
        if (ranks > std::min(ctas, kMaxRanks)) {
          continue;
        }
        Shares next{.ctas = ctas, .ranks = ranks, .joins_each = std::min(each, g_.joins)};
        const std::int64_t cost = planned(next);
        if (least == 0 || cost < least) {
          least = cost;
          best = next;
        }
      }
    }
    return best;
  }

  double steps(const Shares& s) const {
    const double share =
        std::min(static_cast<double>(s.joins_each * kJoinTiles), g_.compressed_tiles);
    double longest = 0.0;
    double all = 0.0;
    std::int64_t segment = 0;
    for (std::int64_t slot = 0; slot < s.ctas; ++slot) {
      double load = 0.5 * kStart + (slot < s.ranks ? share : 0.0);
      Kind kind = slot < s.ranks ? Kind::kShare : Kind::kNone;
      double selected = 0.0;
      for (; segment < s.ends[static_cast<std::size_t>(slot)]; ++segment) {
        const Kind own = segment < kWindowSegments ? Kind::kWindow : Kind::kSelected;
        load += own == Kind::kWindow ? g_.window_tiles : g_.selected_tiles;
        load += kind != Kind::kNone && kind != own ? 0.5 * kSwitch : 0.0;
        selected += own == Kind::kSelected ? 1.0 : 0.0;
        kind = own;
      }
      // Segments of one list: what one has more the others have less.
      const double spread =
          g_.selected_spread *
          std::sqrt(selected * (kSelectedSegments - selected) / (kSelectedSegments - 1.0));
      longest = std::max(longest, load + kLongestOfSix * spread);
      all += load;
    }
    all += g_.compressed_tiles - static_cast<double>(s.ranks) * share;  // the last one is shorter
    const double groups = static_cast<double>(g_.groups);
    const double resident = static_cast<double>(g_.resident);
    if (groups * static_cast<double>(s.ctas) <= resident) {
      return longest;
    }
    return std::max(longest, (10.0 * groups * all / resident + 5.0 * longest) / 12.0);
  }

 private:
  std::int64_t segments() const { return g_.segments ? kSegments : 0; }

  // The planner's price in twentieths of a tile; fills in who takes which segments.
  std::int64_t planned(Shares& s) const {
    const std::int64_t tiles = static_cast<std::int64_t>(std::ceil(g_.compressed_tiles));
    const std::int64_t share = std::min(s.joins_each * kJoinTiles, tiles) * kPlannedTile;
    std::int64_t low = std::max(s.ranks > 0 ? share : 0, g_.segments ? g_.planned_selected : 0);
    std::int64_t high =
        low + kSegments * (std::max(g_.planned_selected, g_.planned_window) + kSwitch);
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (fits(middle, share, s)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    fits(high, share, s);
    const std::int64_t longest = kStart + high;
    if (g_.groups * s.ctas <= g_.resident) {
      return 12 * longest;
    }
    const std::int64_t all =
        s.ctas * kStart + s.ranks * share +
        (g_.segments ? kSelectedSegments * g_.planned_selected + kWindowSegments * g_.planned_window
                     : 0);
    return 10 * g_.groups * all / g_.resident + 5 * longest;
  }

  bool fits(std::int64_t limit, std::int64_t share, Shares& s) const {
    std::int64_t segment = 0;
    for (std::int64_t slot = 0; slot < s.ctas && slot < kMaxSlots; ++slot) {
      std::int64_t load = slot < s.ranks ? share : 0;
      Kind kind = slot < s.ranks ? Kind::kShare : Kind::kNone;
      while (segment < segments()) {
        const Kind own = segment < kWindowSegments ? Kind::kWindow : Kind::kSelected;
        const std::int64_t more = (own == Kind::kWindow ? g_.planned_window : g_.planned_selected) +
                                  (kind != Kind::kNone && kind != own ? kSwitch : 0);
        if (load + more > limit) {
          break;
        }
        load += more;
        kind = own;
        ++segment;
      }
      s.ends[static_cast<std::size_t>(slot)] = segment;
    }
    return segment == segments();
  }

  const FusedGroup& g_;
};

std::int64_t quotient_up(std::int64_t x, std::int64_t by) {
  return (x + by - 1) / by;
}

}  // namespace

FusedGroup fused_group(const traffic::NsaVerifyShape& s, double row_tiles, double groups,
                       const FusedSegments& segments) {
  const double heads = static_cast<double>(s.num_heads / s.num_kv_heads);
  const std::int64_t tile_queries = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(traffic::kMmaRows / std::exp2(std::ceil(std::log2(heads)))));
  std::int64_t shared = 1;
  while (shared < kMostShared && shared * 2 <= s.group_size) {
    shared *= 2;
  }
  const std::int64_t team =
      tile_queries * std::min(static_cast<std::int64_t>(row_tiles),
                              std::max<std::int64_t>(1, shared / tile_queries));
  const std::int64_t group = std::min(shared, team);
  const std::int64_t more = s.group_mode == GroupMode::kApprox ? 0 : group - 1;
  const std::int64_t blocks = s.nsa.sel_count * (5 + 3 * more) / 5;
  const std::int64_t chunks = std::min(s.nsa.window, s.context_len) / kTileKeys / kWindowSegments;
  return {.groups = std::llround(groups),
          .resident = kSms * (s.head_dim <= 64 ? 2 : 1),
          .joins = quotient_up(std::llround(segments.compressed), kJoin),
          .segments = segments.selected_tiles > 0.0,
          .planned_selected = team / group * blocks * quotient_up(s.nsa.sel_block, kTileKeys) *
                                  kPlannedTile / kSelectedSegments +
                              kTail / 2,
          .planned_window = (chunks + 1) * kPlannedTile + kTail,
          .compressed_tiles = segments.compressed / static_cast<double>(kTileKeys),
          .selected_tiles = segments.selected_tiles,
          .window_tiles = segments.window_tiles,
          .selected_spread = segments.selected_spread};
}

FusedTime fused_time(const FusedGroup& group) {
  const Search search(group);
  const Shares shares = search.best();
  return {shares.ctas, shares.ranks, search.steps(shares)};
}

}  // namespace versieve
