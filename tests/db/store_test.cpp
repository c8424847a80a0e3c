// What is stored comes back as it was; filters, overview and resume see the right points.
#include "db/store.h"

#include <catch2/catch.hpp>

#include "db/sqlite.h"
#include "db/summary.h"
#include "tests/db/files.h"
#include "tests/db/sample_points.h"

using namespace versieve;
using namespace versieve::db;
using namespace versieve::test;

TEST_CASE("what a strategy costs comes back as it was stored, a key once a run") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  const std::vector<QualityPoint> first = {sample_quality(0), sample_quality(1)};
  const std::vector<QualityPoint> second = {sample_quality(2), sample_quality(1)};
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    const std::int64_t run_a = store.begin_run(sample_run("run-a"));
    const std::int64_t run_b = store.begin_run(sample_run("run-b"));
    store.add_quality(run_a, first);
    store.add_quality(run_b, second);
    CHECK(error_of([&] {
            store.add_quality(run_a, {sample_quality(4), sample_quality(0)});
          }).code() != ExitCode::kDone);
    CHECK(store.quality(run_a) == first);
    CHECK(store.quality(run_b) == second);
  }
  const Store store = Store::open(path, OpenMode::kReadOnly);
  CHECK(store.quality() == std::vector<QualityPoint>{first[0], first[1], second[0], second[1]});
  CHECK(store.points({}).empty());
}

TEST_CASE("every field of a point and a run comes back as it was stored") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  RunRecord run = sample_run("run-a");
  PointMeasurement refused = sample_point(6);
  refused.status = PointStatus::kRefused;
  refused.reason = "the window is wider than the kernel's";
  refused.time_ns.clear();
  refused.ranges.clear();
  refused.acceptance.reset();
  refused.adjacent_overlap.reset();
  std::vector<PointMeasurement> points = {sample_point(0), sample_point(1), sample_point(2),
                                          refused};
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    const std::int64_t run_id = store.begin_run(run);
    for (const PointMeasurement& point : points) {
      store.add_point(run_id, point);
    }
    store.finish_run(run_id, RunStatus::kComplete);
  }
  const Store store = Store::open(path, OpenMode::kReadOnly);
  const std::vector<PointMeasurement> read = store.points({});
  REQUIRE(read.size() == points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(describe(read[i]) == describe(points[i]));
  }
  const std::optional<StoredRun> stored = store.run("run-a");
  REQUIRE(stored.has_value());
  run.status = RunStatus::kComplete;
  run.finished_utc = stored->record.finished_utc;
  CHECK(run.finished_utc.size() == 20);
  CHECK(describe(stored->record) == describe(run));
  CHECK(stored->ok_count == 3);
  CHECK(stored->refused_count == 1);
  CHECK(!store.run("run-b").has_value());
}

TEST_CASE("a number that is not finite is stored as missing, with the reason") {
  const TempFolder scratch;
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  PointMeasurement point = sample_point(0);
  point.time_ns = {1.0, nan, 3.0, infinity};
  point.adjacent_overlap = nan;
  point.ranges[0].counters = {{"a", nan, CounterStatus::kOk},
                              {"b", infinity, CounterStatus::kOk},
                              {"c", std::nullopt, CounterStatus::kOk},
                              {"d", std::nullopt, CounterStatus::kDenied},
                              {"e", 0.0, CounterStatus::kOk}};
  point.ranges[0].predicted.read_bytes[0] = nan;
  point.acceptance->accepted_per_step = nan;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  const std::int64_t run_id = store.begin_run(sample_run("run-a"));
  const PointMeasurement read = store.point(store.add_point(run_id, point));

  CHECK(read.time_ns[0] == 1.0);
  CHECK(std::isnan(read.time_ns[1]));
  CHECK(std::isnan(read.time_ns[3]));
  CHECK(!read.adjacent_overlap.has_value());
  const std::vector<CounterValue>& counters = read.ranges[0].counters;
  CHECK((!counters[0].value && counters[0].status == CounterStatus::kNan));
  CHECK((!counters[1].value && counters[1].status == CounterStatus::kOutOfRange));
  CHECK((!counters[2].value && counters[2].status == CounterStatus::kNan));
  CHECK((!counters[3].value && counters[3].status == CounterStatus::kDenied));
  CHECK((counters[4].value == 0.0 && counters[4].status == CounterStatus::kOk));
  CHECK(std::isnan(read.ranges[0].predicted.read_bytes[0]));
  CHECK(std::isnan(read.acceptance->accepted_per_step));

  const Overview overview = store.overview({});
  REQUIRE(overview.points.size() == 1);
  CHECK(overview.points[0].sample_count == 2);
  CHECK(overview.points[0].median_ns == 2.0);
  CHECK(!overview.points[0].predicted_dram_bytes.has_value());
  CHECK(!overview.points[0].accepted_per_step.has_value());
}

