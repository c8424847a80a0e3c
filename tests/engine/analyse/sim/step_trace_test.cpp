// A step that drafts nothing: its launches in the engine's order, and the bytes of its weights.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <vector>

#include "engine/analyse/sim/simulate_point.h"
#include "engine/analyse/sim/step_sequence.h"
#include "engine/analyse/sim/trace_linear.h"
#include "model/words/error.h"
#include "tests/engine/analyse/sim/touched.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

PointKey step_key(const std::string& strategy, std::int64_t context) {
  return {.workload = WorkloadKind::kStep,
          .model = "nsa-1b",
          .strategy = strategy,
          .dtype = Dtype::kBf16,
          .cache_state = CacheState::kAsIs,
          .context_len = context,
          .num_queries = Strategy::parse(strategy).draft.nodes};
}

}  // namespace

TEST_CASE("a step's launches are the engine's") {
  const LaunchSequence launches =
      step_point_sequence(step_key("nsa/ar/bfs/c1/(FR)*", 1024), {}, 1, false);
  std::map<std::string, int> counts;
  for (const auto& launch : launches) {
    counts[launch->shape().path] += 1;
  }
  // As the engine enqueues them: 65 linear, 1 rms_norm (the others are folded; rotary angles are
  // in it), 16 rope for 16 layers.
  CHECK(counts["linear"] == 65);
  CHECK(counts["rms_norm"] == 1);
  CHECK(counts["rope"] == 16);
  CHECK(counts["nsa_route"] == 8);
  CHECK(counts["nsa_attend"] == 8);
  CHECK(counts["nsa_reuse"] == 8);
  CHECK(counts["top_logits"] == 1);
  CHECK(counts["copy_rows"] == 3);  // keys, values and keys before rotary, to the caches
}

TEST_CASE("one launch for a plain step's layers asks for what its parts ask for") {
  const PointKey key = step_key("nsa/ar/bfs/c1/(FR)*", 1024);
  const LaunchSequence parts = step_point_sequence(key, {}, 1, false);
  const LaunchSequence launches = step_point_sequence(key, {}, 1, true);
  REQUIRE(parts.size() == launches.size());
  std::map<std::string, int> counts;
  int begun = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    counts[launches[i]->shape().path] += 1;
    begun += launches[i]->shape().goes_on ? 0 : 1;
    std::vector<Access> a, b;
    parts[i]->append_step(0, 0, a);
    launches[i]->append_step(0, 0, b);
    CHECK(a == b);
  }
  CHECK(counts["rms_norm"] == 1);
  CHECK(counts["rope"] == 0);
  CHECK(counts["linear"] == 1);  // the head
  CHECK(counts["top_logits"] == 1);
  CHECK(counts["decode_layers"] == 16 * 5 + 8 * 2 + 8);
  CHECK(begun == 1 + 1 + 1 + 1 + 3);  // embedding, layers, head, its largest, commits
  // Trees keep their launches.
  for (const auto& launch :
       step_point_sequence(step_key("nsa/d3k2n4/bfs/c1/F*", 1024), {}, 1, true)) {
    CHECK(launch->shape().path != "decode_layers");
  }
}

TEST_CASE("a step over a dense cache commits its token's rows once for all layers") {
  for (const std::string method : {"dense", "resa:b16p0.1f32"}) {
    PointKey key = step_key(method + "/ar", 4096);
    key.model = "dense-1b";
    std::map<std::string, int> counts;
    for (const auto& launch : step_point_sequence(key, {}, 1, true)) {
      counts[launch->shape().path] += 1;
    }
    CAPTURE(method);
    CHECK(counts["linear"] == 65);
    CHECK(counts["rope"] == 16);
    CHECK(counts["flash_decode"] == (method == "dense" ? 16 : 0));
    CHECK(counts["flash_combine"] == (method == "dense" ? 16 : 0));
    CHECK(counts["resa_decode"] == (method == "dense" ? 0 : 16));
    CHECK(counts["block_keys"] == (method == "dense" ? 0 : 1));
    CHECK(counts["copy_rows"] == 2);
    CHECK(counts["decode_layers"] == 0);
  }
}

