#include "model/launches/fused_parts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

namespace versieve {
namespace {

constexpr double kTileKeys = 64.0;
constexpr double kJoinTiles = 8.0;  // a join: 512 compressed tokens whose spans are summed up first
constexpr int kMostTurned = 8;      // CTAs of a group whose second half starts turned round

// Chosen so that of the measured cuts the planner takes good ones: 793 of 32 to 128 queries at 4K
// to 64K tokens, reuse and refresh, four overlaps each, on an H200
// (kernels/nsa_verify/MEASURED.md). They meet those times to 7 % (root mean square). In tiles of
// compressed tokens.
constexpr double kOwn = 0.81;                 // a tile of selected blocks
constexpr double kPassed = 0.11;              // one of selected blocks that other row tiles compute
constexpr double kLongest = kLongestSegment;  // of a launch whose CTAs all run at once
constexpr double kLongestOfWaves = 0.77;      // whose CTAs follow one another and even out

// What the cut is chosen by, and what a cut is then said to take. The choice keeps kinds of parts
// apart by more than the second kind costs: selected blocks behind compressed tokens leave DRAM
// idle while all CTAs read those.
struct Prices {
  double next_kind;  // another kind of parts in a CTA
  double alone;      // speed of a CTA that has its SM for itself
};
constexpr Prices kToChoose = {1.5, 1.37};
constexpr Prices kToTell = {kFusedNextKind, 1.25};
// Of the draft tree, likewise: the best of ten pairs measured as cuts.
constexpr double kTailToChoose = 1.6;
constexpr double kFirstTailToChoose = 0.7;

// New in each further query, of the lists that the cut is to be good for.
using Fresh = std::array<double, 2>;
constexpr Fresh kFreshOfMany = {0.8, 0.5};  // groups of this many queries and more
constexpr Fresh kFreshOfFew = {0.5, 0.2};
constexpr std::int64_t kManyQueries = 8;
constexpr double kResolution = 0.25;  // tiles

struct Loads {
  std::array<double, kFusedSlots> tiles{};
  double all = 0.0;
  double longest = 0.0;
};

bool fits_chip(const FusedGroup& g, const FusedShares& s) {
  return g.groups * s.ctas <= g.resident;
}

// Of a kind of parts in a CTA that has `before` to do.
double start_of(double before, const Prices& prices) {
  return before > 0.0 ? prices.next_kind : kFusedKind;
}

Loads loads_of(const FusedGroup& g, const FusedShares& s, const SelectedSegment& segment,
               double share, const Prices& prices) {
  const double over = segment.spread * (fits_chip(g, s) ? kLongest : kLongestOfWaves);
  Loads out;
  int from = 0;
  for (int slot = 0; slot < s.ctas; ++slot) {
    const int to = s.segment_end[static_cast<std::size_t>(slot)];
    const int window = std::max(0, std::min(to, kFusedWindowSegments) - from);
    const double selected = to - from - window;
    double tiles = slot < s.ranks ? share + kFusedKind : 0.0;
    tiles += window > 0 ? window * g.window_tiles + start_of(tiles, prices) : 0.0;
    tiles += selected > 0.0 ? selected * segment.tiles + start_of(tiles, prices) : 0.0;
    tiles += from <= kFusedWindowSegments && to > kFusedWindowSegments ? segment.first : 0.0;
    // Segments of one list: what one has more the others have less.
    tiles += over * std::sqrt(selected * (kFusedSelectedSegments - selected) /
                              (kFusedSelectedSegments - 1.0));
    out.tiles[static_cast<std::size_t>(slot)] = tiles;
    out.all += tiles;
    out.longest = std::max(out.longest, tiles);
    from = to;
  }
  return out;
}

// All CTAs advance alike, the faster the fewer share an SM; the last slot's of all groups start
// first, the others as places fall free.
class Chip {
 public:
  Chip(const FusedGroup& g, const Prices& prices)
      : groups_(static_cast<double>(g.groups)),
        resident_(static_cast<double>(g.resident)),
        alone_(g.shared_sms ? prices.alone : 1.0) {}

  double run(const std::array<double, kFusedSlots>& tiles, int slots) {
    double time = 0.0;
    double done = 0.0;  // tiles of a CTA that runs since the start
    int slot = slots - 1;
    double left = groups_;
    while (true) {
      while (slot >= 0 && resident_ - running_ > 0.0) {
        const double started = std::min(left, resident_ - running_);
        start({done + tiles[static_cast<std::size_t>(slot)], started});
        left -= started;
        if (left == 0.0) {
          --slot;
          left = groups_;
        }
      }
      if (count_ == 0) {
        return time;
      }
      const Wave ended = waves_[--count_];
      const double shared = std::max(0.0, running_ - 1.0) / std::max(1.0, resident_ - 1.0);
      time += (ended.end - done) / (shared + (1.0 - shared) * alone_);
      done = ended.end;
      running_ -= ended.ctas;
    }
  }