TEST_CASE("the overview says of each point what the whole point says") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  const std::int64_t run_id = store.begin_run(sample_run("run-a"));
  const PointMeasurement point = sample_point(3);
  const std::int64_t id = store.add_point(run_id, point);
  PointMeasurement without_counters = sample_point(4);
  without_counters.ranges[1].counters.pop_back();
  without_counters.ranges[1].counters.pop_back();
  store.add_point(run_id, without_counters);

  const Overview overview = store.overview({});
  REQUIRE(overview.points.size() == 2);
  const PointOverview& line = overview.points[0];
  const auto word = [&overview](std::int32_t index) {
    return overview.words.at(static_cast<std::size_t>(index));
  };
  CHECK(line.id == id);
  CHECK(line.run_id == run_id);
  CHECK(line.workload == point.key.workload);
  CHECK(word(line.model) == "demo-nsa");
  CHECK(word(line.strategy) == point.key.strategy);
  CHECK(word(line.regime) == "chat");
  CHECK(word(line.split) == "test");
  CHECK(word(line.dtype) == "bf16");
  CHECK(word(line.backend) == "cuda");
  CHECK(word(line.cache_state) == "cold_rotate");
  CHECK(word(line.launch) == "graph");
  CHECK(word(line.status) == "ok");
  CHECK(word(line.reliability) == "ok");
  CHECK(word(0).empty());
  CHECK(line.context_len == 1027);
  CHECK(line.num_queries == 64);
  CHECK(!line.overlap.has_value());
  CHECK(line.adjacent_overlap == point.adjacent_overlap);
  CHECK(line.accepted_per_step == 4.2);
  CHECK(line.predicted_dram_bytes ==
        point.ranges[0].predicted.total() + point.ranges[1].predicted.total());
  CHECK(line.dram_bytes == 1.01e6 + 3 + 2e4 + 3 + 1.01e6 + 4 + 2e4 + 4);
  CHECK(line.sample_count == 7);
  CHECK(line.median_low_ns <= line.median_ns);
  CHECK(line.median_ns <= line.median_high_ns);
  CHECK(!overview.points[1].dram_bytes.has_value());  // one range without: no sum
}

TEST_CASE("the interval of the median holds it with at least 95 percent") {
  CHECK(!median_interval(0).has_value());
  CHECK(!median_interval(5).has_value());
  // Known table of order-statistic intervals (1-based 1-6, 2-9, 10-21, 40-61).
  CHECK((median_interval(6)->low == 0 && median_interval(6)->high == 5));
  CHECK((median_interval(10)->low == 1 && median_interval(10)->high == 8));
  CHECK((median_interval(30)->low == 9 && median_interval(30)->high == 20));
  CHECK((median_interval(100)->low == 39 && median_interval(100)->high == 60));
  CHECK(std::llabs(median_interval(1000)->low - median_interval(1001)->low) <= 1);
}

TEST_CASE("filters leave exactly the points that match") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  const std::int64_t h200 = store.begin_run(sample_run("run-a"));
  const std::int64_t a100 = store.begin_run(sample_run("run-b", "NVIDIA A100"));
  for (int number = 0; number < 6; ++number) {
    store.add_point(number < 4 ? h200 : a100, sample_point(number));
  }
  PointMeasurement failed = sample_point(7);
  failed.status = PointStatus::kFailed;
  store.add_point(a100, failed);
  CHECK(store.points({}).size() == 7);
  CHECK(store.points({.run_id = h200}).size() == 4);
  CHECK(store.points({.device = "h200"}).size() == 4);
  CHECK(store.points({.device = "nvidia"}).size() == 7);
  CHECK(store.points({.device = "b200"}).empty());
  CHECK(store.points({.only_ok = true}).size() == 6);
  CHECK(store.points({.workload = WorkloadKind::kAttention}).size() == 2);
  CHECK(store.points({.device = "A100", .model = "nsa-1b"}).size() == 1);
  CHECK(store.points({.model = "no such model"}).empty());
  CHECK(store.points({.regime = "chat", .split = "test", .backend = Backend::kCuda}).size() == 7);
  CHECK(store.overview({.run_id = a100}).points.size() == 3);
}

