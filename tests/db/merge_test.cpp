// Joining databases: everything arrives once, however often and in whatever order.
#include "db/merge.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <set>

#include "db/store.h"
#include "tests/db/files.h"
#include "tests/db/sample_points.h"

using namespace versieve;
using namespace versieve::db;
using namespace versieve::test;

namespace {

void make_shard(const std::string& path, const std::string& uuid, int first, int count) {
  Store store = Store::open(path, OpenMode::kCreateOrOpen);
  const std::int64_t run_id = store.begin_run(sample_run(uuid));
  for (int number = first; number < first + count; ++number) {
    store.add_point(run_id, sample_point(number));
  }
  store.add_quality(run_id, {sample_quality(first), sample_quality(first + 1)});
  store.add_diagnostic(run_id, "info", "sweep", "shard of " + uuid);
  store.finish_run(run_id, RunStatus::kComplete);
}

// The whole content, in an order that does not depend on ids.
std::set<std::string> content(const std::string& path) {
  const Store store = Store::open(path, OpenMode::kReadOnly);
  std::set<std::string> all;
  for (const StoredRun& run : store.runs()) {
    all.insert(describe(run.record));
    for (const PointMeasurement& point : store.points({.run_id = run.id})) {
      all.insert(run.record.uuid + describe(point));
    }
    for (const QualityPoint& point : store.quality(run.id)) {
      all.insert(run.record.uuid + point.strategy + point.set + point.distance);
    }
    for (const Diagnostic& diagnostic : store.diagnostics(run.id)) {
      all.insert(run.record.uuid + diagnostic.time_utc + diagnostic.text);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("summaries have the medians and intervals of what they were made of") {
  const TempFolder scratch;
  const std::string full = (scratch / "full.db").string();
  const std::string slim = (scratch / "slim.db").string();
  {
    Store store = Store::open(full, OpenMode::kCreateOrOpen);
    const std::int64_t run_id = store.begin_run(sample_run("run-s"));
    for (int number = 0; number < 3; ++number) {
      PointMeasurement point = sample_point(number);
      point.time_ns.clear();
      for (int i = 0; i < 4 + 20 * number; ++i) {  // of four there is no interval
        point.time_ns.push_back(1000.0 + (37 * i) % 41);
      }
      RangeMeasurement range{.path = "linear", .launches = 2, .gpu_time_ns = {30.0, 10.0, 20.0}};
      range.counters = {{.metric = "off", .value = {}, .status = CounterStatus::kOff},
                        {.metric = "on", .value = 7.0}};
      point.ranges = {range};
      store.add_point(run_id, point);
    }
    store.finish_run(run_id, RunStatus::kComplete);
  }
  CHECK(merge_into(slim, {full}, MergeDetail::kSummaries)[0].points_added == 3);
  const Overview before = Store::open(full, OpenMode::kReadOnly).overview({});
  const Store store = Store::open(slim, OpenMode::kReadOnly);
  const Overview after = store.overview({});
  REQUIRE(after.points.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(after.points[i].median_ns == before.points[i].median_ns);
    CHECK(after.points[i].median_low_ns == before.points[i].median_low_ns);
    CHECK(after.points[i].median_high_ns == before.points[i].median_high_ns);
    CHECK(after.points[i].sample_count == (i == 0 ? 4 : 6));
  }
  for (const PointMeasurement& point : store.points({})) {
    REQUIRE(point.ranges.size() == 1);
    CHECK(point.ranges[0].gpu_time_ns == std::vector<double>{20.0});
    REQUIRE(point.ranges[0].counters.size() == 1);
    CHECK(point.ranges[0].counters[0].value == 7.0);
  }
  CHECK(merge_into(slim, {full})[0].points_added == 0);  // what is there stays
}

TEST_CASE("a merge brings every run and point, and merging again changes nothing") {
  const TempFolder scratch;
  const std::string a = (scratch / "a.db").string();
  const std::string b = (scratch / "b.db").string();
  const std::string all = (scratch / "all.db").string();
  make_shard(a, "run-a", 0, 7);
  make_shard(b, "run-b", 3, 9);  // some of the same keys, in another run
  const std::vector<MergeResult> first = merge_into(all, {a, b});
  REQUIRE(first.size() == 2);
  CHECK(first[0].points_added == 7);
  CHECK(first[0].quality_rows_added == 2);
  CHECK(first[1].points_added == 9);
  CHECK(first[1].quality_rows_added == 2);
  std::int64_t by_workload = 0;
  for (const auto& [workload, points] : first[1].points_by_workload) {
    by_workload += points;
  }
  CHECK(by_workload == 9);
  CHECK(first[1].runs_added == 1);
  std::set<std::string> expected = content(a);
  expected.merge(content(b));
  CHECK(expected.size() == 2 + 16 + 2 * 2 + 2);
  CHECK(content(all) == expected);

  const std::string before = file_bytes(all);
  const std::vector<MergeResult> second = merge_into(all, {b, a});
  CHECK(second[0].runs_added + second[0].points_added + second[0].quality_rows_added == 0);
  CHECK(second[0].points_by_workload.empty());
  CHECK(second[0].runs_already_there == 1);
  CHECK(content(all) == expected);

  const std::string other = (scratch / "other.db").string();
  merge_into(other, {b});
  merge_into(other, {all});
  CHECK(content(other) == expected);
}

TEST_CASE("a merge that a full disk ends leaves no new file, and an old one as it was") {
  const TempFolder scratch;
  const std::string small = (scratch / "small.db").string();
  const std::string large = (scratch / "large.db").string();
  const std::string old = (scratch / "old.db").string();
  make_shard(small, "run-a", 0, 2);
  make_shard(large, "run-b", 0, 400);
  make_shard(old, "run-c", 0, 2);
  const std::set<std::string> before = content(old);
  for (const std::string& target : {old, (scratch / "new.db").string()}) {
    rlimit room = {};
    ::getrlimit(RLIMIT_FSIZE, &room);
    const auto on_excess = std::signal(SIGXFSZ, SIG_IGN);
    rlimit less = room;
    less.rlim_cur = std::filesystem::file_size(large) / 2;
    ::setrlimit(RLIMIT_FSIZE, &less);
    const Error error = error_of([&] { merge_into(target, {small, large}); });
    ::setrlimit(RLIMIT_FSIZE, &room);
    std::signal(SIGXFSZ, on_excess);
    CAPTURE(error.what());
    CHECK(error.code() == ExitCode::kEnvironment);
    CHECK(std::string(error.what()).find(target + ": cannot be written: File too large") == 0);
  }
  CHECK(content(old) == before);
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    left.insert(entry.path().filename().string());
  }
  CHECK(left == std::set<std::string>{"large.db", "old.db", "small.db"});
  CHECK(merge_into((scratch / "new.db").string(), {small, large})[1].points_added == 400);
  CHECK(merge_into(old, {small, large})[1].points_added == 400);
}

TEST_CASE("a run that was merged while it ran is completed by a later merge") {
  const TempFolder scratch;
  const std::string shard = (scratch / "shard.db").string();
  const std::string all = (scratch / "all.db").string();
  {
    Store store = Store::open(shard, OpenMode::kCreateOrOpen);
    const std::int64_t run_id = store.begin_run(sample_run("run-a"));
    store.add_point(run_id, sample_point(0));
    merge_into(all, {shard});
    CHECK(Store::open(all, OpenMode::kReadOnly).run("run-a")->record.status == RunStatus::kRunning);
    store.add_point(run_id, sample_point(1));
    store.finish_run(run_id, RunStatus::kComplete);
  }
  const std::vector<MergeResult> later = merge_into(all, {shard});
  CHECK(later[0].points_added == 1);
  CHECK(content(all) == content(shard));
}
