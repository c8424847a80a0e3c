// The cost model shares out the parts of a fused launch as the simulator does, whose cut is the
// kernels' own (fused_cut_test.cu).
#include "model/fused_parts.h"

#include <catch2/catch.hpp>

#include "engine/sim/fused_cut.h"
#include "model/draft_tree.h"
#include "model/strategy.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

DraftTree tree_of(const std::string& draft) {
  return synthetic_tree(Strategy::parse("nsa/" + draft + "/bfs/c1/F*").draft);
}

}  // namespace

TEST_CASE("many parts are shared out between thread blocks as the kernels' planner does") {
  int compared = 0;
  for (const char* model : {"nsa-1b", "nsa-8b"}) {
    for (const char* draft : {"d6k6n32", "d6k8n64", "d8k8n128"}) {
      for (const std::int64_t context : {1024, 4096, 10240, 16384, 65536, 262144}) {
        for (const std::int64_t group : {1, 4, 8}) {
          AttentionCase a = attention_case(named_llm_shape(model), tree_of(draft), context);
          a.group_size = group;
          for (const FusedLaunch launch :
               {FusedLaunch::kRoute, FusedLaunch::kAttend, FusedLaunch::kReuse}) {
            const FusedCut cut = fused_cut(a, launch);
            if (!cut.many) {
              continue;
            }
            const traffic::NsaVerifyShape shape{.nsa = a.shape.nsa,
                                                .num_heads = a.shape.num_heads,
                                                .num_kv_heads = a.shape.num_kv_heads,
                                                .head_dim = a.shape.head_dim,
                                                .context_len = context,
                                                .num_queries = a.num_queries(),
                                                .element_bytes = 2,
                                                .group_size = group};
            const double compressed = launch == FusedLaunch::kAttend
                                          ? 0.0
                                          : static_cast<double>(a.committed_compressed());
            const double tiles = launch == FusedLaunch::kRoute ? 0.0 : 5.0;
            const FusedTime time =
                fused_time(fused_group(shape, static_cast<double>(cut.row_tiles),
                                       static_cast<double>(cut.query_tiles * a.shape.num_kv_heads),
                                       {compressed, tiles, tiles}));
            CAPTURE(model, draft, context, group, static_cast<int>(launch));
            CHECK(time.ctas == cut.part_blocks);
            CHECK(time.ranks == cut.ranks);
            CHECK(time.steps > 4.0);
            ++compared;
          }
        }
      }
    }
  }
  CHECK(compared > 150);
}

TEST_CASE("a launch that fits the chip takes its longest block, one that does not its waves") {
  FusedGroup group{.groups = 16,
                   .resident = 264,
                   .joins = 0,
                   .segments = true,
                   .planned_selected = 12,
                   .planned_window = 15,
                   .selected_tiles = 6.0,
                   .window_tiles = 7.5};
  const FusedTime one = fused_time(group);
  CHECK(one.ctas * group.groups <= group.resident);
  CHECK(one.steps >= 4.0 + 7.5);  // a start and a segment of the window at least
  group.groups = 160;             // ten times the queries on the same chip
  const FusedTime ten = fused_time(group);
  CHECK(ten.steps > 3.0 * one.steps);
  group.selected_tiles = 12.0;
  CHECK(fused_time(group).steps > ten.steps);
}
