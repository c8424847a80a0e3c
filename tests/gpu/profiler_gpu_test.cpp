// The profiler on a real GPU: known kernels, known bytes, known order. Skips with a sentence where
// there is no GPU; where counters are refused, checks that the refusal is the probe's.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>

#include "model/words/error.h"
#include "profiler/activity_trace.h"
#include "profiler/cold_reads.h"
#include "profiler/counter_access.h"
#include "profiler/environment.h"
#include "profiler/gpu_timer.h"
#include "profiler/metric_group.h"
#include "profiler/range_counters.h"
#include "profiler/sample_statistics.h"
#include "profiler/self_check.h"
#include "profiler/timing.h"

using namespace versieve;
using namespace versieve::profiler;

namespace {

bool gpu_is_missing() {
  const std::string reason = gpu_missing_because();
  if (!reason.empty()) {
    WARN("skipped: " << reason);
  }
  return !reason.empty();
}

bool counters_are_missing() {
  if (gpu_is_missing()) {
    return true;
  }
  const CounterAccess access = probe_counter_access();
  if (!access.ok()) {
    WARN("skipped: " << access.sentence);
    CHECK(!access.sentence.empty());
  }
  return !access.ok();
}

double value_of(const RangeSample& sample, const std::string& metric) {
  for (const CounterValue& counter : sample.counters) {
    if (counter.metric == metric && counter.value) {
      return *counter.value;
    }
  }
  FAIL("no value of " << metric << " in " << sample.path);
  return 0.0;
}

}  // namespace

TEST_CASE("energy grows by what power and time say") {
  if (gpu_is_missing()) {
    return;
  }
  const GpuStateReader reader(describe_gpu()->pci_bus_id);
  const std::optional<double> before = reader.energy_j();
  if (!before) {
    WARN("skipped: this GPU does not tell its energy");
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  while (seconds() < 1.0) {
    measure_cold_reads();
  }
  const double watts = (*reader.energy_j() - *before) / seconds();
  CHECK(watts > 20.0);
  CHECK(watts < 1.1 * reader.read()->power_limit_w.value_or(1000.0));
}

TEST_CASE("the environment describes the GPU") {
  if (gpu_is_missing()) {
    return;
  }
  const auto gpu = describe_gpu();
  REQUIRE(gpu);
  CHECK(!gpu->name.empty());
  CHECK(gpu->sm_count > 0);
  CHECK(gpu->l2_bytes > 0);
  WARN(to_json(read_environment()));
}

TEST_CASE("known kernels come within two per cent of their bytes") {
  if (counters_are_missing()) {
    return;
  }
  const SelfCheck check = run_self_check(probe_counter_access());
  WARN(check.sentence);
  CHECK(check.status == SelfCheckVerdict::kOk);
}

TEST_CASE("cold reads take longer the more they read, and end at what the bus carries") {
  if (gpu_is_missing()) {
    return;
  }
  const double start = steady_seconds();
  const std::vector<ReadTime> table = measure_cold_reads();
  WARN("measuring cold reads took " << steady_seconds() - start << " s");
  REQUIRE(table.size() >= 12);
  for (std::size_t i = 0; i < table.size(); ++i) {
    WARN(table[i].mebibytes << " MiB " << table[i].microseconds << " us");
    CHECK(table[i].microseconds > 0.5);
    CHECK((i == 0 || table[i].microseconds > table[i - 1].microseconds));
  }
  if (const HardwareSpec* known = hardware_for_device(describe_gpu()->name)) {
    const double share = *cold_read_rate(table) / known->raw_bandwidth();
    CHECK(share > 0.85);  // a stream of plain loads; L2 holding any of it would show as above 1
    CHECK(share < 1.0);
  }
}

TEST_CASE("the core group collects every metric of 64 ranges in one repetition, in order") {
  if (counters_are_missing()) {
    return;
  }
  GpuStream stream;
  GpuTimer timer(stream);
  RangeCounters counters(core_metrics(), 64);
  for (int repetition = 0; repetition < 2; ++repetition) {
    const double start = steady_seconds();
    counters.begin();
    for (int i = 0; i < 64; ++i) {
      counters.push(i % 2 == 0 ? "flush" : "nothing");
      if (i % 2 == 0) {
        timer.flush_l2();
      }
      stream.synchronize();
      counters.pop();
    }
    const std::vector<RangeSample> samples = counters.end();
    WARN("64 ranges took " << steady_seconds() - start << " s");
    REQUIRE(samples.size() == 64);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CHECK(samples[i].path == (i % 2 == 0 ? "flush" : "nothing"));
      CHECK(samples[i].counters.size() == core_metrics().size());
    }
    const double flushed = value_of(samples[10], "lts__t_sectors_op_write.sum") * 32.0;
    CHECK(flushed >= 1.9 * static_cast<double>(gpu_l2_bytes()));
  }
  const double start = steady_seconds();
  counters.release();
  WARN("giving the counters back took " << steady_seconds() - start << " s");
  const double again = steady_seconds();
  counters.begin();
  counters.push("nothing");
  counters.pop();
  counters.end();
  WARN("taking them and one empty range took " << steady_seconds() - again << " s");
}

