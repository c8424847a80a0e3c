// Metric sets against CUPTI's own catalogue, with no GPU; and what a returned number must satisfy.
#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "model/words/error.h"
#include "profiler/metric_catalog.h"
#include "profiler/metric_group.h"

using namespace versieve;
using namespace versieve::profiler;

namespace {

bool catalogue_is_missing() {
  const std::string reason = MetricCatalog::missing_because();
  if (!reason.empty()) {
    WARN("skipped: " << reason);
  }
  return !reason.empty();
}

}  // namespace

TEST_CASE("the core group is known to GH100 and is collected in one pass") {
  if (catalogue_is_missing()) {
    return;
  }
  const MetricCatalog catalog("GH100");
  CHECK(catalog.unknown_of(core_metrics()).empty());
  CHECK(catalog.pass_count(core_metrics()) == 1);
  CHECK(catalog.pass_count({kDramBytesRead, kDramBytesWrite, kGpuDuration}) == 1);
  CHECK(catalog.config_image(core_metrics()).size() > 100);
}

TEST_CASE("the popular hit rate needs two passes, which is why it is not in the group") {
  if (catalogue_is_missing()) {
    return;
  }
  CHECK(MetricCatalog("GH100").pass_count({"lts__t_sector_hit_rate.pct"}) == 2);
}

TEST_CASE("metrics explain themselves and unknown ones are named") {
  if (catalogue_is_missing()) {
    return;
  }
  const MetricCatalog catalog("GH100");
  const auto properties = catalog.properties(kDramBytesRead);
  REQUIRE(properties);
  CHECK(properties->description.find("DRAM") != std::string::npos);
  CHECK(!catalog.properties("dram__bytes_imagined.sum"));
  CHECK_THROWS_WITH(catalog.config_image({kDramBytesRead, "dram__bytes_imagined.sum"}),
                    Catch::Contains("dram__bytes_imagined.sum"));
}

TEST_CASE("a chip that CUPTI does not know is refused by a sentence, not replaced by another") {
  if (catalogue_is_missing()) {
    return;
  }
  CHECK_THROWS_AS(MetricCatalog("GH999"), Error);
}

TEST_CASE("a chip without DRAM byte counters is found out before a campaign") {
  if (catalogue_is_missing()) {
    return;
  }
  const std::vector<std::string> unknown = MetricCatalog("GB202").unknown_of(core_metrics());
  const std::set<std::string> names(unknown.begin(), unknown.end());
  CHECK(names.count(kDramBytesRead) == 1);
}

TEST_CASE("the core group holds nineteen metrics, none twice") {
  const std::vector<std::string> metrics = core_metrics();
  CHECK(metrics.size() == 19);
  CHECK(std::set<std::string>(metrics.begin(), metrics.end()).size() == 19);
}

TEST_CASE("a number that cannot be is no value") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(checked_counter(kDramBytesRead, nan).status == CounterStatus::kNan);
  CHECK(!checked_counter(kDramBytesRead, nan).value);
  CHECK(checked_counter(kDramBytesRead, -1.0).status == CounterStatus::kOutOfRange);
  CHECK(!checked_counter(kDramBytesRead, -1.0).value);
  CHECK(checked_counter("lts__t_request_hit_rate.pct", 100.5).status == CounterStatus::kOutOfRange);
  CHECK(checked_counter("lts__t_request_hit_rate.pct", 100.0).value == 100.0);
  CHECK(checked_counter(kDramBytesRead, 0.0).value == 0.0);
}

TEST_CASE("sums add over launches, rates and percentages do not") {
  CHECK(adds_up(kDramBytesRead));
  CHECK(adds_up("sm__cycles_elapsed.max"));
  CHECK(!adds_up("sm__cycles_elapsed.avg.per_second"));
  CHECK(!adds_up("dram__throughput.avg.pct_of_peak_sustained_elapsed"));
}

TEST_CASE("counters that were not had keep their names and say why") {
  const std::vector<CounterValue> absent =
      absent_counters({"a.sum", "b.sum"}, CounterStatus::kDenied);
  REQUIRE(absent.size() == 2);
  CHECK(absent[1].metric == "b.sum");
  CHECK(!absent[1].value);
  CHECK(absent[1].status == CounterStatus::kDenied);
}
