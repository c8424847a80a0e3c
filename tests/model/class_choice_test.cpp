#include "model/plan/class_choice.h"

#include <catch2/catch.hpp>

using namespace versieve;

namespace {

PlanEntry entry(PrecisionClass precision, std::int64_t rank, const char* strategy,
                double throughput, const char* baseline = "") {
  PlanEntry out;
  out.precision = precision;
  out.rank = rank;
  out.baseline = baseline;
  out.evaluation.strategy = Strategy::parse(strategy);
  out.evaluation.throughput = throughput;
  return out;
}

}  // namespace

TEST_CASE("a class whose own tuples are behind a baseline names its own best and the baseline") {
  using enum PrecisionClass;
  PlanTable table;
  table.buckets = {{0, 4096}};
  table.entries = {entry(kSparse, 3, "resa:b16p0.1f0/ar", 1200.0),
                   entry(kSparse, 1, "nsa/d8k8n128/bfs/c1/F*", 3476.4, "fixed"),
                   entry(kSparse, 2, "nsa/ar", 1500.0, "autoregressive"),
                   entry(kStrict, 1, "nsa/d6k6n32/bfs/c1/F*", 4400.0),
                   entry(kStrict, 2, "nsa/d8k8n128/bfs/c1/F*", 3476.4, "fixed"),
                   entry(kReuseOnly, 1, "nsa/ar", 1500.0, "autoregressive")};
  const ClassChoice sparse = class_choice(table, 0, kSparse);
  REQUIRE(sparse.best != nullptr);
  CHECK(sparse.best->rank == 3);
  REQUIRE(sparse.ahead != nullptr);
  CHECK(sparse.ahead->rank == 1);
  CHECK(own_text(sparse) ==
        "the best of its own is below the fixed baseline, 3476 tokens/s: resa:b16p0.1f0/ar, "
        "1200 tokens/s");
  const ClassChoice strict = class_choice(table, 0, kStrict);
  CHECK(strict.best->rank == 1);
  CHECK(strict.ahead == nullptr);
  const ClassChoice baselines_alone = class_choice(table, 0, kReuseOnly);
  CHECK(baselines_alone.best->baseline == "autoregressive");
  CHECK(baselines_alone.ahead == nullptr);
  CHECK(class_choice(table, 0, kApproxOnly).best == nullptr);
}
