// Old files become current ones, in one step or not at all.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "db/open.h"
#include "db/schema.h"
#include "db/step_details.h"
#include "db/store.h"
#include "tests/db/files.h"
#include "tests/db/sample_points.h"
#include "tests/support/paths.h"

using namespace versieve;
using namespace versieve::db;
using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

const std::string kData = VERSIEVE_SOURCE_DIR "/tests/data/";
const std::string kFixtures[] = {
    kData + "schema_v1.db", kData + "schema_v2.db", kData + "schema_v3.db",
    kData + "schema_v4.db", kData + "schema_v5.db", kData + "schema_v6.db",
    kData + "schema_v7.db", kData + "schema_v8.db", kData + "schema_v9.db"};
const std::string& kFixture = kFixtures[8];  // of today's schema
constexpr int kFixturePoints = 3;

std::string schema_text(const std::string& path) {
  const Database database(path, Access::kRead);
  return database.text(
      "SELECT group_concat(sql, char(10)) FROM (SELECT sql FROM sqlite_master WHERE sql IS NOT "
      "NULL "
      "ORDER BY type, name)");
}

// The released steps and one more, for a schema that does not exist.
std::vector<SchemaStep> steps_with(const char* next) {
  std::vector<SchemaStep> steps(schema_steps().begin(), schema_steps().end());
  steps.push_back({schema_version() + 1, "next", "-", next});
  return steps;
}

// What the fixture of an older schema could not hold is missing.
PointMeasurement fixture_point(int number, const std::string& fixture) {
  PointMeasurement point = sample_point(number);
  if (fixture == kFixtures[0] || fixture == kFixtures[1]) {
    point.acceptance->walks.clear();
  }
  if (fixture < kFixtures[3]) {
    point.key.pair.clear();
  }
  if (fixture < kFixtures[5]) {
    point.sharing.clear();
  }
  if (fixture < kFixtures[6]) {
    point.acceptance->texts.clear();
  }
  if (fixture < kFixtures[7]) {
    point.key.temperature = 0.0;
  }
  return point;
}

std::string copy_of_fixture(const TempFolder& scratch, const std::string& fixture = kFixture) {
  const std::string path = (scratch / "a.db").string();
  fs::copy_file(fixture, path);
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

}  // namespace

// Hidden: writes the fixture of a newly released schema, once.
TEST_CASE("write the fixture of this schema", "[.fixture]") {
  const std::string path =
      VERSIEVE_SOURCE_DIR "/tests/data/schema_v" + std::to_string(schema_version()) + ".db";
  REQUIRE(!fs::exists(path));
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    const std::int64_t run_id = store.begin_run(sample_run("fixture-run"));
    for (int number = 0; number < kFixturePoints; ++number) {
      store.add_point(run_id, sample_point(number), sample_detail(number));
    }
    store.add_quality(run_id, {sample_quality(0), sample_quality(1)});
    store.add_diagnostic(run_id, "info", "fixture", "written by the program of this schema");
    store.finish_run(run_id, RunStatus::kComplete);
  }
  Database database(path, Access::kWrite);
  database.execute("PRAGMA page_size = 1024");  // most tables hold a row or two
  database.execute("VACUUM");
}

TEST_CASE("the stored files of all schemas open and hold what was put in") {
  const std::string fixture = GENERATE(from_range(std::begin(kFixtures), std::end(kFixtures)));
  const TempFolder scratch;
  const std::string path = copy_of_fixture(scratch, fixture);
  for (const OpenMode mode : {OpenMode::kReadOnly, OpenMode::kCreateOrOpen}) {
    const Store store = Store::open(path, mode);
    const std::vector<PointMeasurement> points = store.points({});
    REQUIRE(points.size() == kFixturePoints);
    for (int number = 0; number < kFixturePoints; ++number) {
      CHECK(describe(points[static_cast<std::size_t>(number)]) ==
            describe(fixture_point(number, fixture)));
    }
    std::vector<QualityPoint> quality;
    if (fixture >= kFixtures[4]) {
      quality = {sample_quality(0), sample_quality(1)};
    }
    CHECK(store.quality() == quality);
    const StepDetails details = StepDetails::open(path);
    for (const db::PointOverview& point : store.overview({}).points) {
      const int number = static_cast<int>(point.context_len) - 1024;  // sample_point()
      CHECK(details.of(point.id) ==
            (fixture >= kFixtures[8] ? sample_detail(number) : StepDetail()));
      CHECK(point.is_traced == (fixture >= kFixtures[8]));
    }
    REQUIRE(store.runs().size() == 1);
    CHECK(store.diagnostics(store.runs()[0].id).size() == 1);
  }
}