TEST_CASE("a range too many is refused by a sentence and the next repetition works") {
  if (counters_are_missing()) {
    return;
  }
  RangeCounters counters({kDramBytesRead}, 1);
  counters.begin();
  counters.push("a");
  counters.pop();
  CHECK_THROWS_AS(counters.push("b"), Error);
  CHECK(counters.end().size() == 1);
}

TEST_CASE("the trace attributes each kernel to the range that launched it") {
  if (gpu_is_missing()) {
    return;
  }
  GpuStream stream;
  GpuTimer timer(stream);
  timer.time_ns([] {});  // loads the modules
  ActivityTrace trace;
  for (int repetition = 0; repetition < 2; ++repetition) {
    trace.begin();
    trace.push("one delay");
    timer.time_ns([] {});
    trace.pop();
    trace.push("two delays");
    timer.time_ns([] {});
    timer.time_ns([] {});
    trace.pop();
    const std::vector<TracedRange> ranges = trace.end();
    REQUIRE(ranges.size() == 2);
    CHECK(ranges[0].path == "one delay");
    CHECK(ranges[0].kernel_count == 1);
    CHECK(ranges[1].kernel_count == 2);
    CHECK(ranges[0].kernel_ns > 20e3);  // the delay is 40 us at 2 GHz
    CHECK(ranges[1].kernel_ns > 1.5 * ranges[0].kernel_ns);
  }
}

TEST_CASE("tracing works before and after a counter session") {
  if (counters_are_missing()) {
    return;
  }
  GpuStream stream;
  GpuTimer timer(stream);
  ActivityTrace trace;
  for (int round = 0; round < 2; ++round) {
    trace.begin();
    trace.push("delay");
    timer.time_ns([] {});
    trace.pop();
    CHECK(trace.end().at(0).kernel_count == 1);
    RangeCounters counters({kDramBytesRead, kGpuDuration}, 1);
    counters.begin();
    counters.push("delay");
    timer.time_ns([] {});
    counters.pop();
    CHECK(value_of(counters.end().at(0), kGpuDuration) > 0.0);
  }
}

TEST_CASE("a captured graph takes the time of its nodes, and the queue hides the launch") {
  if (gpu_is_missing()) {
    return;
  }
  GpuStream stream;
  GpuTimer timer(stream);
  timer.flush_l2();
  stream.synchronize();
  GpuGraph one(stream, [&] { timer.flush_l2(); });
  GpuGraph eight(stream, [&] {
    for (int i = 0; i < 8; ++i) {
      timer.flush_l2();
    }
  });
  CHECK(one.node_count() == 1);
  CHECK(eight.node_count() == 8);
  const TimingPlan plan{.warm_up_s = 0.02, .stop = {.time_limit_s = 0.2}};
  const auto median = [&](const std::function<void()>& work) {
    return median_of(collect_samples([&] { return timer.time_ns(work); }, plan).samples_ns);
  };
  const double empty_ns = median([] {});
  const double one_ns = median([&] { one.launch(); });
  const double eight_ns = median([&] { eight.launch(); });
  WARN("empty " << empty_ns << " ns, one memset " << one_ns << " ns, eight " << eight_ns << " ns");
  CHECK(empty_ns < 5e3);
  CHECK(eight_ns > 5.0 * one_ns);
  CHECK(eight_ns < 9.0 * one_ns);
}
