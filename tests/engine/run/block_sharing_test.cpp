// What selections share along orders, in positions and in groups, on trees small enough to count.
#include "engine/run/speculate/block_sharing.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace versieve;
using namespace versieve::engine;

namespace {

// The root's children 1 and 2; 3 and 4 below 1, 5 below 2: depth first 0 1 3 4 2 5.
const DraftTree kTree{.parent = {-1, 0, 0, 1, 1, 2},
                      .depth = {0, 1, 1, 2, 2, 2},
                      .token = {0, 1, 2, 3, 4, 5},
                      .log_probability = std::vector<float>(6)};
// The branch of 1 chooses block 1, that of 2 block 2; all choose block 0. A layer on all choose 1.
const std::vector<std::vector<std::int32_t>> kSelected = {{0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2},
                                                          {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}};

const BlockSharing& row_of(const std::vector<BlockSharing>& rows, SharingAlong along,
                           std::int64_t layer) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const BlockSharing& row) {
    return row.along == along && row.layer == layer;
  });
  REQUIRE(found != rows.end());
  return *found;
}

}  // namespace

TEST_CASE("depth first, a tree whose branches choose alike shares more than breadth first") {
  SharingSum sum;
  sum.add({.tree = &kTree, .selected = &kSelected, .num_kv_heads = 1, .sel_count = 2});
  const std::vector<BlockSharing> rows = sum.mean();
  CHECK(rows.size() == 6);
  const BlockSharing bfs = row_of(rows, SharingAlong::kBfs, 0);
  CHECK(bfs.steps == 1);
  CHECK(*bfs.overlap[1] == Approx(0.7));
  CHECK(*bfs.group_blocks[0] == Approx(8.0 / 3.0));
  CHECK(*bfs.loads_saved[0] == Approx(1.0 / 3.0));
  CHECK(*bfs.group_blocks[1] == Approx(3.0));
  CHECK(*bfs.loads_saved[1] == Approx(0.5));
  CHECK(*bfs.overlap[5] == Approx(0.5));  // the root and node 5
  CHECK(!bfs.overlap[0]);
  CHECK(!bfs.overlap[6]);
  CHECK(!bfs.group_blocks[2]);  // there are no eight queries
  CHECK(!bfs.next_layer);
  const BlockSharing dfs = row_of(rows, SharingAlong::kDfs, 0);
  CHECK(*dfs.overlap[1] == Approx(0.9));
  CHECK(*dfs.group_blocks[0] == Approx(2.0));
  CHECK(*dfs.loads_saved[0] == Approx(0.5));
  CHECK(*dfs.group_blocks[1] == Approx(2.0));
  CHECK(*dfs.loads_saved[1] == Approx(2.0 / 3.0));
}

TEST_CASE("positions count depths, and a layer is held against the next one's own choice") {
  SharingSum sum;
  sum.add({.tree = &kTree, .selected = &kSelected, .num_kv_heads = 1, .sel_count = 2});
  const std::vector<BlockSharing> rows = sum.mean();
  const BlockSharing position = row_of(rows, SharingAlong::kPosition, 0);
  CHECK(*position.overlap[0] == Approx(2.5 / 4.0));  // 1-2, 3-4, 3-5, 4-5
  CHECK(*position.overlap[1] == Approx(6.0 / 8.0));
  CHECK(*position.overlap[2] == Approx(2.5 / 3.0));
  CHECK(!position.overlap[3]);
  CHECK(!position.group_blocks[0]);
  CHECK(*position.next_layer == Approx(5.0 / 6.0));
  const BlockSharing last = row_of(rows, SharingAlong::kPosition, 1);
  CHECK(*last.overlap[2] == 1.0);
  CHECK(!last.next_layer);
}

TEST_CASE("a tree flattened depth first tells the same of that order and nothing of the other") {
  const std::vector<std::int32_t> order = traversal_order(kTree, Traversal::kDfs);
  CHECK(order == std::vector<std::int32_t>{0, 1, 3, 4, 2, 5});
  const DraftTree tree = reordered(kTree, order);
  std::vector<std::vector<std::int32_t>> selected(kSelected.size());
  for (std::size_t layer = 0; layer < kSelected.size(); ++layer) {
    for (const std::int32_t node : order) {
      const auto row = kSelected[layer].begin() + 2 * node;
      selected[layer].insert(selected[layer].end(), row, row + 2);
    }
  }
  SharingSum breadth;
  breadth.add({.tree = &kTree, .selected = &kSelected, .num_kv_heads = 1, .sel_count = 2});
  SharingSum depth;
  depth.add({.tree = &tree,
             .selected = &selected,
             .num_kv_heads = 1,
             .sel_count = 2,
             .order = Traversal::kDfs});
  const std::vector<BlockSharing> rows = depth.mean();
  CHECK(rows.size() == 4);
  for (const std::int64_t layer : {0, 1}) {
    CHECK(row_of(rows, SharingAlong::kDfs, layer) ==
          row_of(breadth.mean(), SharingAlong::kDfs, layer));
    CHECK(row_of(rows, SharingAlong::kPosition, layer) ==
          row_of(breadth.mean(), SharingAlong::kPosition, layer));
  }
}

TEST_CASE("rows that share one list tell of their own order alone") {
  SharingSum sum;
  sum.add({.tree = &kTree,
           .selected = &kSelected,
           .num_kv_heads = 1,
           .sel_count = 2,
           .own_choices = false});
  const std::vector<BlockSharing> rows = sum.mean();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].along == SharingAlong::kBfs);
}

TEST_CASE("steps and KV heads are averaged, and missing blocks shorten a selection") {
  SharingSum sum;
  sum.add({.tree = &kTree, .selected = &kSelected, .num_kv_heads = 1, .sel_count = 2});
  const DraftTree pair{
      .parent = {-1, 0}, .depth = {0, 1}, .token = {0, 1}, .log_probability = {0.0F, 0.0F}};
  // Head 0: {3} and {3, 70}; head 1: {1, 2} twice.
  const std::vector<std::vector<std::int32_t>> selected = {{3, -1, 1, 2, 3, 70, 1, 2},
                                                           {3, -1, 1, 2, 3, 70, 1, 2}};
  sum.add({.tree = &pair, .selected = &selected, .num_kv_heads = 2, .sel_count = 2});
  const DraftTree alone{.parent = {-1}, .depth = {0}, .token = {0}, .log_probability = {0.0F}};
  const std::vector<std::vector<std::int32_t>> one = {{0, 1}, {0, 1}};
  sum.add({.tree = &alone, .selected = &one, .num_kv_heads = 1, .sel_count = 2});
  const BlockSharing bfs = row_of(sum.mean(), SharingAlong::kBfs, 0);
  CHECK(bfs.steps == 2);
  CHECK(*bfs.overlap[1] == Approx((0.7 + 0.75) / 2.0));
  CHECK(*bfs.group_blocks[0] == Approx((8.0 / 3.0 + 2.0) / 2.0));
  CHECK(*bfs.loads_saved[0] == Approx((1.0 / 3.0 + 3.0 / 7.0) / 2.0));
  CHECK(*bfs.overlap[2] == Approx(2.5 / 4.0));  // of the larger tree alone
}
