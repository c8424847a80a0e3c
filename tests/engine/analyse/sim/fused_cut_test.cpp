// The cut of a fused launch, which the kernels take as it is: what it lays out lies in shared
// memory one behind the other, and every part is one slot's.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "engine/analyse/sim/fused_cut.h"
#include "model/words/draft_tree.h"
#include "model/words/strategy.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

DraftTree tree_of(const std::string& draft) {
  const std::string rest = draft == "ar" ? "" : "/bfs/c1/F*";
  return synthetic_tree(Strategy::parse("nsa/" + draft + rest).draft);
}

// Calls check(cut, case, launch) for launches of usual models, of one sequence and of several;
// returns how many were cut.
template <class Check>
int each_cut(const Check& check) {
  int cuts = 0;
  for (const char* model : {"nsa-1b", "nsa-8b"}) {
    for (const char* draft : {"ar", "d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"}) {
      for (const std::int64_t context : {100, 1024, 4096, 16384, 65536, 262144}) {
        for (const std::int64_t group : {1, 4, 8, -8}) {  // below 0: approximate
          AttentionCase a = attention_case(named_llm_shape(model), tree_of(draft), context);
          a.group_size = std::abs(group);
          a.group_mode = group < 0 ? GroupMode::kApprox : GroupMode::kExact;
          for (const FusedLaunch launch :
               {FusedLaunch::kRoute, FusedLaunch::kAttend, FusedLaunch::kReuse}) {
            CAPTURE(model, draft, context, group, static_cast<int>(launch));
            FusedCall call = fused_call(a);
            for (call.calls = 1; call.calls <= 16; call.calls *= 4) {
              if (const std::optional<FusedCut> cut = cut_fused(call, launch)) {
                check(*cut, a, launch);
                ++cuts;
              }
            }
          }
        }
      }
    }
  }
  return cuts;
}

}  // namespace

TEST_CASE("a fused launch's shared memory holds what its thread blocks lay out") {
  const int cuts = each_cut([](const FusedCut& cut, const AttentionCase& a, FusedLaunch launch) {
    const std::int64_t unit =
        kFusedTile * fused_width(a.shape.head_dim) * 2 + kFusedUnitBarrierBytes;
    const std::int64_t slot = cut.units * unit + cut.list_entries * kFusedEntryBytes +
                              (cut.unit_entries + cut.map_words) * 4;
    const std::int64_t tables =
        fused_table_bytes(a.num_queries(), cut.cta_queries(), cut.depth, cut.path_compressed);
    const std::int64_t selection = fused_select_words(a.num_blocks(), a.shape.nsa.sel_count);
    CHECK(cut.slots * slot + kFusedReadyBytes + tables <= cut.shared_bytes);
    CHECK((launch != FusedLaunch::kRoute ||
           kFusedFinishRows * 8 + cut.finish_nodes() * selection * 4 <= cut.shared_bytes));
    CHECK(cut.shared_bytes <= 227 * 1024);
    // A team's ring holds a tile's keys, its values and the next keys; of nodes alone, where three
    // CTAs of several calls share an SM, not the next keys.
    CHECK(cut.units >= (a.num_queries() == 1 ? 2 : 3) * (cut.row_tiles() / cut.team_tiles()));
    for (int kind = 1; cut.many && kind < kFusedKinds; ++kind) {
      CHECK(cut.list_starts[kind] >= cut.list_starts[kind - 1]);
      CHECK(cut.list_starts[kind] <= cut.list_entries);
      CHECK(cut.unit_starts[kind] <= cut.unit_entries);
    }
  });
  CHECK(cuts > 400);
}

TEST_CASE("each share and each segment of a fused launch is one slot's") {
  const int cuts = each_cut([](const FusedCut& cut, const AttentionCase&, FusedLaunch launch) {
    int ranks = 0;
    int segments[kFusedSegments] = {};
    for (int slot = 0; slot < cut.part_blocks * cut.slots; ++slot) {
      const SlotParts parts = cut.parts_of(slot);
      ranks += parts.rank >= 0 ? 1 : 0;
      for (int i = parts.window.from; i < parts.window.to; ++i) {
        REQUIRE((i >= kFusedSelectedSegments && i < kFusedSegments));
        ++segments[i];
      }
      for (int i = parts.selected.from; i < parts.selected.to; ++i) {
        REQUIRE((i >= 0 && i < kFusedSelectedSegments));
        ++segments[i];
      }
    }
    CHECK(ranks == cut.ranks);
    for (const int times : segments) {
      CHECK((launch == FusedLaunch::kRoute || times == 1));
    }
  });
  CHECK(cuts > 400);
}

TEST_CASE("a call whose lists no shared memory holds is not cut") {
  FusedCall call{.num_heads = 16,
                 .num_kv_heads = 1,
                 .head_dim = 64,
                 .num_queries = 64,
                 .context_len = 1 << 20,
                 .num_blocks = 1 << 16};
  call.nsa = {.cmp_block = 32,
              .cmp_stride = 16,
              .sel_block = 1 << 20,
              .sel_count = 1 << 20,
              .init_blocks = 1,
              .local_blocks = 2,
              .window = 512};
  for (const FusedLaunch launch : {FusedLaunch::kAttend, FusedLaunch::kReuse}) {
    CHECK_FALSE(cut_fused(call, launch).has_value());
  }
}

TEST_CASE("two nodes share a finishing CTA of nsa_route where alone they would start too late") {
  const auto nodes = [](std::int64_t queries, std::int64_t context) {
    const LlmShape shape = named_llm_shape("nsa-1b");
    const FusedCall call{.nsa = shape.nsa,
                         .num_heads = shape.num_heads,
                         .num_kv_heads = shape.num_kv_heads,
                         .head_dim = shape.head_dim,
                         .num_queries = queries,
                         .context_len = context,
                         .num_blocks = context / shape.nsa.sel_block + 1,
                         .group_size = 8};
    const std::optional<FusedCut> cut = cut_fused(call, FusedLaunch::kRoute);
    REQUIRE(cut.has_value());
    CHECK(cut->finish_warps == 2 * kFusedWarps);
    return cut->finish_nodes();
  };
  CHECK(nodes(16, 16384) == 1);  // all fit the chip at once
  CHECK(nodes(32, 16384) == 2);
  CHECK(nodes(64, 16384) == 2);  // finishing CTAs of a node each would not fit by themselves
  CHECK(nodes(32, 4096) == 1);   // ranked by counting, a node a CTA
  CHECK(nodes(32, 65536) == 1);  // the blocks of two are a second round
}
