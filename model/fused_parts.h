// Which thread blocks of a fused attention launch run several parts one after the other, and what
// the longest and all of them take. The kernels' planner (kernels/nsa_verify/fused_plan.cuh) shares
// out compressed tokens and segments by a small cost model of its own; this is its search, so that
// a price follows the choice and not an average of the choices.
#pragma once

#include <cstdint>

#include "model/traffic.h"

namespace versieve {

// How far the longest of six segments lies over their mean, in standard deviations: the expected
// maximum of six normal variables.
inline constexpr double kLongestOfSix = 1.27;

// One group of queries of a KV head whose parts outnumber the thread blocks that the chip holds.
struct FusedGroup {
  std::int64_t groups = 16;     // of queries, times KV heads
  std::int64_t resident = 264;  // thread blocks on the chip at once
  std::int64_t joins = 0;       // of 512 compressed tokens; 0: the launch reads none
  bool segments = true;         // 6 of selected blocks and 2 of the window
  // What the planner takes a segment of each kind to cost, in half tiles.
  std::int64_t planned_selected = 0;
  std::int64_t planned_window = 0;
  // What they cost, in tiles of 64 keys.
  double compressed_tiles = 0.0;  // all joins together
  double selected_tiles = 0.0;
  double window_tiles = 0.0;
  double selected_spread = 0.0;  // standard deviation of selected_tiles
};

// Of one group of a launch: compressed tokens that it reads, tiles of one segment of each kind
// (none: it has no segments).
struct FusedSegments {
  double compressed = 0.0;
  double selected_tiles = 0.0;
  double window_tiles = 0.0;
  double selected_spread = 0.0;  // standard deviation of selected_tiles
};
// `row_tiles` of a thread block, `groups` of queries times KV heads.
FusedGroup fused_group(const traffic::NsaVerifyShape& shape, double row_tiles, double groups,
                       const FusedSegments& segments);

// In tiles of keys.
struct FusedTime {
  std::int64_t ctas = 1;   // of the group
  std::int64_t ranks = 0;  // of them with a share of the compressed tokens
  double steps = 0.0;      // of the launch: the longest, or a wave after the other
};
FusedTime fused_time(const FusedGroup& group);

}  // namespace versieve