 private:
  struct Wave {
    double end = 0.0;  // tiles done then
    double ctas = 0.0;
  };

  void start(const Wave& wave) {
    std::size_t at = count_++;
    for (; at > 0 && waves_[at - 1].end < wave.end; --at) {
      waves_[at] = waves_[at - 1];
    }
    waves_[at] = wave;
    running_ += wave.ctas;
  }

  double groups_, resident_, alone_;
  double running_ = 0.0;
  std::array<Wave, 2 * kFusedSlots> waves_{};  // the one that ends next last
  std::size_t count_ = 0;
};

double time_of(const FusedGroup& g, const FusedShares& s, const Loads& loads,
               const Prices& prices) {
  return Chip(g, prices).run(loads.tiles, s.ctas);
}

// No more than the time, and quicker to have.
double bound_of(const FusedGroup& g, const Loads& loads) {
  const double alone = g.shared_sms ? kToChoose.alone : 1.0;
  return std::max(loads.longest / alone,
                  static_cast<double>(g.groups) * loads.all / static_cast<double>(g.resident));
}

double share_tiles(const FusedGroup& g, int ranks) {
  const double joins = std::ceil(static_cast<double>(g.joins) / std::max(ranks, 1));
  return std::min(joins * kJoinTiles, g.compressed_tiles);
}

// Segments in their order to CTAs in theirs, as many as stay below `limit`; whether all have one.
bool fill(const FusedGroup& g, const SelectedSegment& segment, double share, double limit,
          FusedShares& s) {
  int next = 0;
  for (int slot = 0; slot < s.ctas; ++slot) {
    double load = slot < s.ranks ? share + kFusedKind : 0.0;
    int kind = -1;
    while (next < kFusedSegments) {
      const int own = next < kFusedWindowSegments ? 0 : 1;
      const double more = (own == 0 ? g.window_tiles : segment.tiles) +
                          (next == kFusedWindowSegments ? segment.first : 0.0) +
                          (own != kind ? start_of(load, kToChoose) : 0.0);
      if (load + more > limit) {
        break;
      }
      load += more;
      kind = own;
      ++next;
    }
    s.segment_end[static_cast<std::size_t>(slot)] = static_cast<std::uint8_t>(next);
  }
  return next == kFusedSegments;
}

// Segments shared out so that the longest CTA is short.
void balance(const FusedGroup& g, const SelectedSegment& segment, double share, FusedShares& s) {
  const double longest = std::max(segment.tiles + segment.first, g.window_tiles);
  const double all = s.ranks * share + kFusedSelectedSegments * segment.tiles + segment.first +
                     kFusedWindowSegments * g.window_tiles;
  double low = std::max(all / s.ctas, longest);
  double high = std::max(low, s.ranks > 0 ? share : 0.0) + longest + 4.0 * kFusedKind;
  while (high - low > kResolution) {
    const double middle = 0.5 * (low + high);
    (fill(g, segment, share, middle, s) ? high : low) = middle;
  }
  fill(g, segment, share, high, s);
  std::fill(s.segment_end.begin() + s.ctas, s.segment_end.end(), kFusedSegments);
  while (s.ctas > std::max(s.ranks, 1) &&
         s.segment_end[static_cast<std::size_t>(s.ctas - 2)] == kFusedSegments) {
    --s.ctas;  // nothing is left for it
  }
}

using Lists = std::array<SelectedSegment, std::tuple_size_v<Fresh>>;

// Of all lists; not looked into where it cannot be below `least`.
double summed_time(const FusedGroup& g, const FusedShares& s, const Lists& lists, double share,
                   double least) {
  std::array<Loads, std::tuple_size_v<Fresh>> loads;
  double bound = 0.0;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    loads[i] = loads_of(g, s, lists[i], share, kToChoose);
    bound += bound_of(g, loads[i]);
  }
  if (bound >= least) {
    return bound;
  }
  double time = 0.0;
  for (const Loads& list : loads) {
    time += time_of(g, s, list, kToChoose);
  }
  return time;
}

// Longest CTAs start first. Where all run at once and two share an SM, the first half of them meets
// the second: the longest the shortest. Not where a group has many, of one part each: of shares of
// compressed tokens and lists of blocks it is hard to tell which are longer, and those that come
// last should be the short ones of both.
void order_slots(const FusedGroup& g, const Lists& lists, FusedShares& s) {
  std::array<double, kFusedSlots> tiles{};
  for (const SelectedSegment& list : lists) {
    const Loads loads = loads_of(g, s, list, share_tiles(g, s.ranks), kToChoose);
    std::transform(tiles.begin(), tiles.end(), loads.tiles.begin(), tiles.begin(), std::plus<>());
  }
  std::array<std::uint8_t, kFusedSlots> longest_first{};
  std::iota(longest_first.begin(), longest_first.end(), std::uint8_t{0});
  std::stable_sort(longest_first.begin(), longest_first.begin() + s.ctas,
                   [&](std::uint8_t one, std::uint8_t other) { return tiles[one] > tiles[other]; });
  const bool turns = g.shared_sms && fits_chip(g, s) && s.ctas <= kMostTurned;
  const int half = turns ? (s.ctas + 1) / 2 : s.ctas;
  for (int i = 0; i < s.ctas; ++i) {
    const int from = i < half ? i : s.ctas - 1 - (i - half);
    s.order[static_cast<std::size_t>(i)] = longest_first[static_cast<std::size_t>(from)];
  }
}

}  // namespace

