#include "profiler/counter_access.h"

namespace versieve::profiler {
namespace {

CounterAccess answer(CounterState state, int code, const std::string& sentence) {
  return {state, code, sentence};
}

// The device or its driver configuration rules counters out; `what` names the part.
CounterAccess unsupported(int code, const std::string& what) {
  return answer(CounterState::kUnsupported, code,
                what + " does not support hardware counters; times are collected without them.");
}

}  // namespace

CounterStatus counter_status(CounterState state) {
  switch (state) {
    case CounterState::kOk:
      return CounterStatus::kDropped;
    case CounterState::kDenied:
    case CounterState::kBusy:
      return CounterStatus::kDenied;
    case CounterState::kUnsupported:
      return CounterStatus::kUnsupported;
    case CounterState::kOff:
    case CounterState::kUnstated:
      return CounterStatus::kOff;
  }
  return CounterStatus::kOff;
}

// Numbers are CUptiResult's, written out so that a build without CUPTI has the same table.
CounterAccess counter_access_for(int cupti_result, const std::string& chip) {
  switch (cupti_result) {
    case 0:
      return answer(CounterState::kOk, 0, "Hardware counters: on (CUPTI, " + chip + ").");
    case 35:
      return answer(
          CounterState::kDenied, 35,
          "The driver restricts GPU performance counters to administrators; times are collected, "
          "counters are not. Ask an administrator to set the driver option "
          "NVreg_RestrictProfilingToAdminUsers=0, or run with CAP_SYS_ADMIN (containers: add the "
          "capability and run as root).");
    case 40:
      return answer(CounterState::kDenied, 40,
                    "The hypervisor does not allow profiling on this virtual GPU.");
    case 33:
      return unsupported(33, "This virtual GPU");
    case 41:
      return unsupported(41, "Confidential computing mode");
    case 42:
      return unsupported(42, "This mining device");
    case 43:
      return unsupported(43, "This MIG instance");
    case 44:
      return unsupported(44, "An SLI configuration");
    case 45:
      return unsupported(45, "WSL");
    case 26:
    case 39:
      return answer(CounterState::kBusy, cupti_result,
                    "Another profiler (Nsight, DCGM, a debugger) owns the counters; stop it, or "
                    "pause DCGM's profiling, and try again.");
    case 46:
      return answer(CounterState::kUnsupported, 46,
                    "This CUPTI does not know the chip " + chip + ".");
    case 999:
      return answer(CounterState::kUnsupported, 999,
                    "CUPTI could not start (driver missing or mismatched).");
    default:
      return answer(CounterState::kUnsupported, cupti_result,
                    "CUPTI refused with its error " + std::to_string(cupti_result) + ".");
  }
}

}  // namespace versieve::profiler
