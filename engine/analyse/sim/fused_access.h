// What the fused launches share: which CTA takes which part of whose queries, the tiles that its
// warps run through side by side, and their partial results.
#pragma once

#include <string>
#include <vector>

#include "engine/analyse/sim/attention_access.h"
#include "engine/analyse/sim/fused_cut.h"
#include "engine/analyse/sim/memory_trace.h"

namespace versieve::engine {

// One step of a team of warps: a tile of keys and values, or a slice of the tree's tail, then the
// parts that are done with it.
struct FusedTile {
  std::int64_t first = 0;     // token or compressed token; of a tail: of its slice
  std::int64_t count = 0;     // rows that are copied; 0: none
  bool tail = false;          // each query has rows of its own
  bool loads = true;          // of a tail: the first tile of its slice, which brings rows for all
  double share = 1.0;         // of the team's row tiles that compute it; the others pass it over
  std::int64_t part = 0;      // parts [part, end_part) are stored behind it
  std::int64_t end_part = 0;  //
};

// The work of a team of warps: the tiles of one kind of parts for its queries [first, end).
struct FusedTeam {
  bool compressed = false;
  bool selected = false;
  std::int64_t first = 0, end = 0;
  std::int64_t start = 0;  // steps of the CTA before it begins
  std::vector<FusedTile> tiles;
};

struct FusedCta {
  bool finishes = false;            // merges nodes [first, end) instead of working on a part
  std::int64_t group = 0;           // of queries and KV heads, whose parts are counted together
  std::int64_t g = 0;               // KV head
  std::int64_t first = 0, end = 0;  // nodes
  std::vector<FusedTeam> teams;

  std::int64_t steps() const;                  // of the longest team
  double tile_share(std::int64_t step) const;  // the greatest of the teams' tiles
};
// All CTAs of a launch, in the order in which they start.
std::vector<FusedCta> fused_ctas(const AttentionCase& a, const FusedCut& cut, FusedLaunch launch);

// Whether node `node` sees keys of a slice of the tree's tail that is of segment `segment`.
bool sees_slice(const AttentionCase& a, std::int64_t g, std::int64_t segment, std::int64_t node,
                std::int64_t slice);

// What an SM needs for a CTA of the launch, and how its tiles follow each other.
LaunchShape fused_shape(const std::string& path, const AttentionCase& a, const FusedCut& cut);

// Query rows, positions, parents and, for selected blocks, their lists: what a CTA reads first.
void append_tables(const AttentionCase& a, const FusedCta& cta, std::vector<Access>& out);
// Step `step` of all teams; with `keeps_weights` what nsa_route keeps of each compressed tile.
void append_tiles(const AttentionCase& a, const FusedCta& cta, std::int64_t step,
                  bool keeps_weights, std::vector<Access>& out);
// The parts of one row as its merge reads them, or leaves them blank: `segments` of them, then
// spans.
void append_row_parts(const AttentionCase& a, std::int64_t row, bool segments, std::int64_t spans,
                      AccessKind kind, std::vector<Access>& out);

}  // namespace versieve::engine
