// What single steps did comes back as it was stored, travels with its point, and is missing where
// nobody stored it.
#include "db/step_details.h"

#include <catch2/catch.hpp>

#include "db/merge.h"
#include "db/sqlite.h"
#include "tests/db/files.h"
#include "tests/db/sample_points.h"
#include "tests/support/paths.h"

using namespace versieve;
using namespace versieve::db;
using namespace versieve::test;

namespace {

// Points 0 ... count - 1, of which those below `traced` have a trace and a choice.
void make(const std::string& path, int count, int traced) {
  Store store = Store::open(path, OpenMode::kCreateOrOpen);
  const std::int64_t run_id = store.begin_run(sample_run("run-t"));
  for (int number = 0; number < count; ++number) {
    store.add_point(run_id, sample_point(number),
                    number < traced ? sample_detail(number) : StepDetail());
  }
  store.finish_run(run_id, RunStatus::kComplete);
}

// By the point's number, which its context tells.
StepDetail detail_of(const std::string& path, int number) {
  const Store store = Store::open(path, OpenMode::kReadOnly);
  for (const PointOverview& point : store.overview({}).points) {
    if (point.context_len == 1024 + number) {
      return StepDetails::open(path).of(point.id);
    }
  }
  FAIL("the point is there");
  return {};
}

}  // namespace

TEST_CASE("a step's length is from its first launch to the last end, and overlaps count once") {
  const StepTrace trace = *sample_detail(0).trace;
  CHECK(trace.length_ns() == 6800);
  CHECK(trace.busy_ns() == 4000 + 800);  // 0 to 4,000 and 6,000 to 6,800
  CHECK(StepTrace().length_ns() == 0);
  CHECK(StepTrace().busy_ns() == 0);
  for (const RangeEvidence evidence : {RangeEvidence::kLaunched, RangeEvidence::kOrder,
                                       RangeEvidence::kName, RangeEvidence::kUnknown}) {
    CHECK(range_evidence_of(name_of(evidence)) == evidence);
  }
  CHECK(error_of([] { range_evidence_of("guessed"); }).code() == ExitCode::kBadInput);
}

TEST_CASE("a trace and a choice come back as they were stored; a point without has none") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  make(path, 3, 2);
  const StepDetails details = StepDetails::open(path);
  CHECK(details.traced_points().size() == 2);
  CHECK(detail_of(path, 0) == sample_detail(0));
  CHECK(detail_of(path, 1) == sample_detail(1));
  CHECK(detail_of(path, 2).empty());
  for (const PointOverview& point : Store::open(path, OpenMode::kReadOnly).overview({}).points) {
    CHECK(point.is_traced == (point.context_len < 1024 + 2));
  }
}

TEST_CASE("a point whose detail cannot be stored is not stored either, and comes again") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  {
    Store store = Store::open(path, OpenMode::kCreateOrOpen);
    const std::int64_t run_id = store.begin_run(sample_run("run-t"));
    StepDetail twice = sample_detail(0);
    twice.choice->blocks.at(0) = {3, 3};  // a node chooses a block once
    CHECK(error_of([&] { store.add_point(run_id, sample_point(0), twice); }).code() !=
          ExitCode::kDone);
    CHECK(store.overview({}).points.empty());
    CHECK(!store.has_point(run_id, sample_point(0).key));
    store.add_point(run_id, sample_point(0), sample_detail(0));
    store.add_point(run_id, sample_point(1), {.trace = {}, .choice = sample_detail(1).choice});
    store.finish_run(run_id, RunStatus::kComplete);
  }
  CHECK(detail_of(path, 0) == sample_detail(0));
  CHECK(!detail_of(path, 1).trace);
  CHECK(detail_of(path, 1).choice == sample_detail(1).choice);
}

TEST_CASE("a merge carries what steps did, whole and as summaries, and once") {
  const TempFolder scratch;
  const std::string from = (scratch / "from.db").string();
  make(from, 3, 2);
  for (const MergeDetail how : {MergeDetail::kAll, MergeDetail::kSummaries}) {
    const std::string into = (scratch / (how == MergeDetail::kAll ? "all.db" : "few.db")).string();
    for (int twice = 0; twice < 2; ++twice) {
      merge_into(into, {from}, how);
      CHECK(StepDetails::open(into).traced_points().size() == 2);
    }
    for (const int number : {0, 1}) {
      CHECK(detail_of(into, number) == sample_detail(number));
    }
    CHECK(detail_of(into, 2).empty());
  }
}

TEST_CASE("a merge completes a point that came without what its step did") {
  const TempFolder scratch;
  const std::string bare = (scratch / "bare.db").string();
  const std::string from = (scratch / "from.db").string();
  make(bare, 2, 0);
  make(from, 2, 2);
  CHECK(merge_into(bare, {from})[0].points_added == 0);
  CHECK(detail_of(bare, 1) == sample_detail(1));
}

TEST_CASE("a file of schema 8 is merged and read as one without traces") {
  const TempFolder scratch;
  const std::string into = (scratch / "into.db").string();
  const std::string old = VERSIEVE_SOURCE_DIR "/tests/data/schema_v8.db";
  CHECK(merge_into(into, {old})[0].points_added > 0);
  CHECK(StepDetails::open(into).traced_points().empty());
  CHECK(StepDetails::open(old).traced_points().empty());
  CHECK(StepDetails::open(old).of(1).empty());
}

TEST_CASE("rows that no program of ours writes are refused by a sentence that names the point") {
  const char* const damages[] = {"UPDATE traced_launch SET duration_ns = -5 WHERE ordinal = 1",
                                 "DELETE FROM tree_node WHERE node = 1",
                                 "DELETE FROM tree_node WHERE node > 0",
                                 "UPDATE word SET text = 'guessed' WHERE text = 'order'"};
  for (const char* damage : damages) {
    const TempFolder scratch;
    const std::string path = (scratch / "a.db").string();
    make(path, 1, 1);
    {
      Database database(path, Access::kWrite);
      database.execute("PRAGMA foreign_keys = OFF");
      database.execute(damage);
    }
    const StepDetails details = StepDetails::open(path);
    const Error error = error_of([&] { details.of(1); });
    CAPTURE(damage, error.what());
    CHECK(error.code() == ExitCode::kBadInput);
    CHECK(is_one_sentence(error.what()));
  }
}

TEST_CASE("of a deleted run nothing is left, and a prompt can read launches by name") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  make(path, 2, 2);
  Database database(path, Access::kWrite);
  CHECK(database.integer("SELECT sum(duration_ns) FROM v_traced_launch "
                         "WHERE range = 'linear' AND evidence = 'launched'") == 3000);
  database.execute("PRAGMA foreign_keys = ON");
  database.execute("DELETE FROM run");
  for (const char* table :
       {"step_trace", "traced_launch", "block_choice", "tree_node", "chosen_block"}) {
    CHECK(database.integer(std::string("SELECT count(*) FROM ") + table) == 0);
  }
}
