// What the kernels lay out in shared memory is what the cut made room for. Host code of the
// launches alone: no GPU is asked.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>

#include "engine/analyse/sim/fused_cut.h"
#include "kernels/nsa_verify/fused_plan.cuh"
#include "model/words/draft_tree.h"
#include "model/words/strategy.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

kernels::NsaVerifyParams<Bf16> params_of(const AttentionCase& a) {
  kernels::NsaVerifyParams<Bf16> p;
  p.nsa = a.shape.nsa;
  p.group_size = a.group_size;
  p.group_mode = a.group_mode;
  p.num_heads = a.shape.num_heads;
  p.num_kv_heads = a.shape.num_kv_heads;
  p.head_dim = a.shape.head_dim;
  p.context_len = a.context_len;
  p.num_queries = a.num_queries();
  p.num_blocks = a.num_blocks();
  return p;
}

DraftTree tree_of(const std::string& draft) {
  const std::string rest = draft == "ar" ? "" : "/bfs/c1/F*";
  return synthetic_tree(Strategy::parse("nsa/" + draft + rest).draft);
}

// Bytes of a working CTA by the kernels' own sizes (kernels::WorkMemory): rings, their barriers,
// lists, units, bit maps, tables; and of a finishing CTA of nsa_route.
std::size_t used_bytes(const kernels::FusedPlan& plan, const AttentionCase& a, FusedLaunch launch) {
  const int width = a.shape.head_dim <= 64 ? 64 : 128;
  const int unit = kernels::kTileKeys * width * 2 + 32;
  const int queries = plan.row_tiles * plan.per_tile;
  const int slot = plan.units * unit +
                   plan.list_capacity * static_cast<int>(sizeof(kernels::Entry)) +
                   (plan.unit_capacity + plan.map_words) * 4;
  const int tables = kernels::table_bytes(static_cast<int>(a.num_queries()), queries,
                                          plan.depth_capacity, plan.path_compressed);
  const int finishing =
      kernels::kFinishRows * static_cast<int>(sizeof(float2)) +
      (4 << plan.finish_bits) * kernels::select_floats(static_cast<int>(a.num_blocks()),
                                                       static_cast<int>(a.shape.nsa.sel_count));
  return static_cast<std::size_t>(std::max(plan.slots * slot + kernels::kReadyBytes + tables,
                                           launch == FusedLaunch::kRoute ? finishing : 0));
}

}  // namespace

TEST_CASE("a fused launch's shared memory holds what its thread blocks lay out") {
  int planned = 0;
  for (const char* model : {"nsa-1b", "nsa-8b"}) {
    for (const char* draft : {"ar", "d3k2n4", "d5k4n16", "d6k8n64", "d8k8n128"}) {
      for (const std::int64_t context : {100, 1024, 4096, 16384, 65536, 262144}) {
        for (const std::int64_t group : {1, 4, 8, -8}) {  // below 0: approximate
          AttentionCase a = attention_case(named_llm_shape(model), tree_of(draft), context);
          a.group_size = std::abs(group);
          a.group_mode = group < 0 ? GroupMode::kApprox : GroupMode::kExact;
          const kernels::NsaVerifyParams<Bf16> p = params_of(a);
          for (const FusedLaunch launch :
               {FusedLaunch::kRoute, FusedLaunch::kAttend, FusedLaunch::kReuse}) {
            CAPTURE(model, draft, context, group, static_cast<int>(launch));
            const std::optional<kernels::FusedPlan> plan = kernels::fused_plan(p, launch);
            if (!plan.has_value()) {
              CHECK_THROWS(fused_cut(a, launch));
              continue;
            }
            ++planned;
            const FusedCut cut = fused_cut(a, launch);
            CHECK(cut.part_blocks == plan->part_blocks);
            CHECK(static_cast<std::size_t>(cut.shared_bytes) == plan->shared_bytes);
            CHECK(used_bytes(*plan, a, launch) <= plan->shared_bytes);
            CHECK(plan->shared_bytes <= 227 * 1024);
          }
        }
      }
    }
  }
  CHECK(planned > 400);
}

TEST_CASE("announced parts lie one behind the other, as far apart as they are read at once") {
  alignas(256) static std::byte memory[kFusedPartBytes];
  const auto offset = [](const void* at) { return static_cast<const std::byte*>(at) - memory; };
  int placed = 0;
  for (const int nodes : {1, 3, 12, 63, 64, 128}) {
    for (const int heads : {1, 9, 10, 32, 124}) {
      for (const int spans : {1, 2, 7, 16}) {
        for (const bool reuses : {false, true}) {
          if (!fused_announces(reuses ? FusedLaunch::kReuse : FusedLaunch::kAttend, nodes, heads,
                               48, spans)) {
            continue;
          }
          CAPTURE(nodes, heads, spans, reuses);
          kernels::FusedArguments a{};
          a.nodes = nodes;
          a.heads = heads;
          a.max_spans = spans;
          kernels::place_announced(memory, reuses, a);
          const std::ptrdiff_t rows = nodes * heads;
          CHECK(offset(a.segment_outs) == 0);
          CHECK((a.span_outs != nullptr) == reuses);
          const std::ptrdiff_t outs = rows * kFusedSegments * 256;
          if (reuses) {
            CHECK(offset(a.span_outs) == outs);
            CHECK(offset(a.span_outs) % 16 == 0);
            CHECK(offset(a.segment_states) == outs + rows * spans * 256);
            CHECK(offset(a.span_states) == offset(a.segment_states) + rows * kFusedSegments * 8);
            CHECK(offset(a.span_states) + rows * spans * 8 <= kFusedPartBytes);
          }
          CHECK(offset(a.segment_states) % 8 == 0);
          CHECK(offset(a.segment_states) + rows * kFusedSegments * 8 <= kFusedPartBytes);
          ++placed;
        }
      }
    }
  }
  CHECK(placed > 100);
}
