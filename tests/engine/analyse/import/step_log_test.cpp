// The neutral log: lines in, points out, and a sentence for every wrong line.
#include "tests/engine/analyse/import/refusals.h"

using namespace versieve;
using namespace versieve::engine;
using test::read_with;

namespace {

const std::string kHeader = "request,context,strategy,emitted,step_us\n";
const std::string kLine = "a,1000,nsa/d3k1n4/bfs/c1/F*,2,900\n";

}  // namespace

TEST_CASE("steps of one strategy and one range of contexts become one point and its times") {
  const ImportedPoints read = read_with(read_step_log,
                                        "strategy,emitted,request,context,step_us\r\n"
                                        "nsa/d3k1n4/bfs/c1/F*,4,a,2100,1000\r\n"
                                        "nsa/d3k1n4/bfs/c1/F*,1,a,2104,1100.5\r\n"
                                        "\r\n"
                                        "nsa/d3k1n4/bfs/c1/F*,4,b,4096,\r\n");
  CHECK(read.rows_taken == 3);
  CHECK(read.details["requests"] == 2);
  REQUIRE(read.points.size() == 2);
  const PointMeasurement& accepted = read.points[0];
  CHECK(accepted.key.workload == WorkloadKind::kAcceptance);
  CHECK(accepted.key.strategy == "nsa/d3k1n4/bfs/c1/F*");
  CHECK(accepted.key.context_len == 3072);  // the median, 2104, rounded up
  CHECK(accepted.key.num_queries == 4);
  CHECK(is_imported(accepted));
  CHECK(accepted.reliability == Reliability::kUnchecked);
  REQUIRE(accepted.acceptance);
  CHECK(accepted.acceptance->steps == 3);
  CHECK(accepted.acceptance->generated_tokens == 9);
  CHECK(accepted.acceptance->accepted_per_step == Approx(3.0));
  CHECK(accepted.acceptance->accepted_histogram == std::vector<std::int64_t>{0, 1, 0, 0, 2});
  CHECK(read.points[1].key.workload == WorkloadKind::kStep);
  CHECK(read.points[1].time_ns == std::vector<double>{1000e3, 1100.5e3});
  CHECK(!read.points[1].acceptance);
}

TEST_CASE("contexts apart become points apart, and a log without times has none") {
  const ImportedPoints read = read_with(read_step_log,
                                        "request,context,strategy,emitted\n"
                                        "a,1,dense/ar,1\n"
                                        "a,1024,dense/ar,1\n"
                                        "a,1025,dense/ar,1\n"
                                        "a,4097,dense/ar,1\n"
                                        "a,60000,dense/ar,1");
  REQUIRE(read.points.size() == 4);
  CHECK(read.points[0].key.context_len == 1024);
  CHECK(read.points[0].acceptance->steps == 2);
  CHECK(read.points[1].key.context_len == 2048);
  CHECK(read.points[2].key.context_len == 5120);
  CHECK(read.points[3].key.context_len == 60416);
}

TEST_CASE("steps of several requests at a time are acceptance and times apart") {
  const ImportedPoints read = read_with(read_step_log,
                                        "request,context,strategy,emitted,step_us,concurrency\n"
                                        "a,1000,nsa/d3k1n4/bfs/c1/F*,2,900,1\n"
                                        "a,1000,nsa/d3k1n4/bfs/c1/F*,3,950,8\n"
                                        "a,1000,nsa/d3k1n4/bfs/c1/F*,4,,\n");
  REQUIRE(read.points.size() == 4);
  CHECK(read.points[0].key.regime == "concurrency 1");
  CHECK(read.points[0].acceptance->steps == 2);
  CHECK(read.points[1].key.workload == WorkloadKind::kStep);
  CHECK(read.points[2].key.regime == "concurrency 8");
  CHECK(read.points[3].key.workload == WorkloadKind::kStep);
  CHECK(read.points[3].key.regime == "concurrency 8");
  CHECK(read.points[3].time_ns == std::vector<double>{950e3});
  CHECK(read.left_out.empty());
}

TEST_CASE("a log without steps has no points") {
  CHECK(read_with(read_step_log, "").points.empty());
  CHECK(read_with(read_step_log, "\xEF\xBB\xBF" + kHeader).points.empty());
}

TEST_CASE("every wrong line of a log is refused with what is wrong") {
  test::check_refusals(
      read_step_log,
      {{"request,context,strategy\n", "line 1: the header lacks the column 'emitted'"},
       {"request,context,strategy,emitted,us\n", "line 1: the header names a column 'us'"},
       {"request,context,context,strategy,emitted\n", "names the column 'context' twice"},
       {kHeader + kLine + "a,1000,nsa/ar,1\n", "line 3: has 4 fields where the header has 5"},
       {kHeader + "\n,1000,nsa/ar,1,9\n", "line 3: request is empty"},
       {kHeader + "a,0,nsa/ar,1,9\n", "context is '0', not a whole number from 1 to 16777216"},
       {kHeader + "a,1e3,nsa/ar,1,9\n", "context is '1e3'"},
       {kHeader + "a,99999999999999999999,nsa/ar,1,9\n", "context is '99999999999999999999'"},
       {kHeader + "a,1000,nsa/ar,2,9\n", "emitted is '2', not a whole number from 1 to 1"},
       {kHeader + "a,1000,nsa/d3k1n4/bfs/c1/F*,5,9\n", "from 1 to 4"},
       {kHeader + "a,1000,nsa/d8k4n4/bfs/c1/F*,5,9\n", "from 1 to 4"},  // three nodes deep at most
       {kHeader + "a,1000,nsa/d3k1n4/bfs/c1/F*,0,9\n", "emitted is '0'"},
       {kHeader + "a,1000,nsa/d3k1n4,1,9\n", "line 2: strategy 'nsa/d3k1n4'"},
       {kHeader + "a,1000,\xFF\xFE,1,9\n", "which no strategy text looks like"},
       {kHeader + "a,1000,nsa/ar,1,nan\n", "step_us is nan, not a number from 0.1 to 100000000"},
       {kHeader + "a,1000,nsa/ar,1,-5\n", "step_us is -5"},
       {kHeader + "a,1000,nsa/ar,1,1e300\n", "step_us is 1e+300"},
       {kHeader + "a,1000,nsa/ar,1,1e999\n", "step_us is '1e999', not a number"},
       {kHeader + "a,1000,nsa/ar,1,inf\n", "step_us is inf"},
       {kHeader + "a,1000,nsa/ar,1,9us\n", "step_us is '9us', not a number"},
       {kHeader + std::string("a,1000,nsa/ar,1,\0", 17), "line 2: holds a control character"},
       {kHeader + std::string(70000, 'a'), "line 2: is longer than 65536 bytes"}});
}
