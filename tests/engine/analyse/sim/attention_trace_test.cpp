// Traces against the traffic functions and against what the engine's own runs attend.
#include <catch2/catch.hpp>

#include "engine/analyse/sim/attention_traces.h"
#include "engine/analyse/sim/fused_cut.h"
#include "engine/analyse/sim/simulate_point.h"
#include "engine/measure/sweep/instrument.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "engine/measure/sweep/synthetic_layer.h"
#include "model/launches/nsa_fused.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/nsa_vanilla.h"
#include "tests/engine/analyse/sim/touched.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

PointKey key_of(const std::string& strategy, std::int64_t context, double overlap) {
  return {.model = "nsa-1b",
          .strategy = strategy,
          .dtype = Dtype::kBf16,
          .cache_state = CacheState::kColdRotate,
          .context_len = context,
          .num_queries = Strategy::parse(strategy).draft.nodes,
          .overlap = overlap};
}

const LaunchTrace& launch_of(const LaunchSequence& sequence, const std::string& path) {
  for (const auto& launch : sequence) {
    if (launch->shape().path == path) {
      return *launch;
    }
  }
  FAIL("no launch " + path);
  return *sequence.front();
}

// All accesses of a sequence, one after the other.
std::vector<Access> all_accesses(const LaunchSequence& sequence) {
  std::vector<Access> accesses;
  for (const auto& launch : sequence) {
    for (std::int64_t cta = 0; cta < launch->shape().ctas; ++cta) {
      for (std::int64_t step = 0; launch->append_step(cta, step, accesses); ++step) {
      }
    }
  }
  return accesses;
}

}  // namespace

TEST_CASE("unique bytes of the vanilla traces are those of the traffic functions") {
  const PointKey key = key_of("nsa/d5k4n16/bfs/c1/F*/form=vanilla", 4096, 0.8);
  const LaunchSequence launches = std::move(attention_sequences(key, {}, 1, 1).front());
  REQUIRE(launches.size() == 5);
  traffic::NsaVerifyShape shape{.nsa = {},
                                .num_heads = 32,
                                .num_kv_heads = 8,
                                .head_dim = 64,
                                .context_len = 4096,
                                .num_queries = 16};
  const Touched compressed = touched_by(launch_of(launches, "nsa_compressed"));
  CHECK(compressed.unique_read ==
        Approx(traffic::nsa_compressed(shape).total_read()).epsilon(0.01));
  CHECK(compressed.written == Approx(traffic::nsa_compressed(shape).total_write()).epsilon(0.01));
  const Touched select = touched_by(launch_of(launches, "nsa_select"));
  CHECK(select.unique_read == Approx(traffic::nsa_select(shape).total_read()).epsilon(0.05));
  const Touched window = touched_by(launch_of(launches, "nsa_window"));
  CHECK(window.unique_read == Approx(traffic::nsa_window(shape).total_read()).epsilon(0.03));
  CHECK(window.written == Approx(traffic::nsa_window(shape).total_write()).epsilon(0.01));
  const Touched combine = touched_by(launch_of(launches, "nsa_combine"));
  CHECK(combine.unique_read == Approx(traffic::nsa_combine(shape).total_read()).epsilon(0.03));
  CHECK(combine.written == Approx(traffic::nsa_combine(shape).total_write()).epsilon(0.01));
}

TEST_CASE("an exact group loads each of its blocks once") {
  double before = 1e30;
  for (const char* group : {"c1", "c4e", "c8e"}) {
    const PointKey key = key_of("nsa/d6k8n64/bfs/" + std::string(group) + "/(FR)*", 16384, 0.8);
    const LaunchSequence launches = std::move(attention_sequences(key, {}, 1, 1).front());
    REQUIRE(launches.size() == 1);
    const double read = touched_by(*launches.front()).keys;
    CAPTURE(group, read);
    // Selected blocks are most of it; four queries of overlap 0.8 have 1.6 times one's.
    CHECK(read < 0.85 * before);
    before = read;
  }
}

