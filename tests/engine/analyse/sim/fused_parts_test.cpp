// How the parts of a fused launch are shared out: each once, as evenly as the lists allow, and in
// the cost model as in the simulator, whose cut is the kernels' own (model/launches/fused_cut.h).
#include "model/launches/fused_parts.h"

#include <catch2/catch.hpp>

#include "engine/analyse/sim/attended_blocks.h"
#include "engine/analyse/sim/fused_access.h"
#include "engine/analyse/sim/fused_cut.h"
#include "model/launches/nsa_fused.h"
#include "model/launches/nsa_shape.h"
#include "model/words/draft_tree.h"
#include "model/words/strategy.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

DraftTree tree_of(const std::string& draft) {
  return synthetic_tree(Strategy::parse("nsa/" + draft + "/bfs/c1/F*").draft);
}

// A reuse layer of nsa-1b: row tiles of four queries, four of them a thread block, 8 KV heads.
FusedGroup reuse_group(std::int64_t queries, std::int64_t context, std::int64_t group) {
  return fused_group({.num_heads = 32,
                      .num_kv_heads = 8,
                      .head_dim = 64,
                      .context_len = context,
                      .num_queries = queries,
                      .group_size = group},
                     LaunchKind::kNsaReuse);
}

double steps_of(const FusedGroup& group, const FusedShares& shares, double fresh) {
  return fused_steps(group, shares, segment_of(group.queries, fresh));
}

}  // namespace

TEST_CASE("the cost model shares out many parts as the simulator does") {
  int compared = 0;
  for (const char* model : {"nsa-1b", "nsa-8b"}) {
    for (const char* draft : {"d6k6n32", "d6k8n64", "d8k8n128"}) {
      for (const std::int64_t context : {1024, 4096, 10240, 16384, 65536, 262144}) {
        for (const std::int64_t group : {1, 4, 8, -8}) {  // below 0: approximate
          AttentionCase a = attention_case(named_llm_shape(model), tree_of(draft), context);
          a.group_size = std::abs(group);
          a.group_mode = group < 0 ? GroupMode::kApprox : GroupMode::kExact;
          const traffic::NsaVerifyShape shape{.nsa = a.shape.nsa,
                                              .num_heads = a.shape.num_heads,
                                              .num_kv_heads = a.shape.num_kv_heads,
                                              .head_dim = a.shape.head_dim,
                                              .context_len = context,
                                              .num_queries = a.num_queries(),
                                              .group_size = a.group_size,
                                              .group_mode = a.group_mode};
          for (const auto& [launch, kind] : {std::pair{FusedLaunch::kRoute, LaunchKind::kNsaRoute},
                                             {FusedLaunch::kAttend, LaunchKind::kNsaAttend},
                                             {FusedLaunch::kReuse, LaunchKind::kNsaReuse}}) {
            const FusedCut cut = fused_cut(a, launch);
            if (!cut.many) {
              continue;
            }
            CAPTURE(model, draft, context, group, static_cast<int>(launch));
            const FusedShares shares = fused_shares(fused_group(shape, kind));
            CHECK(shares.ctas == cut.part_blocks);
            CHECK(shares.ranks == cut.ranks);
            CHECK(std::equal(shares.segment_end.begin(), shares.segment_end.end(),
                             std::begin(cut.segment_ends), std::end(cut.segment_ends)));
            ++compared;
          }
        }
      }
    }
  }
  CHECK(compared > 100);
}

TEST_CASE("parts announce themselves where they fit their memory and a lane's registers") {
  using enum FusedLaunch;
  CHECK(fused_announces(kReuse, 64, 32, 64, 16));
  CHECK_FALSE(fused_announces(kReuse, 65, 32, 64, 16));
  CHECK_FALSE(fused_announces(kReuse, 64, 32, 64, 17));
  CHECK(fused_announces(kReuse, 1, 32, 48, 3));  // as wide as 64
  CHECK_FALSE(fused_announces(kReuse, 1, 32, 128, 3));
  CHECK(fused_announces(kAttend, 128, 32, 64, 1000));  // reads no spans
  CHECK_FALSE(fused_announces(kAttend, 129, 32, 64, 3));
  CHECK_FALSE(fused_announces(kRoute, 1, 32, 64, 3));
  // 264 bytes a part; 64 nodes of 64 heads have 24 parts each.
  CHECK(fused_announces(kAttend, 64, 124, 64, 0));
  CHECK_FALSE(fused_announces(kAttend, 64, 125, 64, 0));
  CHECK_FALSE(fused_announces(kReuse, 64, 64, 64, 16));
}