TEST_CASE("resume finds finished points of the same sweep and tries failed ones again") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  const RunRecord run = sample_run("run-a");
  const std::int64_t run_id = store.begin_run(run);
  PointMeasurement failed = sample_point(1);
  failed.status = PointStatus::kFailed;
  PointMeasurement refused = sample_point(2);
  refused.status = PointStatus::kRefused;
  store.add_point(run_id, sample_point(0));
  store.add_point(run_id, failed);
  store.add_point(run_id, refused);
  const PointKey stored = sample_point(0).key;
  CHECK(store.has_point(run_id, stored));
  CHECK(store.has_point(run_id, refused.key));
  CHECK(!store.has_point(run_id, failed.key));
  CHECK(!store.has_point(run_id, sample_point(3).key));
  CHECK(store.has_point(run.kind, run.configuration, stored));
  CHECK(!store.has_point("another sweep", run.configuration, stored));
  CHECK(!store.has_point(run.kind, "{}", stored));
  PointKey other = stored;
  other.overlap.reset();
  CHECK(!store.has_point(run_id, other));
  other = stored;
  other.strategy = "nsa/ar";
  CHECK(!store.has_point(run_id, other));
}

TEST_CASE("a key is stored once in a run, and a refused write leaves the store usable") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  const std::int64_t run_id = store.begin_run(sample_run("run-a"));
  store.add_point(run_id, sample_point(1));
  const Error twice = error_of([&] { store.add_point(run_id, sample_point(1)); });
  CHECK(twice.code() == ExitCode::kBadInput);
  CHECK(is_one_sentence(twice.what()));
  PointMeasurement bad = sample_point(2);
  bad.key.model = "new word in a refused transaction";
  bad.acceptance->walks.push_back(bad.acceptance->walks.at(0));
  CHECK(error_of([&] { store.add_point(run_id, bad); }).code() == ExitCode::kBadInput);
  bad.acceptance->walks.pop_back();
  store.add_point(run_id, bad);
  CHECK(store.points({.model = bad.key.model}).size() == 1);
  CHECK(error_of([&] { store.begin_run(sample_run("run-a")); }).code() == ExitCode::kBadInput);
  CHECK(error_of([&] { store.add_point(run_id + 1, sample_point(5)); }).code() != ExitCode::kDone);
}

// Rows say themselves which they are, so that a missing one does not move those behind it.
TEST_CASE("missing rows of a histogram are steps of none, and a walk with a hole is refused") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  PointMeasurement point = sample_point(1);
  point.acceptance->accepted_histogram = {0, 4, 0, 2};
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    store.add_point(store.begin_run(sample_run("run-a")), point);
  }
  const auto change = [&path](const char* sql) { Database(path, Access::kWrite).execute(sql); };
  const auto read = [&path] {
    return Store::open(path, OpenMode::kReadOnly).points({}).at(0).acceptance.value();
  };
  change("DELETE FROM accepted_count WHERE steps = 0");
  CHECK(read().accepted_histogram == point.acceptance->accepted_histogram);
  CHECK(read().walks.size() == 2);
  change("DELETE FROM accepted_step WHERE position = 3");
  const Error error = error_of([&] { read(); });
  CHECK(error.code() == ExitCode::kBadInput);
  CHECK(std::string(error.what()).find("code-400-0.txt@0 the step before token 4 is missing") !=
        std::string::npos);
}

TEST_CASE("a store opened for reading refuses to write") {
  const TempFolder scratch;
  { Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen); }
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kReadOnly);
  CHECK(error_of([&] { store.begin_run(sample_run("run-a")); }).code() == ExitCode::kUsage);
}

TEST_CASE("diagnostics belong to their run, and a record need not state its counter access") {
  const TempFolder scratch;
  Store store = Store::open((scratch / "a.db").string(), OpenMode::kCreateOrOpen);
  RunRecord record = sample_run("");
  record.counter_access = CounterState::kDenied;
  const std::int64_t first = store.begin_run(record);
  record.counter_access = CounterState::kUnstated;
  record.self_check = SelfCheckVerdict::kUnstated;
  const std::int64_t second = store.begin_run(record);
  store.add_diagnostic(first, "warning", "counters", "two ranges were dropped");
  CHECK(store.diagnostics(second).empty());
  REQUIRE(store.diagnostics(first).size() == 1);
  CHECK(store.diagnostics(first)[0].text == "two ranges were dropped");
  const std::vector<StoredRun> runs = store.runs();
  CHECK(runs[0].record.counter_access == CounterState::kDenied);
  CHECK(runs[1].record.counter_access == CounterState::kUnstated);
  CHECK(runs[1].record.self_check == SelfCheckVerdict::kUnstated);
  CHECK(runs[0].record.uuid.size() == 36);
  CHECK(runs[0].record.uuid != runs[1].record.uuid);
}
