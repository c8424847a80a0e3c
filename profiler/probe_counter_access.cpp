// The probe: a whole collection of one metric over one empty range. Privileges cannot be asked for
// in advance; they show when the counters are taken.
#include <cuda_runtime.h>

#include "model/words/error.h"
#include "profiler/counter_access.h"
#include "profiler/cupti_library.h"
#include "profiler/driver_context.h"
#include "profiler/metric_group.h"
#include "profiler/range_counters.h"

namespace versieve::profiler {
namespace {

CounterAccess unsupported(const std::string& sentence) {
  return {CounterState::kUnsupported, 0, sentence};
}

// The part of the device's configuration that rules counters out, or an empty text.
std::string excluding_part(const CUpti_Profiler_DeviceSupported_Params& params) {
  const auto excludes = [](CUpti_Profiler_Support_Level level) {
    return level == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED ||
           level == CUPTI_PROFILER_CONFIGURATION_DISABLED;
  };
  if (excludes(params.vGpu)) {
    return "the virtual GPU";
  }
  if (excludes(params.confidentialCompute)) {
    return "confidential computing";
  }
  if (excludes(params.sli)) {
    return "SLI";
  }
  if (excludes(params.cmp)) {
    return "this mining device";
  }
  if (excludes(params.wsl)) {
    return "WSL";
  }
  return "the architecture";
}

// Steps that need no privilege: each failure is a state of its own. Ok: go on.
CounterAccess check_device() {
  auto initialize = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Initialize_Params);
  CUptiResult result = cupti().cuptiProfilerInitialize(&initialize);
  if (result != CUPTI_SUCCESS) {  // every later call may crash now
    return counter_access_for(static_cast<int>(result), "of this GPU");
  }
  auto supported = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_DeviceSupported_Params);
  supported.cuDevice = current_device();
  supported.api = CUPTI_PROFILER_RANGE_PROFILING;
  result = cupti().cuptiProfilerDeviceSupported(&supported);
  if (result != CUPTI_SUCCESS) {
    return counter_access_for(static_cast<int>(result), "of this GPU");
  }
  if (supported.isSupported != CUPTI_PROFILER_CONFIGURATION_SUPPORTED) {
    return unsupported("CUPTI reports hardware counters as unsupported here because of " +
                       excluding_part(supported) + ".");
  }
  return counter_access_for(0, "");
}

CounterAccess try_collection() {
  auto name = VERSIEVE_CUPTI_PARAMS(CUpti_Device_GetChipName_Params);
  name.deviceIndex = static_cast<std::size_t>(current_device());
  const CUptiResult named = cupti().cuptiDeviceGetChipName(&name);
  const std::string chip =
      named == CUPTI_SUCCESS && name.pChipName != nullptr ? name.pChipName : "";
  auto enable = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params);
  enable.ctx = current_driver_context();
  const CUptiResult enabled = cupti().cuptiRangeProfilerEnable(&enable);
  if (enabled != CUPTI_SUCCESS) {
    return counter_access_for(static_cast<int>(enabled), chip);
  }
  auto disable = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params);
  disable.pRangeProfilerObject = enable.pRangeProfilerObject;
  cupti().cuptiRangeProfilerDisable(&disable);
  RangeCounters counters({kDramBytesRead}, 1);
  counters.begin();
  counters.push("probe");
  counters.pop();
  counters.end();
  return counter_access_for(0, chip);
}

}  // namespace

CounterAccess probe_counter_access() {
  if (const std::string absent = no_gpu_answers_because(); !absent.empty()) {
    return unsupported(absent);
  }
  if (!cupti().loaded()) {
    return unsupported(cupti().missing_because);
  }
  try {
    const CounterAccess device = check_device();
    return device.ok() ? try_collection() : device;
  } catch (const Error& error) {
    return unsupported(error.what());
  }
}

}  // namespace versieve::profiler
