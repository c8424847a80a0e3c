// What the trace delivered in, one step's launches out: which run, which range, since when.
#include "engine/measure/sweep/traced_step.h"

#include <catch2/catch.hpp>

using namespace versieve;
using namespace versieve::engine;
using profiler::TracedWork;

namespace {

// A step's work in the order of launch: kernels and ranges, 10 ns each, 5 apart.
struct Launched {
  const char* kernel;
  const char* range;
};

void add(std::vector<TracedWork>& to, std::int64_t turn, const std::vector<Launched>& step,
         bool replayed, std::uint64_t start) {
  const std::uint32_t first_call = static_cast<std::uint32_t>(100 * turn + 1);
  for (std::size_t i = 0; i < step.size(); ++i) {
    to.push_back({.kernel = step[i].kernel,
                  .range = replayed ? "" : step[i].range,
                  .turn = turn,
                  .start_ns = start + 15 * i,
                  .end_ns = start + 15 * i + 10,
                  .stream = 7,
                  .blocks = step[i].kernel[0] == 'm' ? 0 : 4,
                  .threads = 32,
                  .call = first_call + (replayed ? 0 : static_cast<std::uint32_t>(i)),
                  .graph_node = replayed ? 40 + i : 0});
  }
}

const std::vector<Launched> kStep = {{"rows", "norm"},    {"gemm", "linear"}, {"memset", "linear"},
                                     {"attend", "fused"}, {"gemm", "linear"}, {"rows", "rope"},
                                     {"memcpy DtoH", ""}};

std::vector<TracedWork> runs_of(const std::vector<Launched>& step, bool replayed,
                                std::int64_t count) {
  std::vector<TracedWork> runs;
  for (std::int64_t turn = 0; turn < count; ++turn) {
    add(runs, turn, step, replayed, 1000 + 200 * static_cast<std::uint64_t>(turn));
  }
  return runs;
}

}  // namespace

TEST_CASE("of a step that the host leads each launch lies where it was launched") {
  const StepTrace trace = traced_step(runs_of(kStep, false, 3), {}).value();
  CHECK(!trace.replayed);
  CHECK(trace.period_ns == 200.0);
  REQUIRE(trace.launches.size() == kStep.size());
  for (std::size_t i = 0; i < kStep.size(); ++i) {
    CHECK(trace.launches[i].kernel == kStep[i].kernel);
    CHECK(trace.launches[i].range == kStep[i].range);
    CHECK(trace.launches[i].start_ns == static_cast<std::int64_t>(15 * i));
    CHECK(trace.launches[i].duration_ns == 10);
    CHECK(trace.launches[i].evidence ==
          (i + 1 < kStep.size() ? RangeEvidence::kLaunched : RangeEvidence::kUnknown));
  }
  CHECK(trace.busy_ns() == 70);
  CHECK(trace.length_ns() == 100);
}

TEST_CASE("a replayed step takes its ranges from the order of the same kernels") {
  std::vector<TracedWork> led;
  add(led, 0, kStep, false, 5000);
  const StepTrace trace = traced_step(runs_of(kStep, true, 3), led).value();
  CHECK(trace.replayed);
  for (std::size_t i = 0; i + 1 < kStep.size(); ++i) {  // "rows" lies in two ranges
    CHECK(trace.launches[i].range == kStep[i].range);
    CHECK(trace.launches[i].evidence == RangeEvidence::kOrder);
  }
  CHECK(trace.launches.back().evidence == RangeEvidence::kUnknown);
}

TEST_CASE(
    "where the sequences differ the rest aligns, a kernel of one range is known by its name") {
  std::vector<TracedWork> led;
  add(led, 0, kStep, false, 5000);
  // Another draft before it, and "attend" twice.
  const std::vector<Launched> other = {{"grow", ""},   {"rows", ""}, {"gemm", ""}, {"attend", ""},
                                       {"attend", ""}, {"gemm", ""}, {"rows", ""}, {"rows", ""}};
  const StepTrace trace = traced_step(runs_of(other, true, 3), led).value();
  const std::vector<std::pair<std::string, RangeEvidence>> expected = {
      {"", RangeEvidence::kUnknown},     {"norm", RangeEvidence::kOrder},
      {"linear", RangeEvidence::kOrder}, {"fused", RangeEvidence::kOrder},
      {"fused", RangeEvidence::kName},   {"linear", RangeEvidence::kOrder},
      {"rope", RangeEvidence::kOrder},   {"", RangeEvidence::kUnknown}};
  REQUIRE(trace.launches.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i, trace.launches[i].range);
    CHECK(trace.launches[i].range == expected[i].first);
    CHECK(trace.launches[i].evidence == expected[i].second);
  }
}

TEST_CASE("a run that began a recording anew is not the one that is shown, nor first or last") {
  std::vector<TracedWork> runs = runs_of(kStep, true, 5);
  std::vector<TracedWork> more;
  add(more, 1, kStep, true, 1350);  // two graphs in turn 1
  runs.insert(runs.end(), more.begin(), more.end());
  const StepTrace trace = traced_step(runs, {}).value();
  CHECK(trace.launches.size() == kStep.size());
  CHECK(trace.period_ns == 200.0);
  CHECK(!traced_step(runs_of(kStep, true, 2), {}).has_value());
  CHECK(!traced_step({}, {}).has_value());
}
