// What a database brings to a comparison: good points of one device, in the figures that an
// overview has.
#include "db/compared.h"

#include <catch2/catch.hpp>

#include "db/store.h"
#include "model/words/error.h"
#include "tests/db/files.h"
#include "tests/db/sample_points.h"

using namespace versieve;
using namespace versieve::db;
using namespace versieve::test;

namespace {

void store_run(const std::string& path, const std::string& uuid, const std::string& device,
               const std::vector<PointMeasurement>& points) {
  Store store = Store::open(path, OpenMode::kCreateOrOpen);
  RunRecord run = sample_run(uuid);
  run.device = device;
  const std::int64_t id = store.begin_run(run);
  for (const PointMeasurement& point : points) {
    store.add_point(id, point);
  }
  store.finish_run(id, RunStatus::kComplete);
}

}  // namespace

TEST_CASE("a side is the good points of the device with most, or of the one that is named") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  PointMeasurement refused = sample_point(2);
  refused.status = PointStatus::kRefused;
  refused.reason = "too large";
  store_run(path, "one", "NVIDIA H100", {sample_point(0), sample_point(1), refused});
  store_run(path, "two", "NVIDIA H200", {sample_point(0)});
  store_run(path, "three", "NVIDIA H100", {sample_point(0)});

  const ComparedSide side = compared_side(path, "");
  CHECK(side.device == "NVIDIA H100");
  CHECK(side.other_devices == std::vector<std::string>{"NVIDIA H200"});
  REQUIRE(side.runs.size() == 2);
  CHECK(side.runs[1].uuid == "three");
  REQUIRE(side.points.size() == 3);
  CHECK(side.points[0].key == sample_point(0).key);
  CHECK(side.points[2].key == side.points[0].key);  // measured again: the newest last
  const PointOverview one =
      Store::open(path, OpenMode::kReadOnly).overview({.run_id = side.points[0].run_id}).points[0];
  CHECK(side.points[0].id == one.id);
  CHECK(side.points[0].median_ns == one.median_ns);
  CHECK(side.points[0].median_high_ns == one.median_high_ns);
  CHECK(side.points[0].dram_bytes == one.dram_bytes);

  CHECK(compared_side(path, "h200").points.size() == 1);
  const Error error = error_of([&] { compared_side(path, "B200"); });
  CHECK(error.code() == ExitCode::kAnswerNo);
  CHECK(std::string(error.what()).find("it holds points of NVIDIA H100, NVIDIA H200") !=
        std::string::npos);
}

TEST_CASE("a database without a good point has nothing to compare") {
  const TempFolder scratch;
  const std::string path = (scratch / "a.db").string();
  Store::open(path, OpenMode::kCreateOrOpen);
  const Error error = error_of([&] { compared_side(path, ""); });
  CHECK(std::string(error.what()).find("holds nothing to compare") != std::string::npos);
}