TEST_CASE("each segment is one thread block's, in order") {
  for (const std::int64_t queries : {64, 128, 256}) {
    for (const std::int64_t context : {4096, 16384, 65536, 1 << 20}) {
      for (const std::int64_t size : {1, 2, 4, 8}) {
        const FusedGroup group = reuse_group(queries, context, size);
        const FusedShares shares = fused_shares(group);
        CAPTURE(queries, context, size, shares.ctas, shares.ranks);
        CHECK(shares.ranks >= 1);
        CHECK(shares.ranks <= shares.ctas);
        CHECK(std::is_sorted(shares.segment_end.begin(), shares.segment_end.end()));
        CHECK(shares.segment_end[static_cast<std::size_t>(shares.ctas - 1)] ==
              kFusedSelectedSegments + kFusedWindowSegments);
      }
    }
  }
}

TEST_CASE("thread blocks start longest first, the second half turned round where a group has few") {
  const auto order_of = [](const FusedGroup& group) {
    const FusedShares shares = fused_shares(group);
    const auto begin = shares.order.begin();
    std::vector<int> order(begin, begin + shares.ctas);
    std::vector<int> each = order;
    std::sort(each.begin(), each.end());
    for (int slot = 0; slot < shares.ctas; ++slot) {
      CHECK(each[static_cast<std::size_t>(slot)] == slot);  // every block once
    }
    return order;
  };
  // 64 nodes at 4K: the compressed tokens with a segment of the window first; the other segment of
  // the window, the shortest, opens the second half.
  const std::vector<int> few = order_of(reuse_group(64, 4096, 8));
  REQUIRE(few.size() == 8);
  CHECK(few.front() == 0);
  CHECK(few[4] == 1);
  // 32 nodes at 64K, a part each: eight shares of the compressed tokens, and last the window.
  const std::vector<int> many = order_of(reuse_group(32, 65536, 4));
  REQUIRE(many.size() == 16);
  CHECK(many.front() == 0);
  CHECK(many[14] == 8);
  CHECK(many[15] == 9);
}

TEST_CASE("groups of eight are cut for lists that differ, of four for lists that are alike") {
  // Both measured on an H200, us at overlaps of 0.2, 0.5, 0.8 and 0.95: 64 queries at 16K in groups
  // of eight take 25.3, 24.0, 22.1 and 20.5 by `before` and 23.2, 23.2, 22.9 and 22.5 by eight CTAs
  // that all fit the chip; in groups of four 25.8, 24.5, 22.7, 21.5 and 25.9, 22.1, 18.7, 16.8.
  FusedShares before{.ctas = 10, .ranks = 2};
  for (int slot = 0; slot < kFusedSlots; ++slot) {
    before.segment_end[static_cast<std::size_t>(slot)] =
        static_cast<std::uint8_t>(std::clamp(slot - 1, 0, 8));
  }
  const FusedGroup eight = reuse_group(64, 16384, 8);
  const FusedGroup four = reuse_group(64, 16384, 4);
  const FusedShares of_eight = fused_shares(eight);
  const FusedShares of_four = fused_shares(four);
  CHECK(eight.groups * of_eight.ctas <= eight.resident);
  CHECK(four.groups * of_four.ctas <= four.resident);
  CHECK(of_eight.segment_end != of_four.segment_end);
  CHECK(steps_of(eight, of_eight, 0.8) < steps_of(eight, before, 0.8));
  CHECK(steps_of(four, of_four, 0.2) < 0.9 * steps_of(four, before, 0.2));
  CHECK(steps_of(four, of_four, 0.2) < 0.9 * steps_of(eight, of_eight, 0.2));
  CHECK(steps_of(eight, of_eight, 0.8) < steps_of(four, of_four, 0.8));
}