TEST_CASE("a fresh database has the same schema as a migrated old one") {
  const std::string fixture = GENERATE(from_range(std::begin(kFixtures), std::end(kFixtures)));
  const TempFolder scratch;
  const std::string migrated = copy_of_fixture(scratch, fixture);
  const std::string fresh = (scratch / "fresh.db").string();
  Store::open(migrated, OpenMode::kCreateOrOpen);
  Store::open(fresh, OpenMode::kCreateOrOpen);
  CHECK(schema_text(fresh).size() > 3000);
  CHECK(schema_text(fresh) == schema_text(migrated));
}

TEST_CASE("released schema scripts are never edited") {
  const Database fixture(kFixture, Access::kRead);
  REQUIRE(fixture.integer("SELECT count(*) FROM migration") == schema_version());
  for (const SchemaStep& step : schema_steps()) {
    CHECK(fixture.text("SELECT sha256 FROM migration WHERE version = " +
                       std::to_string(step.version)) == step.sha256);
  }
}

TEST_CASE("a file of schema 1 takes points of the kinds that came later") {
  const TempFolder scratch;
  const std::string path = copy_of_fixture(scratch, kFixtures[0]);
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    const std::int64_t run_id = store.begin_run(sample_run("later"));
    for (const WorkloadKind kind : {WorkloadKind::kDecode, WorkloadKind::kTopk,
                                    WorkloadKind::kSampling, WorkloadKind::kMachine}) {
      PointMeasurement point = sample_point(1);
      point.key.workload = kind;
      store.add_point(run_id, point);
      CHECK(store.points({.workload = kind}).size() == 1);
    }
    store.finish_run(run_id, RunStatus::kComplete);
    CHECK(store.points({}).size() == kFixturePoints + 4);
  }
  CHECK(Store::open(path + ".schema1", OpenMode::kReadOnly).points({}).size() == kFixturePoints);
}

TEST_CASE("a file of schema 3 names the byte pair, and its points are that pair's and no other's") {
  const TempFolder scratch;
  const std::string path = copy_of_fixture(scratch, kFixtures[2]);
  {
    Database database(path, Access::kWrite);  // of which point 2 is one of acceptance
    database.execute("UPDATE point SET model = (SELECT id FROM word WHERE text = 'demo-nsa')");
  }
  for (const OpenMode mode : {OpenMode::kReadOnly, OpenMode::kCreateOrOpen}) {
    const Store store = Store::open(path, mode);
    CHECK(store.pairs() == std::vector<PairId>{byte_pair()});
    const std::vector<PointMeasurement> own = store.points({.pair = byte_pair().sha256});
    REQUIRE(own.size() == 1);
    CHECK(own[0].key.workload == WorkloadKind::kAcceptance);
    CHECK(own[0].key.pair == byte_pair().sha256);
    CHECK(store.points({.pair = std::string(64, 'd')}).empty());
    CHECK(store.points({.workload = WorkloadKind::kStep})[0].key.pair.empty());
  }
  {
    Database database(path, Access::kWrite);  // what another program says of it is not of it
    database.execute("INSERT INTO word (text) VALUES ('imported') ON CONFLICT DO NOTHING");
    database.execute("PRAGMA user_version = 3");
    database.execute("UPDATE point SET backend = (SELECT id FROM word WHERE text = 'imported')");
  }
  const Store store = Store::open(path, OpenMode::kReadOnly);
  CHECK(store.pairs().empty());
  CHECK(store.points({.pair = byte_pair().sha256}).empty());
  CHECK(store.points({.workload = WorkloadKind::kAcceptance})[0].key.pair.empty());
}

