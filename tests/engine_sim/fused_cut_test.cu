// The simulator's cut of the fused launches is the kernels' own. Host code of the launches alone:
// no GPU is asked.
#include "engine/sim/fused_cut.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "kernels/nsa_verify/fused_plan.cuh"
#include "model/draft_tree.h"
#include "model/strategy.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

kernels::NsaVerifyParams<Bf16> params_of(const AttentionCase& a, const std::int32_t* indices_in) {
  kernels::NsaVerifyParams<Bf16> p;
  p.nsa = a.shape.nsa;
  p.group_size = a.group_size;
  p.group_mode = a.group_mode;
  p.num_heads = a.shape.num_heads;
  p.num_kv_heads = a.shape.num_kv_heads;
  p.head_dim = a.shape.head_dim;
  p.context_len = a.context_len;
  p.num_queries = a.num_queries();
  p.num_compressed = a.committed_compressed();
  p.num_tree_compressed = static_cast<std::int64_t>(a.cmp_tree_owner.size());
  p.num_blocks = a.num_blocks();
  p.indices_in = indices_in;
  return p;
}

DraftTree tree_of(const std::string& draft) {
  const std::string rest = draft == "ar" ? "" : "/bfs/c1/F*";
  return synthetic_tree(Strategy::parse("nsa/" + draft + rest).draft);
}

FusedCut cut_of(const kernels::FusedPlan& plan, const AttentionCase& a) {
  FusedCut cut{.row_tiles = plan.row_tiles,
               .slots = plan.slots,
               .team_tiles = plan.team_tiles,
               .tile_queries = kFusedRows / kernels::round_up_to_power_of_two(a.group_heads()),
               .group = plan.group,
               .ranks = plan.ranks,
               .many = plan.many,
               .joined = plan.joined,
               .slot_segments = plan.slot_segments,
               .part_blocks = plan.part_blocks,
               .query_tiles = plan.tiles,
               .finish_nodes = plan.finish_nodes,
               .units = plan.units,
               .shared_bytes = static_cast<std::int64_t>(plan.shared_bytes)};
  std::copy(std::begin(plan.segment_end), std::end(plan.segment_end), cut.segment_ends.begin());
  return cut;
}

}  // namespace

TEST_CASE("the simulator cuts fused launches as the kernels do") {
  const std::pair<FusedLaunch, kernels::Launch> launches[] = {
      {FusedLaunch::kRoute, kernels::Launch::kRoute},
      {FusedLaunch::kAttend, kernels::Launch::kAttend},
      {FusedLaunch::kReuse, kernels::Launch::kReuse}};
  const std::int32_t listed = 0;
  int compared = 0;
  for (const char* model : {"nsa-1b", "nsa-8b"}) {
    for (const char* draft : {"ar", "d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"}) {
      for (const std::int64_t context : {100, 1024, 4096, 16384, 65536, 262144}) {
        for (const std::int64_t group : {1, 4, 8, -8}) {  // below 0: approximate
          AttentionCase a = attention_case(named_llm_shape(model), tree_of(draft), context);
          a.group_size = std::abs(group);
          a.group_mode = group < 0 ? GroupMode::kApprox : GroupMode::kExact;
          for (const auto& [launch, kernel] : launches) {
            CAPTURE(model, draft, context, group, static_cast<int>(launch));
            const auto p = params_of(a, kernel == kernels::Launch::kReuse ? &listed : nullptr);
            const std::optional<kernels::FusedPlan> plan = kernels::Planner(p, kernel).best();
            if (!plan.has_value()) {
              CHECK_THROWS(fused_cut(a, launch));
              continue;
            }
            CHECK(fused_cut(a, launch) == cut_of(*plan, a));
            ++compared;
          }
        }
      }
    }
  }
  CHECK(compared > 400);
}
