// What a fit takes out of a database: one device's points, and no counters that were taken cold.
#include "db/evidence.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/words/chain_share.h"
#include "model/words/error.h"
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
  store.finish_run(id, RunStatus::kComplete);
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

TEST_CASE(
    "a pair's evidence is asked for by its hash, and another pair of its name is none of it") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  Store store = Store::open(path, OpenMode::kCreateOrOpen);
  const PairId own{"pair", std::string(64, 'a')};
  const PairId other{"pair", std::string(64, 'b')};
  const auto of = [](const PairId& pair, int number) {
    PointMeasurement point = sample_point(number);
    point.key.model = pair.name;
    point.key.pair = pair.sha256;
    return point;
  };
  PointMeasurement nameless = of(own, 5);
  nameless.key.pair.clear();
  // Acceptance is every third point, steps are those before; keys of both pairs are the same.
  store_run(store, sample_run("a"),
            {of(own, 2), of(other, 2), nameless, of(own, 1), of(other, 1), sample_point(4)});
  store_run(store, sample_run("b", "NVIDIA H100"), {of(own, 2), of(own, 1)});
  const PairEvidence evidence = evidence_of_pair(store, own, "NVIDIA H200");
  CHECK(evidence.acceptance.size() == 2);  // wherever it ran
  CHECK(evidence.steps.size() == 1);       // on that device
  for (const PointMeasurement& m : evidence.acceptance) {
    CHECK(m.key.pair == own.sha256);
  }
  CHECK(evidence.steps[0].key.pair == own.sha256);
  CHECK(evidence.namesakes == std::vector<PairId>{other});
  const PairEvidence none = evidence_of_pair(store, {"pair", std::string(64, 'c')}, "NVIDIA H200");
  CHECK(none.quality.empty());
  CHECK(none.acceptance.empty());
  CHECK(none.steps.empty());
  CHECK(none.namesakes == std::vector<PairId>{own, other});
  // No geometry is fitted to steps of anybody's weights.
  const Evidence fitted = evidence_of(store, "NVIDIA H200");
  CHECK(fitted.left_out.at(kOfPair) == 2);
  CHECK(fitted.runs == std::vector<std::string>{"a"});
  CHECK(evidence_of(store, "NVIDIA H100").runs.empty());
  CHECK(std::count_if(fitted.points.begin(), fitted.points.end(), [](const PointMeasurement& m) {
          return m.key.workload == WorkloadKind::kStep;
        }) == 1);
  CHECK(timed_steps(store).size() == 4);  // of two pairs, of own on two devices, of a geometry
}

TEST_CASE("what strategies cost a pair is read by its hash, the oldest run's rows first") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  const PairId own{"pair", std::string(64, 'a')};
  const PairId other{"pair", std::string(64, 'b')};
  const auto of = [](const PairId& pair, int number) {
    QualityPoint point = sample_quality(number);
    point.pair = pair;
    return point;
  };
  RunRecord newer = sample_run("newer"), older = sample_run("older", "NVIDIA H100");
  older.started_utc = "2026-11-19T08:00:00Z";
  RunRecord of_chains = sample_run("chains");
  of_chains.started_utc = "2026-11-19T07:00:00Z";
  newer.kind = older.kind = of_chains.kind = "quality";
  of_chains.configuration = "asked";
  store.add_quality(store.begin_run(newer), {of(own, 0), of(other, 0), of(own, 1)});
  store.add_quality(store.begin_run(older), {of(own, 2), of(other, 3)});
  const std::int64_t chains = store.begin_run(of_chains);
  store.add_diagnostic(chains, "info", "a remark", "none of it");
  store.add_diagnostic(chains, "info", kChainShares, "[rows]");
  // Stored later, measured before.
  const PairEvidence evidence = evidence_of_pair(store, own, "NVIDIA H200");
  CHECK(evidence.quality == std::vector<QualityPoint>{of(own, 2), of(own, 0), of(own, 1)});
  CHECK(quality_points(store).size() == 5);
  REQUIRE(evidence.quality_runs.size() == 3);
  CHECK(evidence.quality_runs[0].request == "asked");
  CHECK(evidence.quality_runs[0].chain_shares == "[rows]");
  CHECK(evidence.quality_runs[2].chain_shares.empty());
}

TEST_CASE("timed steps stand by model and device, without predictions") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  PointMeasurement untimed = sample_point(4);  // steps: 1, 4, 7
  untimed.time_ns.clear();
  store_run(store, sample_run("a"), {sample_point(0), sample_point(1), sample_point(7), untimed});
  store_run(store, sample_run("b", std::string(kSimulatorDevice) + "h200-sxm"), {sample_point(1)});
  const std::vector<TimedSteps> steps = timed_steps(store);
  REQUIRE(steps.size() == 1);
  CHECK(steps[0].model == "demo-nsa");
  CHECK(steps[0].device == "NVIDIA H200");
  CHECK(steps[0].points.size() == 2);
}

TEST_CASE("the device of a fit is the named one, the machine's, or the one with most points") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  Store store = Store::open(path, OpenMode::kCreateOrOpen);
  store_run(store, sample_run("a", "NVIDIA H200"), {sample_point(0), sample_point(1)});
  store_run(store, sample_run("b", "NVIDIA H100 80GB HBM3"), {sample_point(0)});
  store_run(store, sample_run("c", "a card nobody lists"),
            {sample_point(0), sample_point(1), sample_point(3)});
  CHECK(fitted_device(store, "", "") == "NVIDIA H200");
  CHECK(fitted_device(store, "", "h100-sxm") == "NVIDIA H100 80GB HBM3");
  CHECK(fitted_device(store, "h100", "") == "NVIDIA H100 80GB HBM3");
  CHECK(fitted_device(store, "nobody", "") == "a card nobody lists");
  store_run(store, sample_run("d", "NVIDIA H200 NVL"), {sample_point(0)});
  CHECK(fitted_device(store, "nvidia h200", "") == "NVIDIA H200");  // a whole name
  const auto refused = [&](const std::string& wanted, ExitCode code) {
    try {
      fitted_device(store, wanted, "");
    } catch (const Error& e) {
      CHECK(e.code() == code);
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(refused("nvidia", ExitCode::kUsage).find("several devices' names in " + path) !=
        std::string::npos);
  CHECK(refused("B200", ExitCode::kAnswerNo).find("points of NVIDIA H100 80GB HBM3, NVIDIA H200") !=
        std::string::npos);
}

TEST_CASE("a store without a device to fit to says what it holds instead") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  PointMeasurement imported = sample_point(0), simulated = sample_point(1);
  imported.key.backend = Backend::kImported;
  simulated.key.backend = Backend::kSimulator;
  store_run(store, sample_run("a"), {imported, simulated});
  try {
    fitted_device(store, "", "");
    FAIL("nothing was measured");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::kAnswerNo);
    CHECK(std::string(e.what()).find("no measured attention or step points at all; 1 simulated and "
                                     "1 imported ones are shown, never fitted to") !=
          std::string::npos);
  }
}
