// What counters say, and what they do not.
#include "model/words/range_counters.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "model/launches/step_shape.h"

using namespace versieve;

namespace {

RangeMeasurement counted(double read, double written) {
  return {.path = "linear",
          .counters = {{"lts__t_requests.sum", 7.0, CounterStatus::kOk},
                       {kDramBytesRead, read, CounterStatus::kOk},
                       {kDramBytesWrite, written, CounterStatus::kOk}}};
}

}  // namespace

TEST_CASE("DRAM bytes are those read and written, of one range and of all") {
  const RangeMeasurement a = counted(100.0, 20.0), b = counted(3.0, 4.0);
  CHECK(dram_bytes(a)->read == 100.0);
  CHECK(dram_bytes(a)->written == 20.0);
  CHECK(dram_bytes(a)->total() == 120.0);
  CHECK(dram_bytes(std::vector{a, b})->read == 103.0);
  CHECK(dram_bytes(std::vector{a, b})->total() == 127.0);
  CHECK(counter_of(a, "lts__t_requests.sum") == 7.0);
}

TEST_CASE("a counter that is missing, not a number or not ok says nothing, nor does its point") {
  RangeMeasurement absent = counted(1.0, 1.0), dropped = absent, infinite = absent;
  absent.counters.pop_back();
  dropped.counters[1].status = CounterStatus::kDropped;
  infinite.counters[2].value = std::numeric_limits<double>::infinity();
  for (const RangeMeasurement& range : {absent, dropped, infinite}) {
    CHECK(!dram_bytes(range));
    CHECK(!dram_bytes(std::vector{counted(1.0, 1.0), range}));
  }
  CHECK(!dram_bytes(std::vector<RangeMeasurement>{}));
  CHECK(!counter_of(absent, "gpu__time_duration.sum"));
}

TEST_CASE("a step's shape is what its strategy asks for") {
  const LlmShape target = named_llm_shape("nsa-1b");
  const Strategy strategy = Strategy::parse("nsa/d5k4n16/dfs/c4a/(FR)*");
  const StepShape s = asked_step(strategy, target, draft_shape_for(target), 4096, 4);
  CHECK(s.target.name == "nsa-1b");
  CHECK(s.tree.nodes == 16);
  CHECK(s.num_queries == 16);
  CHECK(s.context_len == 4096);
  CHECK(s.refresh_layers == target.layers / 2);
  CHECK(s.refresh_layers + s.reuse_layers == target.layers);
  CHECK(s.element_bytes == 4);
  CHECK(s.group_size == 4);
  CHECK(s.group_mode == GroupMode::kApprox);
  CHECK(s.form == NsaForm::kFused);
}

TEST_CASE("a point's energy is of no launch, and adds nothing to its bytes") {
  PointMeasurement point;
  point.ranges = {counted(100.0, 20.0)};
  CHECK(!joules(point));
  point.ranges.push_back({.path = kEnergyRange, .launches = 200});
  point.ranges.back().counters = {{kEnergyJoules, 0.75, CounterStatus::kOk}};
  CHECK(joules(point) == 0.75);
  CHECK(dram_bytes(point.ranges)->total() == 120.0);
  CHECK(!dram_bytes(std::vector{point.ranges.back()}));
}
