// What differs beyond noise is told from what does not, with the rule that was used.
#include "engine/analyse/compare/point_comparison.h"

#include <catch2/catch.hpp>

#include "tests/support/errors.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

ComparedPoint timed(std::int64_t context, double us, double half_width = 0.002) {
  ComparedPoint p;
  p.key = {.workload = WorkloadKind::kStep,
           .model = "nsa-1b",
           .strategy = "nsa/d6k8n64/bfs/c1/F*",
           .dtype = Dtype::kBf16,
           .launch = LaunchMode::kGraph,
           .context_len = context};
  p.median_ns = 1000.0 * us;
  p.median_low_ns = *p.median_ns * (1.0 - half_width);
  p.median_high_ns = *p.median_ns * (1.0 + half_width);
  return p;
}

ComparedSide side(std::vector<ComparedPoint> points) {
  ComparedSide s{.database = "a.db",
                 .device = "NVIDIA H100",
                 .other_devices = {},
                 .runs = {},
                 .points = std::move(points)};
  for (std::size_t i = 0; i < s.points.size(); ++i) {
    s.points[i].id = static_cast<std::int64_t>(i) + 1;
  }
  return s;
}

}  // namespace

TEST_CASE("regressions beyond noise come first, and what is the same is said to be") {
  const ComparedSide before =
      side({timed(1024, 100.0), timed(2048, 100.0), timed(4096, 100.0), timed(8192, 100.0)});
  const ComparedSide after =
      side({timed(1024, 101.0), timed(2048, 80.0), timed(4096, 104.0), timed(16384, 1.0)});
  const PointComparison c = compare_points(before, after, ComparedFigure::kTime);
  REQUIRE(c.tuples.size() == 3);
  CHECK(c.tuples[0].change == Change::kWorse);
  CHECK(c.tuples[0].ratio() == Approx(1.04));
  REQUIRE(c.tuples[0].ratio_interval);
  CHECK(c.tuples[0].ratio_interval->low == Approx(1.04 * (1.0 - 0.0028)).epsilon(1e-3));
  CHECK(c.tuples[1].change == Change::kBetter);
  CHECK(c.tuples[2].change == Change::kSame);  // 1 % is within the 2 % that are assumed
  CHECK(c.only_base == std::vector<std::size_t>{3});
  CHECK(c.only_other == std::vector<std::size_t>{3});
  CHECK(c.noise.is_assumed());
  CHECK(test::contains(rule_text(c), "2.0 %, assumed"));
  CHECK(counts_text(c) ==
        "3 tuples in both: 1 slower, 1 same within noise, 1 faster; 1 in the first alone, 1 in "
        "the second alone");
  CHECK(compare_points(before, after, ComparedFigure::kTime, 0.05).count_of(Change::kWorse) == 0);
  CHECK(compare_points(before, after, ComparedFigure::kTime, 0.0).count_of(Change::kWorse) == 2);
}

TEST_CASE("a difference that wide intervals explain is the same, however large") {
  const PointComparison c = compare_points(side({timed(1024, 100.0, 0.3)}),
                                           side({timed(1024, 110.0, 0.3)}), ComparedFigure::kTime);
  CHECK(c.tuples[0].change == Change::kSame);
}

TEST_CASE("Holm: what one tuple alone would prove is chance among a thousand") {
  // 3 % apart with errors of 1 %: p = 0.034 alone.
  std::vector<ComparedPoint> before, after;
  for (int i = 0; i < 100; ++i) {
    before.push_back(timed(1024 + i, 100.0, 0.0196));
    after.push_back(timed(1024 + i, i == 0 ? 103.0 : 100.0, 0.0196));
  }
  const ComparedSide one = side({before.front()}), other = side({after.front()});
  CHECK(compare_points(one, other, ComparedFigure::kTime).count_of(Change::kWorse) == 1);
  CHECK(compare_points(side(before), side(after), ComparedFigure::kTime).count_of(Change::kWorse) ==
        0);
}

