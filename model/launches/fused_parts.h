// How a fused attention launch is shared out whose parts outnumber the thread blocks that the chip
// holds: which block runs which parts one after the other, and what the launch takes then. One
// search for all who ask: a launch is cut by it (model/launches/fused_cut.h), which the simulator
// traces, and the cost model prices it. In tiles of 64 keys; where weights come
// from: kernels/nsa_verify/MEASURED.md, "Many parts".
#pragma once

#include <array>
#include <cstdint>

#include "model/words/llm_shape.h"

namespace versieve {

// Parts of one group of queries of a KV head: joins of compressed tokens, in shares; segments of
// selected blocks and of the window.
inline constexpr int kMaxFusedRanks = 16;  // shares
inline constexpr int kFusedSelectedSegments = 6;
inline constexpr int kFusedWindowSegments = 2;
inline constexpr int kFusedSegments = kFusedSelectedSegments + kFusedWindowSegments;
inline constexpr int kFusedSlots = kMaxFusedRanks + kFusedSegments;
// A block runs several parts for heads up to this wide. Of wider ones an SM holds one block, whose
// registers have no room for the sums of a join beside those of a part.
inline constexpr std::int64_t kFusedManyHead = 64;

// How far the longest segment of a launch lies over their mean, in standard deviations.
inline constexpr double kLongestSegment = 0.56;
inline constexpr double kFusedKind = 2.9;      // beginning a CTA: tables, a list, its first tile
inline constexpr double kFusedNextKind = 0.2;  // another kind in it, whose list is there
// What a segment reads of the draft tree, as a cut is said to take it.
inline constexpr double kFusedSelectedTail = 1.0;
inline constexpr double kFusedFirstTail = 2.5;  // more, where the tree begins
inline constexpr double kFusedWindowTail = 3.5;

// A segment of selected blocks, as one row tile runs through it.
struct SelectedSegment {
  double tiles = 0.0;   // mean
  double spread = 0.0;  // standard deviation
  double first = 0.0;   // more in the first one, where the tree begins
};

// Lists of selected blocks that one row tile runs through, in tiles of all segments together.
struct SelectedLists {
  double own = 0.0;     // of one group, listed by the row tile's own queries
  double passed = 0.0;  // listed by others of the group alone: waited for, not computed
  double groups = 1.0;  // one after the other
  double reach = 0.0;   // share of a group's list that the next one has too
  double tail = 0.0;    // of each segment
  double first = 0.0;   // more of the first one
};
SelectedSegment selected_segment(const SelectedLists& lists);

// What the planner knows of the lists: not how long they are, which the queries' overlap decides.
struct ListedQueries {
  std::int64_t sel_count = 16;    // n
  std::int64_t sel_block = 64;    // B
  std::int64_t num_blocks = 0;    // that there are
  std::int64_t tile_queries = 1;  // whose rows lie in one row tile
  std::int64_t group = 1;         // that share loads
  bool one_list = false;          // a group's queries have the same list
};
// For lists of which `fresh` (0 to 1) is new in each further query.
SelectedSegment segment_of(const ListedQueries& queries, double fresh);

struct FusedGroup {
  std::int64_t groups = 16;       // of queries, times KV heads
  std::int64_t resident = 264;    // thread blocks on the chip at once
  bool shared_sms = true;         // two of them to an SM
  std::int64_t joins = 0;         // of 512 compressed tokens; 0: the launch reads none
  double compressed_tiles = 0.0;  // of all joins
  double window_tiles = 0.0;      // of a segment of the window; 0: the launch has no segments
  ListedQueries queries;
};

struct FusedShares {
  int ctas = 1;   // of the group
  int ranks = 0;  // of them, the first, with a share of the compressed tokens
  // CTA i runs segments [segment_end[i - 1], segment_end[i]), the window's counted first, then
  // those of selected blocks from the one on in which the tree begins.
  std::array<std::uint8_t, kFusedSlots> segment_end{};
  // The CTAs in the order in which they start, those with most to do first.
  std::array<std::uint8_t, kFusedSlots> order{};
};

// The shares with the least time in sum over two kinds of lists: of groups of eight queries those
// that differ, of smaller ones those that are more alike, so that one of the two group sizes is cut
// for what the queries' overlap turns out to be.
FusedShares fused_shares(const FusedGroup& group);

// Tiles that the launch takes with these shares if segments of selected blocks are like this: the
// longest CTA, or what CTAs take that start as others end.
double fused_steps(const FusedGroup& group, const FusedShares& shares,
                   const SelectedSegment& segment);

// Tiles of a segment of the window, its end in the draft tree included.
double window_segment(std::int64_t window, std::int64_t context_len);

}  // namespace versieve
