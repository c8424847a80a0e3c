// What the selections of one step's queries share, of one layer, as real trees show it: how alike
// two queries choose by how far they lie apart, and what groups of them load together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace versieve {

// What a distance counts: places in the tree's linear order, or positions of the text (nodes of one
// depth lie 0 apart).
enum class SharingAlong { kBfs, kDfs, kPosition };
inline constexpr std::size_t kSharingAlongCount = 3;
const char* name_of(SharingAlong along);              // "bfs", "dfs", "position"
SharingAlong sharing_along(const std::string& name);  // throws Error(kBadInput)

inline constexpr std::size_t kSharingDistances = 9;  // 0 to 8
inline constexpr std::array<std::int64_t, 3> kSharingGroups = {2, 4, 8};

// Means over steps, KV heads and queries. What no step could show (a distance beyond the tree, a
// group larger than it) is absent.
struct BlockSharing {
  SharingAlong along = SharingAlong::kBfs;
  std::int64_t layer = 0;
  std::int64_t steps = 0;
  // [d]: |I(p) and I(q)| / n of queries d apart. Places differ: of orders there is no [0].
  std::array<std::optional<double>, kSharingDistances> overlap{};
  // Of orders: distinct blocks of a group of kSharingGroups[i] queries, and the share of all
  // queries' loads that loading each of them once a group saves.
  std::array<std::optional<double>, kSharingGroups.size()> group_blocks{};
  std::array<std::optional<double>, kSharingGroups.size()> loads_saved{};
  // Of positions: overlap of a query's selection here with its own a layer on.
  std::optional<double> next_layer;

  bool operator==(const BlockSharing&) const = default;
};

}  // namespace versieve
