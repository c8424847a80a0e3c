// Counter access: each CUPTI error has its state and sentence; a machine without a driver gets an
// answer and no crash.
#include <catch2/catch.hpp>

#include "model/words/error.h"
#include "profiler/activity_trace.h"
#include "profiler/counter_access.h"
#include "profiler/gpu_timer.h"
#include "profiler/range_counters.h"
#include "profiler/self_check.h"

using namespace versieve;
using namespace versieve::profiler;

TEST_CASE("each CUPTI error has a state and a sentence of its own") {
  const auto check = [](int code, CounterState state, const std::string& part) {
    const CounterAccess access = counter_access_for(code, "GH100");
    CAPTURE(code, access.sentence);
    CHECK(access.state == state);
    CHECK(access.sentence.find(part) != std::string::npos);
    CHECK(access.sentence.back() == '.');
    CHECK(access.code == code);
  };
  check(0, CounterState::kOk, "GH100");
  check(35, CounterState::kDenied, "NVreg_RestrictProfilingToAdminUsers=0");
  check(40, CounterState::kDenied, "hypervisor");
  check(26, CounterState::kBusy, "Another profiler");
  check(39, CounterState::kBusy, "Another profiler");
  check(33, CounterState::kUnsupported, "virtual GPU");
  check(41, CounterState::kUnsupported, "Confidential computing");
  check(43, CounterState::kUnsupported, "MIG");
  check(44, CounterState::kUnsupported, "SLI");
  check(45, CounterState::kUnsupported, "WSL");
  check(46, CounterState::kUnsupported, "does not know the chip GH100");
  check(999, CounterState::kUnsupported, "driver missing or mismatched");
  check(7, CounterState::kUnsupported, "error 7");
}

TEST_CASE("a state that keeps a counter away is a status that the database knows") {
  CHECK(counter_status(CounterState::kDenied) == CounterStatus::kDenied);
  CHECK(counter_status(CounterState::kBusy) == CounterStatus::kDenied);
  CHECK(counter_status(CounterState::kUnsupported) == CounterStatus::kUnsupported);
  CHECK(counter_status(CounterState::kOff) == CounterStatus::kOff);
}

TEST_CASE("without a GPU the probe says unsupported with a sentence and nothing crashes") {
  if (gpu_missing_because().empty()) {
    WARN("skipped: this machine has a GPU");
    return;
  }
  const CounterAccess access = probe_counter_access();
  CHECK(access.state == CounterState::kUnsupported);
  CHECK(!access.sentence.empty());
  CHECK(probe_counter_access().sentence == access.sentence);  // and again
  CHECK(run_self_check(access).status == SelfCheckVerdict::kOff);
}

TEST_CASE("without a GPU every session refuses as a matter of the environment") {
  if (gpu_missing_because().empty()) {
    WARN("skipped: this machine has a GPU");
    return;
  }
  const auto refuses = [](const auto& make) {
    try {
      make();
    } catch (const Error& error) {
      return error.code() == ExitCode::kEnvironment && std::string(error.what()).size() > 10;
    }
    return false;
  };
  CHECK(refuses([] { RangeCounters({"dram__bytes_read.sum"}, 1); }));
  CHECK(refuses([] { ActivityTrace(); }));
  CHECK(refuses([] { GpuStream(); }));
}

TEST_CASE("the self-check's verdict turns at two per cent") {
  const SelfCheck good = judged({.copy_bytes = 268435456.0,
                                 .copy_read_bytes = 268.4e6,
                                 .copy_write_bytes = 272.8e6,
                                 .reread_bytes = 16777216.0,
                                 .reread_read_bytes = 16.8e6});
  CHECK(good.status == SelfCheckVerdict::kOk);
  CHECK(good.sentence.find("268.4") != std::string::npos);
  SelfCheck bad = good;
  bad.reread_read_bytes = 17.2e6;
  CHECK(judged(bad).status == SelfCheckVerdict::kSuspect);
  bad = good;
  bad.copy_write_bytes = 0.97 * good.copy_bytes;
  CHECK(judged(bad).status == SelfCheckVerdict::kSuspect);
}