TEST_CASE("one share of the compressed tokens does not hold up the others") {
  // 128 queries in groups of eight at 64K: two of four CTAs took 32 tiles of compressed tokens and
  // segments beside them, and 53 us at every overlap (H200); without the segments it is 43 from an
  // overlap of 0.8 on.
  const FusedGroup group = reuse_group(128, 65536, 8);
  FusedShares before{.ctas = 4, .ranks = 2};
  before.segment_end.fill(8);
  before.segment_end[0] = 1;
  before.segment_end[1] = 2;
  before.segment_end[2] = 5;
  const FusedShares shares = fused_shares(group);
  CHECK(shares.segment_end[0] == 0);
  CHECK(steps_of(group, shares, 0.2) < 0.9 * steps_of(group, before, 0.2));
  CHECK(steps_of(group, shares, 0.2) < 0.85 * steps_of(group, shares, 0.8));
}

TEST_CASE("the selected segment in which the tree begins is the first, wherever that is") {
  for (const std::int64_t context : {4096, 4160, 4224, 4288, 4352, 4416, 5000}) {
    AttentionCase a = attention_case(named_llm_shape("nsa-1b"), tree_of("d6k8n64"), context);
    a.reuse = true;
    a.group_size = 8;
    a.indices = attended_blocks(a, 0.5, {}, 1);
    const FusedCut cut = fused_cut(a, FusedLaunch::kReuse);
    REQUIRE(cut.many);
    std::int64_t first = 0;  // slot with the first segment
    while (cut.segment_ends[first] <= kFusedWindowSegments) {
      ++first;
    }
    CAPTURE(context, first);
    int tails = 0;
    const std::vector<FusedCta> ctas = fused_ctas(a, cut, FusedLaunch::kReuse);
    const std::size_t groups = static_cast<std::size_t>(cut.query_tiles * a.shape.num_kv_heads);
    for (std::size_t i = 0; i < ctas.size() && !ctas[i].finishes; ++i) {
      for (const FusedTeam& team : ctas[i].teams) {
        const bool tail = team.selected && std::any_of(team.tiles.begin(), team.tiles.end(),
                                                       [](const FusedTile& t) { return t.tail; });
        tails += tail ? 1 : 0;
        CHECK((!tail || cut.slot_order[i / groups] == first));
      }
    }
    CHECK(tails > 0);
  }
}

TEST_CASE("a tile takes the share of a team's row tiles that compute it") {
  AttentionCase a = attention_case(named_llm_shape("nsa-1b"), tree_of("d6k8n64"), 4096);
  a.reuse = true;
  for (const double overlap : {0.2, 0.8}) {
    a.indices = attended_blocks(a, overlap, {}, 1);
    double least = 1.0;
    double most = 0.0;
    double sum = 0.0;
    for (const std::int64_t group : {1, 8}) {
      a.group_size = group;
      const FusedCut cut = fused_cut(a, FusedLaunch::kReuse);
      double computed = 0.0;  // row tiles times tiles
      for (const FusedCta& cta : fused_ctas(a, cut, FusedLaunch::kReuse)) {
        for (const FusedTeam& team : cta.teams) {
          for (std::size_t i = 0; team.selected && i < team.tiles.size(); ++i) {
            const FusedTile& tile = team.tiles[i];
            if (tile.tail || tile.count == 0) {
              continue;
            }
            computed += tile.share * static_cast<double>(team.end - team.first) /
                        static_cast<double>(cut.tile_queries);
            least = std::min(least, tile.share);
            most = std::max(most, tile.share);
            CHECK(cta.tile_share(team.start + static_cast<std::int64_t>(i)) >= tile.share);
          }
        }
      }
      // Larger groups share loads, and only queries of one row tile share its computing.
      CHECK((group == 1 || computed < sum));
      sum = computed;
    }
    CHECK(least == 0.5);  // of the two row tiles of eight queries
    CHECK(most == 1.0);
  }
}

