#include "model/plan/near_duplicates.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "model/plan/tuple_grid.h"

namespace versieve {
namespace {

// Of a value among the grid's, or of the least above it.
std::ptrdiff_t step_of(std::span<const std::int64_t> grid, std::int64_t value) {
  return std::lower_bound(grid.begin(), grid.end(), value) - grid.begin();
}

bool is_a_step_apart(std::span<const std::int64_t> grid, std::int64_t a, std::int64_t b) {
  return std::abs(step_of(grid, a) - step_of(grid, b)) <= 1;
}

bool are_like_drafts(const DraftChoice& a, const DraftChoice& b) {
  const DraftGrid grid = draft_grid();
  return a.speculates() == b.speculates() && is_a_step_apart(grid.depths, a.depth, b.depth) &&
         is_a_step_apart(grid.widths, a.width, b.width) &&
         is_a_step_apart(grid.nodes, a.nodes, b.nodes);
}

// Attention with all that it is told, whatever else the tuple is.
bool attend_alike(const Strategy& a, const Strategy& b) {
  return a.attention == b.attention && a.resa_key_block == b.resa_key_block &&
         a.resa_active_ratio == b.resa_active_ratio &&
         a.resa_rectify_every == b.resa_rectify_every && a.resa_n_min == b.resa_n_min &&
         a.resa_n_local == b.resa_n_local && a.drafts_itself == b.drafts_itself &&
         a.adapts_length == b.adapts_length && a.specattn_p == b.specattn_p &&
         a.indexer_k == b.indexer_k && a.indexer_window == b.indexer_window && a.form == b.form &&
         a.topk == b.topk;
}

}  // namespace

bool are_near_duplicates(const RankedTuple& a, const RankedTuple& b, double slack) {
  const Strategy& s = *a.strategy;
  const Strategy& t = *b.strategy;
  return std::abs(a.log_throughput - b.log_throughput) + slack <=
             std::max(a.half_width, b.half_width) &&
         s.group_mode == t.group_mode && are_like_drafts(s.draft, t.draft) &&
         s.schedule == t.schedule && s.sampling == t.sampling && attend_alike(s, t);
}

std::vector<std::size_t> distinct_places(const std::vector<RankedTuple>& best_first,
                                         std::size_t count) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < best_first.size() && kept.size() < count; ++i) {
    if (std::none_of(kept.begin(), kept.end(), [&](std::size_t place) {
          return are_near_duplicates(best_first[place], best_first[i]);
        })) {
      kept.push_back(i);
    }
  }
  return kept;
}

}  // namespace versieve