TEST_CASE("noise is what repeated measurements differ by, where there are enough") {
  std::vector<ComparedPoint> twice;
  for (int i = 0; i < 40; ++i) {
    twice.push_back(timed(1024 + i, 100.0));
    twice.push_back(timed(1024 + i, i < 36 ? 101.0 : 110.0));
  }
  const ComparedSide repeated = side(twice);
  const RunNoise noise = noise_of({&repeated}, ComparedFigure::kTime);
  CHECK(noise.repeats == 40);
  CHECK(noise.share == Approx(0.1));
  CHECK(test::contains(rule_text(compare_points(repeated, repeated, ComparedFigure::kTime)),
                       "10.0 %, within which 95 % of 40 repeated measurements lie"));
  // Another program's measurement is no repeat: it may be slower for a reason.
  for (std::size_t i = 0; i < twice.size(); i += 2) {
    twice[i].program = i < 60 ? "one" : "two";
    twice[i + 1].program = "one";
  }
  const ComparedSide two_programs = side(twice);
  CHECK(noise_of({&two_programs}, ComparedFigure::kTime).repeats == 30);
  CHECK(noise_of({&two_programs}, ComparedFigure::kTime).share == Approx(0.01));
  // The newest of a tuple is compared.
  const PointComparison c =
      compare_points(repeated, side({timed(1024, 150.0)}), ComparedFigure::kTime);
  CHECK(c.tuples[0].base_value == Approx(101'000.0));
}

TEST_CASE("what no interval or a throttled clock leaves open is not judged") {
  ComparedPoint bare = timed(1024, 100.0);
  bare.median_low_ns.reset();
  ComparedPoint hot = timed(2048, 100.0);
  hot.reliability = Reliability::kThrottled;
  const PointComparison c = compare_points(
      side({bare, hot}), side({timed(1024, 120.0), timed(2048, 120.0)}), ComparedFigure::kTime);
  REQUIRE(c.count_of(Change::kNotJudged) == 2);
  const std::string text =
      comparison_text(side({bare, hot}), side({timed(1024, 120.0), timed(2048, 120.0)}), c, 0);
  CHECK(test::contains(text, "fewer than six samples"));
  CHECK(test::contains(text, "its time is throttled in the first"));
}

TEST_CASE("more tokens a step are better, more bytes worse; few bytes are not compared") {
  ComparedPoint before = timed(1024, 100.0), after = timed(1024, 100.0);
  before.accepted_per_step = 2.0;
  after.accepted_per_step = 3.0;
  before.dram_bytes = 2e6;
  after.dram_bytes = 3e6;
  CHECK(compare_points(side({before}), side({after}), ComparedFigure::kTokens).tuples[0].change ==
        Change::kBetter);
  CHECK(
      compare_points(side({before}), side({after}), ComparedFigure::kDramBytes).tuples[0].change ==
      Change::kWorse);
  before.dram_bytes = 10.0;
  CHECK(compare_points(side({before}), side({after}), ComparedFigure::kDramBytes).tuples.empty());
}

TEST_CASE("points of two pairs of one name are two tuples") {
  ComparedPoint one = timed(1024, 100.0), two = timed(1024, 100.0);
  one.key.pair = "aaaa";
  two.key.pair = "bbbb";
  const PointComparison c = compare_points(side({one}), side({two}), ComparedFigure::kTime);
  CHECK(c.tuples.empty());
  CHECK(c.only_base.size() == 1);
}

TEST_CASE("what differs between the runs is named") {
  ComparedSide before = side({timed(1024, 100.0)}), after = before;
  before.runs = {{.environment = R"({"gpu":{"state":{"driver":"580.1"}}})", .revision = "aaaa"}};
  after.runs = {{.environment = R"({"gpu":{"state":{"driver":"590.2"}}})", .revision = "aaaa"}};
  CHECK(compare_points(before, after, ComparedFigure::kTime).what_differs ==
        std::vector<std::string>{"driver: 580.1; then 590.2"});
  after.runs[0].environment = "no JSON";
  CHECK(compare_points(before, after, ComparedFigure::kTime).what_differs ==
        std::vector<std::string>{"driver: 580.1; then not said"});
}

TEST_CASE("a figure of another name is refused") {
  CHECK(test::error_of([] { compared_figure("speed"); }).code() == ExitCode::kUsage);
}
