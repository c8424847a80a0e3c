// A step that drafts: its launches in the engine's order, and what the draft's traces ask for is
// what the launches are said to move.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "engine/analyse/sim/draft_sequence.h"
#include "engine/analyse/sim/simulate_point.h"
#include "engine/analyse/sim/trace_tree_attention.h"
#include "model/launches/draft_levels.h"
#include "model/launches/draft_tree.h"
#include "model/launches/tree_attention.h"
#include "tests/engine/analyse/sim/touched.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

std::map<std::string, int> launches_of(const std::string& model, const std::string& strategy) {
  std::map<std::string, int> counts;
  const PointKey key{.workload = WorkloadKind::kStep,
                     .model = model,
                     .strategy = strategy,
                     .dtype = Dtype::kBf16,
                     .cache_state = CacheState::kAsIs,
                     .context_len = 1024,
                     .num_queries = Strategy::parse(strategy).draft.nodes};
  for (const auto& launch : step_point_sequence(key, {}, 1, true)) {
    counts[launch->shape().path] += 1;
  }
  return counts;
}

// Bytes of a launch's copies past L1, each sector once.
double copied_once(const LaunchTrace& launch) {
  std::set<std::uint64_t> sectors;
  for (std::int64_t cta = 0; cta < launch.shape().ctas; ++cta) {
    std::vector<Access> accesses;
    for (std::int64_t step = 0; launch.append_step(cta, step, accesses); ++step) {
    }
    for (const Access& access : accesses) {
      for (std::uint32_t run = 0; access.kind == AccessKind::kBulkRead && run < access.count;
           ++run) {
        const std::uint64_t begin = access.address + run * access.stride;
        for (std::uint64_t s = begin / 32; s * 32 < begin + access.bytes; ++s) {
          sectors.insert(s);
        }
      }
    }
  }
  return 32.0 * static_cast<double>(sectors.size());
}

double read_of(const Traffic& traffic) {
  double bytes = 0.0;
  for (const double term : traffic.read_bytes) {
    bytes += term;
  }
  return bytes;
}

}  // namespace

TEST_CASE("a step that drafts launches what the counted step did") {
  // Ranges of h200-fused-step and h200-demo-step, H100, 2026-11-25.
  const std::map<std::string, int> led = launches_of("nsa-1b", "nsa/d5k4n16/bfs/c8e/(FRRR)*");
  CHECK(led == std::map<std::string, int>{{"copy_rows", 4},
                                          {"linear", 86},
                                          {"rms_norm", 5},
                                          {"rope", 17},
                                          {"tree_attention", 4},
                                          {"top_logits", 5},
                                          {"nsa_route", 4},
                                          {"nsa_attend", 4},
                                          {"nsa_reuse", 12}});
  CHECK(launches_of("nsa-1b", "nsa/d6k8n64/bfs/c8e/F*").at("linear") == 96);
  CHECK(launches_of("nsa-1b", "nsa/d3k2n4/bfs/c1/(FR)*").at("linear") == 76);
  CHECK(launches_of("nsa-1b", "nsa/d8k8n128/bfs/c1/(FR)*").at("linear") == 106);
  const std::map<std::string, int> demo = launches_of("demo", "nsa/d5k4n32/bfs/c8e/FRRRRRRF");
  CHECK(demo == std::map<std::string, int>{{"draft_levels", 1},
                                           {"finish_tree", 1},
                                           {"rms_norm", 1},
                                           {"linear", 33},
                                           {"rope", 8},
                                           {"nsa_route", 2},
                                           {"nsa_attend", 2},
                                           {"nsa_reuse", 6},
                                           {"top_logits", 1},
                                           {"accept_tree", 1},
                                           {"commit_path", 1}});
}

TEST_CASE("a draft's levels have the passes that a sure draft runs") {
  for (const std::string text : {"d5k4n16", "d6k8n64", "d3k2n4", "d8k8n128", "d7k1n8"}) {
    const DraftChoice choice = Strategy::parse("nsa/" + text + "/bfs/c1/F*").draft;
    const DraftLevels levels = draft_levels_of(choice, 32000);
    const DraftPasses passes = draft_passes(choice);
    CAPTURE(text);
    REQUIRE(static_cast<double>(levels.rows.size()) == passes.passes);
    std::int64_t rows = 0;
    for (const std::int64_t level : levels.rows) {
      rows += level;
    }
    CHECK(static_cast<double>(rows) == Approx(passes.passes * passes.rows));
    CHECK(rows == static_cast<std::int64_t>(levels.parent.size()) + 1);
    for (std::size_t slot = 0; slot < levels.parent.size(); ++slot) {
      const std::int32_t parent = levels.parent[slot];
      REQUIRE(parent < static_cast<std::int32_t>(slot));
      CHECK(levels.depth[slot] ==
            (parent < 0 ? 0 : levels.depth[static_cast<std::size_t>(parent)] + 1));
    }
  }
}

TEST_CASE("tree attention reads its window, its path and its queries once from memory") {
  for (const std::int64_t queries : {1, 4, 64}) {
    TreeAttentionLaunch launch{.num_heads = 32,
                               .num_kv_heads = 8,
                               .head_dim = 64,
                               .context_len = 4096,
                               .first_position = 1,
                               .window = 512,
                               .k = 1ULL << 32,
                               .v = 2ULL << 32,
                               .k_tree = 3ULL << 32,
                               .v_tree = 4ULL << 32,
                               .q = 5ULL << 32,
                               .out = 6ULL << 32,
                               .lists = 7ULL << 32};
    for (std::int64_t i = 0; i < queries; ++i) {
      launch.parent.push_back(-1);
      launch.depth.push_back(0);
      launch.query.push_back(static_cast<std::int32_t>(i));
    }
    const Touched touched = touched_by(*trace_tree_attention(launch));
    const Traffic announced = traffic::tree_attention({.num_heads = 32,
                                                       .num_kv_heads = 8,
                                                       .head_dim = 64,
                                                       .context_len = 4096,
                                                       .first_position = 1,
                                                       .window = 512,
                                                       .num_queries = queries,
                                                       .num_nodes = queries});
    const double lists = (2.0 * 4.0 * static_cast<double>(queries) + 31.0) / 32.0;
    const double own = 2.0 * 8 * 64 * 2;  // a query's own position is one of the window's
    CAPTURE(queries);
    CHECK(touched.unique_read == read_of(announced) - own + 32.0 * std::floor(lists));
    CHECK(touched.written == static_cast<double>(queries * 32 * 64 * 2));
  }
}

TEST_CASE("the launch of all levels reads weights, window and tokens' rows once") {
  const LlmShape target = named_llm_shape("demo");
  const DraftShape draft = draft_shape_for(target);
  for (const std::string text : {"d7k1n8", "d5k4n32", "d6k8n64"}) {
    const DraftChoice choice = Strategy::parse("nsa/" + text + "/bfs/c1/F*").draft;
    REQUIRE(drafts_in_one_launch(draft, target.vocab, choice));
    AddressSpace space;
    LaunchSequence launches;
    append_draft({.shape = draft,
                  .choice = choice,
                  .context_len = 2048,
                  .one_launch = true,
                  .captured = space.place(128 * 3 * draft.hidden * 2)},
                 space, launches);
    REQUIRE(launches.size() == 1);
    CAPTURE(text);
    CHECK(launches.front()->shape().ctas == draft_ctas(draft, choice).total());
    CHECK(copied_once(*launches.front()) == read_of(traffic::draft_levels(draft, choice, 2048, 2)));
  }
}
