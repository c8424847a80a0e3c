// Kernels alone: what their traces ask for is what the launches are said to move.
#include <catch2/catch.hpp>
#include <map>

#include "engine/analyse/sim/kernel_sequences.h"
#include "engine/analyse/sim/simulate_point.h"
#include "model/launches/topk.h"
#include "tests/engine/analyse/sim/touched.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

PointKey kernel_key(WorkloadKind workload, const std::string& text, std::int64_t length,
                    std::int64_t rows, Dtype dtype) {
  return {.workload = workload,
          .model = "kernel",
          .strategy = text,
          .dtype = dtype,
          .cache_state = CacheState::kColdRotate,
          .context_len = length,
          .num_queries = rows};
}

std::map<std::string, Touched> touched_of(const PointKey& key) {
  std::map<std::string, Touched> touched;
  const std::vector<LaunchSequence> sets = kernel_sequences(key, 1e6, 1);
  REQUIRE(sets.size() == 1);
  for (const auto& launch : sets.front()) {
    const Touched own = touched_by(*launch);
    Touched& all = touched[launch->shape().path];
    all.read += own.read;
    all.written += own.written;
    all.unique_read += own.unique_read;
  }
  return touched;
}

}  // namespace

TEST_CASE("top-k reads its scores once from memory and writes k results a row") {
  for (const std::string text : {"topk:radix/k256", "topk:gvr/k256/hint0.75"}) {
    for (const std::int64_t length : {8192, 100000, 262144}) {
      for (const std::int64_t rows : {1, 32, 128}) {
        const PointKey key = kernel_key(WorkloadKind::kTopk, text, length, rows, Dtype::kF32);
        const Touched topk = touched_of(key)["topk"];
        const double scores = static_cast<double>(rows * length * 4);
        const bool guesses = text.find("gvr") != std::string::npos && !topk_is_short(length, rows);
        CAPTURE(text, length, rows);
        CHECK(topk.unique_read == scores + (guesses ? static_cast<double>(rows * 256 * 4) : 0.0));
        CHECK(topk.written == static_cast<double>(rows * 256 * 8));
        // Rows that are not kept are read again; those that are, but for the chosen scores, not.
        const TopkLayout layout =
            topk_layout({.length = length, .rows = rows, .element_bytes = 4, .guesses = guesses});
        const double most = scores + static_cast<double>(rows * 256 * 4) * (guesses ? 8.0 : 1.0);
        CHECK((topk.read <= most + static_cast<double>(rows * layout.cluster * 8192)) ==
              (guesses || layout.registers));
      }
    }
  }
}

TEST_CASE("a token-level indexer reads its keys once and hands its scores to the selection") {
  for (const std::int64_t rows : {1, 8}) {
    const PointKey key =
        kernel_key(WorkloadKind::kTopk, "topk:gvr/k256/index64x128", 32768, rows, Dtype::kBf16);
    std::map<std::string, Touched> touched = touched_of(key);
    CHECK(touched["index_scores"].read == 32768.0 * 128 * 2);
    CHECK(touched["index_scores"].written == static_cast<double>(rows) * 32768 * 2);
    CHECK(touched["topk"].unique_read == static_cast<double>(rows) * 32768 * 2);
  }
}

TEST_CASE("a sort writes keys and indices digit by digit") {
  const PointKey key = kernel_key(WorkloadKind::kTopk, "topk:sort/k256", 8192, 4, Dtype::kF32);
  const Touched sorted = touched_of(key)["topk"];
  const double pairs = 4.0 * 8192 * 8;
  CHECK(sorted.written >= 5.0 * pairs);  // as they come, then by four digits
  CHECK(sorted.written <= 5.0 * pairs + 4.0 * 256 * 16);
}

TEST_CASE("samplers read each row of logits once from memory") {
  for (const std::int64_t vocab : {32000, 128256}) {
    for (const std::int64_t nodes : {2, 9}) {
      const double row = static_cast<double>(vocab * 2);
      const double rows = static_cast<double>(2 * nodes - 1);
      CAPTURE(vocab, nodes);
      for (const std::string form : {"exact", "sigmoid"}) {
        const PointKey key = kernel_key(WorkloadKind::kSampling, "sampling:" + form + "/chain/r1",
                                        vocab, nodes, Dtype::kBf16);
        CHECK(touched_of(key)["spec_chain"].unique_read == rows * row);
      }
      std::map<std::string, Touched> baseline = touched_of(kernel_key(
          WorkloadKind::kSampling, "sampling:baseline/chain/r1", vocab, nodes, Dtype::kBf16));
      CHECK(baseline["spec_softmax"].unique_read == rows * row);
      // max(0, p - q) of every drafted position.
      const double residual = static_cast<double>(nodes - 1) * 2.0 * row;
      CHECK(baseline["spec_difference"].unique_read == Approx(2.0 * residual).epsilon(0.05));
      CHECK(baseline["spec_sum"].unique_read == residual);
      CHECK(baseline["spec_draw"].unique_read == 2.0 * row);
    }
    // A tree's inner nodes: 16 nodes of four children each.
    std::map<std::string, Touched> tree = touched_of(
        kernel_key(WorkloadKind::kSampling, "sampling:exact/k4/r1", vocab, 16, Dtype::kBf16));
    CHECK(tree["tree_tests"].unique_read == 4.0 * static_cast<double>(vocab * 2));
  }
}

TEST_CASE("a machine's figures are simulated as they are taken") {
  const SimulationPlan plan{.machine = memory_machine(hardware_by_key("h100-sxm"))};
  const PointMeasurement copy = simulate_point(
      kernel_key(WorkloadKind::kMachine, "machine:copy", 1024, 1, Dtype::kBf16), {}, plan);
  REQUIRE(copy.ranges.size() == 1);
  CHECK(copy.ranges[0].path == "copy_rows");
  const PointMeasurement empty = simulate_point(
      kernel_key(WorkloadKind::kMachine, "machine:launch/c64", 1, 1, Dtype::kBf16), {}, plan);
  CHECK(empty.ranges[0].launches == 64);
  CHECK(touched_of(kernel_key(WorkloadKind::kMachine, "machine:gemm/k256m512", 1, 1,
                              Dtype::kBf16))["linear"]
            .unique_read == 256.0 * 513 * 2);
}

TEST_CASE("what an empty launch counts more on a card is each launch's there") {
  const MemoryMachine plain = memory_machine(hardware_by_key("h100-sxm"));
  const MemoryMachine counted = counted_on(plain, {.requests = 73000.0, .hits = 280.0});
  CHECK(counted.launch_requests == plain.launch_requests + 71000.0);
  CHECK(counted.overhead_hit_share * counted.launch_requests ==
        Approx(plain.overhead_hit_share * plain.launch_requests + 71000.0 * 280.0 / 73000.0));
  CHECK(counted_on(plain, {.requests = 100.0}).launch_requests == plain.launch_requests);
}