SelectedSegment selected_segment(const SelectedLists& lists) {
  constexpr double kShare = 1.0 / kFusedSelectedSegments;
  // A list's blocks fall into the six segments by their number modulo six, as if thrown; the lists
  // of neighbouring groups fall alike as far as they overlap, so that they do not even out.
  double pairs = 0.0;  // ordered pairs of groups, weighed by what they share
  double shared = 1.0;
  for (double apart = 1.0; apart < lists.groups; apart += 1.0) {
    shared *= lists.reach;
    pairs += 2.0 * (lists.groups - apart) * shared;
  }
  return {(kOwn * lists.groups * lists.own + kPassed * lists.passed) * kShare + lists.tail,
          kOwn * std::sqrt(lists.own * kShare * (1.0 - kShare) * (lists.groups + pairs)),
          lists.first};
}

SelectedSegment segment_of(const ListedQueries& q, double fresh) {
  const double tiles = std::ceil(static_cast<double>(q.sel_block) / kTileKeys);
  const auto listed = [&](std::int64_t queries) {
    const double more = q.one_list ? 0.0 : static_cast<double>(queries - 1) * fresh;
    return tiles * std::min(static_cast<double>(q.sel_count) * (1.0 + more),
                            static_cast<double>(q.num_blocks));
  };
  const std::int64_t own = std::min(q.group, q.tile_queries);
  return selected_segment(
      {listed(own), listed(q.group) - listed(own), static_cast<double>(q.tile_queries / own),
       std::pow(1.0 - fresh, static_cast<double>(own)), kTailToChoose, kFirstTailToChoose});
}

double window_segment(std::int64_t window, std::int64_t context_len) {
  const double chunks = std::floor(static_cast<double>(std::min(window, context_len)) / kTileKeys);
  return std::floor(chunks / kFusedWindowSegments) * kOwn + kFusedWindowTail;
}

FusedShares fused_shares(const FusedGroup& g) {
  const bool segments = g.window_tiles > 0.0;
  const Fresh& fresh = g.queries.group >= kManyQueries ? kFreshOfMany : kFreshOfFew;
  Lists lists{};
  for (std::size_t i = 0; i < lists.size() && segments; ++i) {
    lists[i] = segment_of(g.queries, fresh[i]);
  }
  FusedShares best;
  double least = std::numeric_limits<double>::max();
  for (std::int64_t each = 1; each == 1 || each < 2 * g.joins; each *= 2) {
    const int ranks = static_cast<int>((g.joins + each - 1) / each);
    const int room =
        static_cast<int>(std::clamp<std::int64_t>(g.resident / g.groups, 1, kMaxFusedRanks));
    for (const int ctas : {segments ? room : ranks, ranks + (segments ? kFusedSegments : 0)}) {
      if (ranks > std::min(ctas, kMaxFusedRanks)) {
        continue;
      }
      const double share = share_tiles(g, ranks);
      for (std::size_t i = 0; i < (segments ? lists.size() : 1); ++i) {
        FusedShares next{.ctas = ctas, .ranks = ranks};
        if (segments) {
          balance(g, lists[i], share, next);
        }
        const double time = summed_time(g, next, lists, share, least);
        if (time < least) {
          least = time;
          best = next;
        }
      }
    }
  }
  order_slots(g, lists, best);
  return best;
}

double fused_steps(const FusedGroup& group, const FusedShares& shares,
                   const SelectedSegment& segment) {
  const double share = share_tiles(group, shares.ranks);
  return time_of(group, shares, loads_of(group, shares, segment, share, kToTell), kToTell);
}

}  // namespace versieve