TEST_CASE("a step of SpecAttn runs its draft model, chooses, and verifies over one list") {
  PointKey key = step_key("specattn:p0.9/d3k1n4/bfs/c1/F*", 4096);
  key.model = "dense-1b";
  const LaunchSequence launches = step_point_sequence(key, {}, 1, true);
  std::map<std::string, int> counts;
  std::map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    counts[launches[i]->shape().path] += 1;
    last[launches[i]->shape().path] = i;
  }
  CHECK(counts["attention_weights"] == 0);  // the draft's merges make the mean
  CHECK(counts["top_p"] == 2);
  CHECK(counts["token_list"] == 2);
  CHECK(counts["flash_decode"] == 3 + 16);
  CHECK(counts["flash_combine"] == 3 + 16);
  CHECK(counts["linear"] == 3 * 5 + 65);
  CHECK(last["top_p"] < last["token_list"]);
  // Passes after each other read the same weights: a stream of them is a draft's once.
  std::vector<Access> first, second;
  const auto nth = [&](const char* path, int n) -> const LaunchTrace& {
    for (const auto& launch : launches) {
      if (launch->shape().path == path && n-- == 0) {
        return *launch;
      }
    }
    throw std::runtime_error("no such launch");
  };
  nth("linear", 0).append_step(0, 0, first);
  nth("linear", 5).append_step(0, 0, second);
  CHECK(first == second);
  // The two first layers read all, the others the list.
  const auto tokens_of = [&](int n) { return touched_by(nth("flash_decode", n)).keys; };
  CHECK(tokens_of(3) == tokens_of(4));
  CHECK(tokens_of(5) < 0.8 * tokens_of(4));
  CHECK(tokens_of(18) == tokens_of(5));
}

TEST_CASE("of a long history only the end is run, and it leaves what all of it leaves") {
  MemoryMachine machine = memory_machine(hardware_by_key("h100-sxm"));
  machine.l2_bytes = 1 << 20;
  CollectedRuns runs;
  const auto matrix = [](std::uint64_t w, std::int64_t n) {
    return trace_linear({.n = n, .k = 1024, .m = 1024, .x = 1ULL << 32, .w = w, .y = 1ULL << 34});
  };
  constexpr std::uint64_t kWeights = 1ULL << 33, kBytes = 2 << 20;
  for (std::uint64_t set = 0; set < 40; ++set) {
    runs.sets.emplace_back();
    runs.sets.back().push_back(matrix(kWeights + set * kBytes, 16));
    runs.uncounted.push_back(static_cast<std::size_t>(set));
  }
  runs.sets.emplace_back();
  runs.sets.back().push_back(matrix(kWeights + 39 * kBytes, 64));
  runs.counted = {40};
  const std::vector<SimulatedRange> cut = collect(machine, collection_warmed_up(), runs);

  MemorySystem memory(machine);
  double now = 0.0;
  for (const LaunchSequence& set : runs.sets) {
    const std::vector<SimulatedRange> whole = run_sequence(machine, memory, set, now);
    if (&set == &runs.sets.back()) {
      const MemoryCounters& a = cut.front().counters;
      const MemoryCounters& b = whole.front().counters;
      CHECK(a.dram_read_bytes == Approx(b.dram_read_bytes).epsilon(0.01));
      CHECK(a.l2_requests == Approx(b.l2_requests).epsilon(0.01));
      CHECK(a.l2_hit_rate() == Approx(b.l2_hit_rate()).margin(0.005));
    }
  }
}

