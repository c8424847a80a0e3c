// CUPTI's functions, found at run time: nothing links libcupti or libcuda, so that every binary
// starts on a machine without a driver. Only in builds that saw CUPTI's headers.
#pragma once

#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <string>
#include <vector>

#define VERSIEVE_CUPTI_FUNCTIONS(X)               \
  X(cuptiGetVersion)                              \
  X(cuptiGetResultString)                         \
  X(cuptiProfilerInitialize)                      \
  X(cuptiProfilerDeInitialize)                    \
  X(cuptiProfilerDeviceSupported)                 \
  X(cuptiDeviceGetChipName)                       \
  X(cuptiProfilerGetCounterAvailability)          \
  X(cuptiProfilerHostInitialize)                  \
  X(cuptiProfilerHostDeinitialize)                \
  X(cuptiProfilerHostGetMetricProperties)         \
  X(cuptiProfilerHostConfigAddMetrics)            \
  X(cuptiProfilerHostGetConfigImageSize)          \
  X(cuptiProfilerHostGetConfigImage)              \
  X(cuptiProfilerHostGetNumOfPasses)              \
  X(cuptiProfilerHostEvaluateToGpuValues)         \
  X(cuptiRangeProfilerEnable)                     \
  X(cuptiRangeProfilerDisable)                    \
  X(cuptiRangeProfilerSetConfig)                  \
  X(cuptiRangeProfilerStart)                      \
  X(cuptiRangeProfilerStop)                       \
  X(cuptiRangeProfilerPushRange)                  \
  X(cuptiRangeProfilerPopRange)                   \
  X(cuptiRangeProfilerDecodeData)                 \
  X(cuptiRangeProfilerGetCounterDataSize)         \
  X(cuptiRangeProfilerCounterDataImageInitialize) \
  X(cuptiRangeProfilerGetCounterDataInfo)         \
  X(cuptiRangeProfilerCounterDataGetRangeInfo)    \
  X(cuptiActivityRegisterCallbacks)               \
  X(cuptiActivityEnable)                          \
  X(cuptiActivityDisable)                         \
  X(cuptiActivityFlushAll)                        \
  X(cuptiActivityGetNextRecord)                   \
  X(cuptiActivityGetNumDroppedRecords)            \
  X(cuptiActivityPushExternalCorrelationId)       \
  X(cuptiActivityPopExternalCorrelationId)

namespace versieve::profiler {

struct CuptiLibrary {
#define VERSIEVE_CUPTI_MEMBER(name) decltype(&::name) name = nullptr;
  VERSIEVE_CUPTI_FUNCTIONS(VERSIEVE_CUPTI_MEMBER)
#undef VERSIEVE_CUPTI_MEMBER
  std::string path;             // of the library that was loaded; empty: none
  std::string missing_because;  // one sentence when none was

  bool loaded() const {
    return !path.empty();
  }
};

// Where libcupti is looked for, in order: $VERSIEVE_CUPTI_LIBRARY, the executable's folder, the
// loader's own path, CUDA_HOME and CUDA_PATH, the toolkit of the build, /usr/local/cuda*, Python's
// site-packages. Entries may not exist.
std::vector<std::string> cupti_candidates();

// Loaded once a process and never unloaded: CUPTI keeps threads of its own.
const CuptiLibrary& cupti();

// A params struct of CUPTI's: zeros, with its size set.
template <class Params>
Params cupti_params(std::size_t struct_size) {
  Params params{};
  params.structSize = struct_size;
  return params;
}
#define VERSIEVE_CUPTI_PARAMS(type) ::versieve::profiler::cupti_params<type>(type##_STRUCT_SIZE)

// Throws Error(kEnvironment) naming the step that failed.
void check_cupti(CUptiResult result, const char* step);

}  // namespace versieve::profiler