TEST_CASE("a step brings an old file to the next schema, keeps its rows and a copy") {
  const TempFolder scratch;
  const std::string path = copy_of_fixture(scratch);
  {
    Database database(path, Access::kWrite);
    migrate(database, steps_with("ALTER TABLE point ADD COLUMN note TEXT;"));
    CHECK(database.integer("PRAGMA user_version") == schema_version() + 1);
    CHECK(database.integer("SELECT count(*) FROM point WHERE note IS NULL") == kFixturePoints);
    CHECK(database.integer("SELECT count(*) FROM migration") == schema_version() + 1);
    migrate(database, steps_with("this would fail if it ran again"));
  }
  const std::string copy = path + ".schema" + std::to_string(schema_version());
  CHECK(Store::open(copy, OpenMode::kReadOnly).points({}).size() == kFixturePoints);
}

TEST_CASE("a copy that a full disk does not take leaves nothing behind") {
  const TempFolder scratch;
  const std::string path = copy_of_fixture(scratch);
  std::signal(SIGXFSZ, SIG_IGN);
  Database database(path, Access::kWrite);
  rlimit old = {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = 8192;  // a page or two of the copy
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Error error =
      error_of([&] { migrate(database, steps_with("ALTER TABLE point ADD COLUMN note TEXT;")); });
  ::setrlimit(RLIMIT_FSIZE, &old);
  CHECK(error.code() == ExitCode::kEnvironment);
  CHECK(is_one_sentence(error.what()));
  CHECK(database.integer("PRAGMA user_version") == schema_version());
  for (const fs::directory_entry& entry : fs::directory_iterator(scratch.path())) {
    CHECK(entry.path().filename().string().find(".schema") == std::string::npos);
  }
}

TEST_CASE("a step that fails leaves the old version intact") {
  const TempFolder scratch;
  const std::string path = copy_of_fixture(scratch);
  {
    Database database(path, Access::kWrite);
    const std::vector<SchemaStep> steps =
        steps_with("CREATE TABLE half (x); DELETE FROM point; no such statement;");
    CHECK(error_of([&] { migrate(database, steps); }).code() == ExitCode::kBadInput);
  }
  CHECK(Store::open(path, OpenMode::kCreateOrOpen).points({}).size() == kFixturePoints);
  CHECK(schema_text(path) == schema_text(kFixture));
}

TEST_CASE("a step killed in the middle leaves the old version intact") {
  const TempFolder scratch;
  const std::string path = copy_of_fixture(scratch);
  const pid_t child = ::fork();
  if (child == 0) {
    Database database(path, Access::kWrite);
    database.execute("PRAGMA cache_size = 10");  // pages reach the file before the commit
    migrate(database, steps_with("DELETE FROM counter; CREATE TABLE half (x);"
                                 "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n)"
                                 "INSERT INTO half SELECT hex(randomblob(100)) FROM n;"));
    ::_exit(0);
  }
  const std::uintmax_t old_size = fs::file_size(path);
  for (int i = 0; i < 5000 && fs::file_size(path) < 4 * old_size; ++i) {
    ::usleep(1000);
  }
  CHECK(fs::file_size(path) >= 4 * old_size);  // it is in the middle
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));

  const Store store = Store::open(path, OpenMode::kCreateOrOpen);
  CHECK(store.schema_version() == schema_version());
  REQUIRE(store.points({}).size() == kFixturePoints);
  CHECK(describe(store.points({})[0]) == describe(sample_point(0)));
  check_pages(*open_for_reading(path));
  CHECK(schema_text(path) == schema_text(kFixture));
}