TEST_CASE("a period's pass runs its tokens as a chain and wants one row of logits") {
  PointKey key = step_key("resa:b16p0.1f32/ar", 4096);
  key.workload = WorkloadKind::kRectifiedStep;
  key.model = "dense-1b";
  const SimulationPlan plan{.machine = memory_machine(hardware_by_key("h100-sxm"))};
  const PointMeasurement point = simulate_point(key, {}, plan);
  REQUIRE(point.status == PointStatus::kOk);
  std::map<std::string, std::int64_t> counts;
  for (const RangeMeasurement& range : point.ranges) {
    counts[range.path] = range.launches;
  }
  // Ranges of the sweep `terms`, but for block_keys.
  CHECK(counts == std::map<std::string, std::int64_t>{{"rms_norm", 1},
                                                      {"linear", 65},
                                                      {"rope", 16},
                                                      {"dense_pass", 16},
                                                      {"dense_pass_merge", 16},
                                                      {"copy_rows", 2}});
  key.strategy = "resa:b16p0.1f0/ar";
  CHECK(simulate_point(key, {}, plan).status == PointStatus::kRefused);
}

TEST_CASE("a linear layer reads its weights once from DRAM, whatever its rows") {
  for (const bool swiglu : {false, true}) {
    for (const auto& [n, m] : {std::pair<std::int64_t, std::int64_t>{1, 1000},
                               {100, 1000},
                               {200, 1000},
                               {100, 3200},  // tiles of many rows: in pairs, slices shared out
                               {200, 2504},
                               {300, 2504}}) {
      const LinearLaunch linear{.n = n,
                                .k = 2048,
                                .m = m,
                                .swiglu = swiglu,
                                .x = 1ULL << 32,
                                .w = 1ULL << 33,
                                .y = 1ULL << 34};
      MemoryMachine machine = memory_machine(hardware_by_key("h200-sxm"));
      MemorySystem memory(machine);
      run_launch(*trace_linear(linear), machine, memory, 0.0);
      const double weights = (swiglu ? 2.0 : 1.0) * static_cast<double>(m) * 2048 * 2;
      const double inputs = static_cast<double>(n) * 2048 * 2;
      CAPTURE(swiglu, n, m);
      CHECK(memory.counters().dram_read_bytes == weights + inputs);
      CHECK(memory.dirty_bytes() >= n * m * 2);
    }
  }
}

TEST_CASE("blocks of many rows stay: pairs go through all tiles once, each at a pace of its own") {
  for (const std::int64_t n : {1000, 4096}) {
    const LinearLaunch linear{
        .n = n, .k = 512, .m = 8192, .x = 1ULL << 32, .w = 1ULL << 33, .y = 1ULL << 34};
    const std::unique_ptr<LaunchTrace> trace = trace_linear(linear);
    CAPTURE(n);
    CHECK(trace->shape().ctas == 132);  // an SM each, though tiles are many more
    CHECK(trace->shape().pace_spread > 0.0);
    std::map<std::uint64_t, int> rows;  // written, by where they begin
    std::size_t fewest = 1 << 20, most = 0;
    for (std::int64_t cta = 0; cta < trace->shape().ctas; ++cta) {
      std::vector<Access> accesses;
      std::size_t tiles = 0;
      for (std::int64_t step = 0; trace->append_step(cta, step, accesses); ++step) {
        for (const Access& access : accesses) {
          for (std::uint32_t i = 0; access.kind == AccessKind::kWrite && i < access.count; ++i) {
            rows[access.address + i * access.stride] += static_cast<int>(access.bytes);
          }
          tiles += access.kind == AccessKind::kWrite ? 1 : 0;
        }
        accesses.clear();
      }
      fewest = std::min(fewest, tiles);
      most = std::max(most, tiles);
    }
    CHECK(most > 1);
    CHECK(most - fewest <= 1);
    std::int64_t bytes = 0;
    for (const auto& [row, written] : rows) {
      CHECK(written == 256);  // 128 columns, by one CTA
      bytes += written;
    }
    CHECK(bytes == n * 8192 * 2);
  }
}

TEST_CASE("what has no traces is refused with a reason") {
  PointKey key = step_key("nsa/ar", 1024);
  key.workload = WorkloadKind::kAcceptance;
  const SimulationPlan plan{.machine = memory_machine(hardware_by_key("h200-sxm"))};
  CHECK(simulate_point(key, {}, plan).status == PointStatus::kRefused);
  key.workload = WorkloadKind::kAttention;
  key.strategy = "nsa/nonsense";
  CHECK_THROWS_AS(simulate_point(key, {}, plan), Error);
}