TEST_CASE("a launch that fits the chip takes its longest block, one that does not its waves") {
  FusedGroup group = reuse_group(64, 4096, 4);
  group.shared_sms = false;
  FusedShares shares{.ctas = 8, .ranks = 1};
  for (int slot = 0; slot < kFusedSlots; ++slot) {
    shares.segment_end[static_cast<std::size_t>(slot)] =
        static_cast<std::uint8_t>(std::min(slot + 1, 8));
  }
  const double window = window_segment(512, 4096);
  const SelectedSegment segment{.tiles = 3.0};
  // The first block has the compressed tokens too: 4 tiles, and beginning both kinds.
  CHECK(group.groups * shares.ctas <= group.resident);
  CHECK(fused_steps(group, shares, segment) == Approx(kFusedKind + kFusedNextKind + 4.0 + window));
  CHECK(fused_steps(group, shares, {.tiles = 30.0}) == Approx(kFusedKind + 30.0));
  CHECK(fused_steps(group, shares, {.tiles = 30.0, .spread = 2.0}) ==
        Approx(kFusedKind + 30.0 + 2.0 * kLongestSegment));
  CHECK(fused_steps(group, shares, {.tiles = 30.0, .first = 4.0}) == Approx(kFusedKind + 34.0));
  group.resident = 1;  // one after the other
  CHECK(fused_steps(group, shares, {.tiles = 3.0, .first = 4.0}) ==
        Approx(fused_steps(group, shares, segment) + 32.0 * 4.0));  // once a group
  CHECK(fused_steps(group, shares, segment) ==
        Approx(32.0 * (8.0 * kFusedKind + kFusedNextKind + 4.0 + 6.0 * 3.0 + 2.0 * window)));
  group.resident = 32 * 4;  // two halves, the second begun by the first's short ones
  CHECK(fused_steps(group, shares, segment) ==
        Approx(2.0 * kFusedKind + kFusedNextKind + 4.0 + 3.0 + window));
}

TEST_CASE("a thread block that has its SM for itself is faster") {
  FusedGroup group = reuse_group(64, 65536, 4);
  FusedShares shares{.ctas = 8, .ranks = 1};
  shares.segment_end.fill(8);
  for (int slot = 0; slot < 8; ++slot) {
    shares.segment_end[static_cast<std::size_t>(slot)] = static_cast<std::uint8_t>(slot + 1);
  }
  // 32 of 256 blocks have 64 tiles, the others hardly any: the 32 run alone for most of the time.
  const double both = fused_steps(group, shares, {.tiles = 1.0});
  group.shared_sms = false;
  const double apart = fused_steps(group, shares, {.tiles = 1.0});
  CHECK(both < 0.85 * apart);
  CHECK(both > 0.6 * apart);
}

TEST_CASE("what other row tiles of a group have chosen costs less than its own") {
  const SelectedLists own{.own = 16.0};
  SelectedLists more = own;
  more.own = 28.0;
  SelectedLists passed = own;
  passed.passed = 12.0;
  CHECK(selected_segment(passed).tiles > selected_segment(own).tiles + 0.1);
  CHECK(selected_segment(passed).tiles < selected_segment(more).tiles - 1.0);
  // Four lists that are the same differ in length as one does, four times; others even out.
  SelectedLists same = own;
  same.groups = 4.0;
  same.reach = 1.0;
  SelectedLists apart = same;
  apart.reach = 0.0;
  CHECK(selected_segment(same).spread == Approx(4.0 * selected_segment(own).spread));
  CHECK(selected_segment(apart).spread == Approx(2.0 * selected_segment(own).spread));
}

TEST_CASE("a row tile holds as few queries as leave all parts on the chip at once") {
  struct Case {
    std::int64_t queries, context, attend, reuse;
  };
  // nsa-1b, 264 thread blocks: 8 segments of each group, and shares of the compressed tokens.
  for (const Case& c : {Case{1, 4096, 4, 4},  // a node alone has kernels of its own
                        {4, 4096, 1, 1},
                        {16, 4096, 1, 2},
                        {16, 16384, 1, 2},
                        {8, 65536, 1, 2},
                        {16, 65536, 1, 2},   // of which a thread block takes several
                        {16, 131072, 1, 4},  // but not of shares that long
                        {32, 16384, 2, 4},
                        {64, 4096, 4, 4}}) {
    CAPTURE(c.queries, c.context);
    FusedCall call{.nsa = {},
                   .num_heads = 32,
                   .num_kv_heads = 8,
                   .head_dim = 64,
                   .num_queries = c.queries,
                   .context_len = c.context,
                   .num_blocks = c.context / 64 + 1};
    CHECK(fused_tile_queries(call, FusedLaunch::kRoute) == 4);
    CHECK(fused_tile_queries(call, FusedLaunch::kAttend) == c.attend);
    CHECK(fused_tile_queries(call, FusedLaunch::kReuse) == c.reuse);
    call.group_size = 4;
    call.group_mode = GroupMode::kApprox;  // one list for all of them
    CHECK(fused_tile_queries(call, FusedLaunch::kReuse) == 4);
  }
}