TEST_CASE(
    "what the fused launches store is what the traffic functions say, and all of it is read") {
  for (const std::int64_t context : {1024, 16384}) {
    const traffic::NsaVerifyShape shape{.nsa = {},
                                        .num_heads = 32,
                                        .num_kv_heads = 8,
                                        .head_dim = 64,
                                        .context_len = context,
                                        .num_queries = 64};
    CAPTURE(context);
    const auto stored = [&](const char* strategy, const char* path) {
      const auto sequences = attention_sequences(key_of(strategy, context, 0.8), {}, 1, 1);
      return touched_by(launch_of(sequences.front(), path)).written;
    };
    // Parts that announce themselves are written a second time: left blank.
    const double part = 64.0 * 32 * (64 + 2) * 4;
    CHECK(stored("nsa/d6k8n64/bfs/c1/F*", "nsa_attend") ==
          Approx(traffic::nsa_attend(shape).total_write() + kFusedSegments * part).epsilon(0.02));
    const double parts = kFusedSegments + traffic::nsa_compressed_parts(shape, kFusedSegments);
    CHECK(stored("nsa/d6k8n64/bfs/c1/(FR)*", "nsa_reuse") ==
          Approx(traffic::nsa_reuse(shape).total_write() + parts * part).epsilon(0.05));
    // Registers that finishing blocks spill are no part of the traffic.
    const double spills = 64.0 * 8 / 2 * kRouteSpills;  // of CTAs that finish two nodes each
    CHECK(stored("nsa/d6k8n64/bfs/c1/F*", "nsa_route") - spills ==
          Approx(traffic::nsa_route(shape).total_write()).epsilon(0.05));
  }
}

TEST_CASE("a run on the CPU and the sweep's declaration give the same trace") {
  constexpr std::int64_t kContext = 2048;
  const Strategy strategy = Strategy::parse("nsa/d3k2n4/bfs/c4a/(FR)*");
  const PointKey key = key_of(strategy.text(), kContext, 0.5);
  const auto ops = make_sweep_ops<float>(false, nullptr, 1);
  const LlmShape shape = named_llm_shape("nsa-1b");
  SyntheticLayer<float> layer(*ops, shape, kContext, 1, 1);
  const DraftTree grown = synthetic_tree(strategy.draft);
  const DraftTree tree = reordered(grown, traversal_order(grown, strategy.order));
  layer.set_tree(tree);
  layer.set_variant({.form = strategy.form,
                     .group_size = strategy.group_size,
                     .group_mode = strategy.group_mode,
                     .reuse = true});
  layer.set_overlap(0.5);
  layer.run(0);
  AttentionCase a = attention_case(shape, tree, kContext);
  a.group_size = strategy.group_size;
  a.group_mode = strategy.group_mode;
  a.reuse = true;
  a.indices = layer.selected_blocks();  // what the run attended
  AddressSpace space;
  place_shared(space, a);
  place_cache(space, a);
  const std::vector<Access> declared = all_accesses(attention_sequences(key, {}, 1, 1).front());
  CHECK(all_accesses(attention_traces(a)) == declared);
}

TEST_CASE("every launch's CTAs end and touch only their buffers") {
  for (const char* strategy : {"nsa/ar", "nsa/d3k2n4/dfs/c1/F*/form=vanilla",
                               "nsa/d6k8n64/bfs/c8a/F*", "nsa/d8k8n128/dfs/c8e/(FR)*"}) {
    for (const std::int64_t context : {31, 1000, 1024}) {
      PointKey key = key_of(strategy, context, 0.5);
      if (key.num_queries == 1) {
        key.overlap.reset();
      }
      const std::vector<LaunchSequence> sequences = attention_sequences(key, {}, 1, 1);
      for (const auto& launch : sequences.front()) {
        CAPTURE(strategy, context, launch->shape().path);
        CHECK(launch->shape().ctas % launch->shape().cluster == 0);
        std::vector<Access> accesses;
        for (std::int64_t cta = 0; cta < launch->shape().ctas; ++cta) {
          std::int64_t step = 0;
          while (launch->append_step(cta, step, accesses)) {
            ++step;
          }
          CHECK(step < 4096);
        }
        bool inside = true;
        for (const Access& access : accesses) {
          inside = inside && access.address >= (1ULL << 30) && access.address < (1ULL << 32) &&
                   access.bytes > 0 && access.count > 0;
        }
        CHECK(inside);
      }
    }
  }
}
