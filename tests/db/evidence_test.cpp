// What a fit takes out of a database: one device's points, and no counters that were taken cold.
#include "db/evidence.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/db/files.h"
#include "tests/db/sample_points.h"

using namespace versieve;
using namespace versieve::db;
using namespace versieve::test;

namespace {

void store_run(Store& store, const RunRecord& run, const std::vector<PointMeasurement>& points) {
  const std::int64_t id = store.begin_run(run);
  for (const PointMeasurement& point : points) {
    store.add_point(id, point);
  }
  store.finish_run(id, "complete");
}

}  // namespace

TEST_CASE("counters that were taken right after a collection opened are left out, times stay") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  RunRecord warm = sample_run("warm"), cold = sample_run("cold"), plain = sample_run("plain");
  warm.configuration = R"({"counter_repetitions": 2, "counter_warm_up": true})";
  cold.configuration = R"({"counter_repetitions": 2})";
  plain.configuration = "written by hand";
  PointMeasurement timed = sample_point(3);  // times alone
  for (RangeMeasurement& range : timed.ranges) {
    range.counters.clear();
  }
  store_run(store, warm, {sample_point(0), sample_point(1)});
  store_run(store, cold, {sample_point(0), timed});
  store_run(store, plain, {sample_point(1)});
  CHECK(store.run("warm")->record.counted_warm);
  CHECK(!store.run("cold")->record.counted_warm);
  CHECK(store.run("plain")->record.counted_warm);

  const Evidence evidence = evidence_of(store, "NVIDIA H200");
  CHECK(evidence.points.size() == 4);
  CHECK(evidence.runs == std::vector<std::string>{"warm", "cold", "plain"});
  REQUIRE(evidence.left_out.size() == 1);
  CHECK(evidence.left_out.at(kCountedCold) == 1);
  CHECK(left_out_text(evidence.left_out).find("1 points, counted right after") !=
        std::string::npos);
  CHECK(left_out_text({}).empty());
}

TEST_CASE("evidence is one device's times and every device's acceptance") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  RunRecord imported = sample_run("c");
  imported.kind = std::string(kImportedKind) + "csv";
  store_run(store, sample_run("a"), {sample_point(0), sample_point(1)});
  store_run(store, sample_run("b", "NVIDIA H100"), {sample_point(0), sample_point(2)});
  store_run(store, imported, {sample_point(2)});
  const Evidence evidence = evidence_of(store, "NVIDIA H200");
  CHECK(evidence.device == "NVIDIA H200");
  CHECK(evidence.runs == std::vector<std::string>{"a"});
  const auto count = [&](WorkloadKind kind) {
    return std::count_if(evidence.points.begin(), evidence.points.end(),
                         [&](const PointMeasurement& m) { return m.key.workload == kind; });
  };
  CHECK(count(WorkloadKind::kAttention) == 1);
  CHECK(count(WorkloadKind::kStep) == 1);
  CHECK(count(WorkloadKind::kAcceptance) == 2);
  CHECK(evidence_of(store, "NVIDIA A100").runs.empty());
}
