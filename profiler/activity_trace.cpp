#include "profiler/activity_trace.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "model/words/assert.h"
#include "model/words/error.h"
#include "profiler/busy_time.h"
#include "profiler/cupti_library.h"
#include "profiler/driver_context.h"

namespace versieve::profiler {
namespace {

constexpr std::size_t kBufferBytes = 4U << 20;
constexpr std::size_t kBufferAlignment = 8;  // as CUPTI asks
// Calls of the API are recorded too: CUPTI ties a range to a kernel by the call that launched it.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};

struct KernelTime {
  std::uint32_t correlation = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

// What CUPTI's own threads deliver. CUPTI's callbacks carry no user pointer, hence the one place
// that they all know.
struct Delivery {
  std::mutex mutex;
  std::vector<KernelTime> kernels;
  std::map<std::uint32_t, std::uint64_t> range_of_correlation;
  std::uint64_t dropped = 0;
};

Delivery& delivery() {
  static Delivery instance;
  return instance;
}

void take_record(const CUpti_Activity& record, Delivery& into) {
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
    into.kernels.push_back({kernel.correlationId, kernel.start, kernel.end});
  } else if (record.kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
    const auto& link = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
    into.range_of_correlation[link.correlationId] = link.externalId;
  }
}

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *max_records = 0;
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                               std::size_t, std::size_t valid_bytes) {
  Delivery& into = delivery();
  const std::lock_guard<std::mutex> lock(into.mutex);
  CUpti_Activity* record = nullptr;
  while (cupti().cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    take_record(*record, into);
  }
  std::size_t dropped = 0;
  if (cupti().cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
    into.dropped += dropped;
  }
  std::free(buffer);
}

void register_callbacks() {
  static const CUptiResult result =
      cupti().cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
  check_cupti(result, "starting the trace");
}

}  // namespace

struct ActivityTrace::Impl {
  std::vector<std::string> paths;  // range i has external correlation id i
  bool tracing = false;

  void enable();
  void disable();
  std::vector<TracedRange> attribute() const;
};

void ActivityTrace::Impl::enable() {
  for (const CUpti_ActivityKind kind : kKinds) {
    check_cupti(cupti().cuptiActivityEnable(kind), "starting the trace");
  }
  tracing = true;
}

void ActivityTrace::Impl::disable() {
  for (const CUpti_ActivityKind kind : kKinds) {
    cupti().cuptiActivityDisable(kind);
  }
  tracing = false;
}

std::vector<TracedRange> ActivityTrace::Impl::attribute() const {
  std::vector<TracedRange> ranges(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    ranges[i].path = paths[i];
  }
  Delivery& from = delivery();
  const std::lock_guard<std::mutex> lock(from.mutex);
  if (from.dropped != 0) {
    throw Error(ExitCode::kEnvironment,
                "trace: CUPTI lost " + std::to_string(from.dropped) + " records");
  }
  std::vector<KernelSpan> spans;
  for (const KernelTime& kernel : from.kernels) {
    spans.push_back({kernel.start_ns, std::max(kernel.start_ns, kernel.end_ns)});
  }
  const std::vector<double> times = busy_times(spans);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const KernelTime& kernel = from.kernels[i];
    const auto range = from.range_of_correlation.find(kernel.correlation);
    if (range == from.range_of_correlation.end() || range->second >= ranges.size()) {
      continue;  // launched outside every range
    }
    if (kernel.start_ns == 0 || kernel.end_ns < kernel.start_ns) {
      throw Error(ExitCode::kEnvironment, "trace: CUPTI has no time for a kernel of the range '" +
                                              ranges[range->second].path + "'");
    }
    ranges[range->second].kernel_count += 1;
    ranges[range->second].kernel_ns += times[i];
  }
  return ranges;
}

std::string ActivityTrace::missing_because() {
  return cupti().loaded() ? "" : cupti().missing_because;
}

ActivityTrace::ActivityTrace() : impl_(std::make_unique<Impl>()) {
  if (!cupti().loaded()) {
    throw Error(ExitCode::kEnvironment, cupti().missing_because);
  }
  current_driver_context();  // a GPU must be there before CUPTI is asked
  register_callbacks();
}

ActivityTrace::~ActivityTrace() {
  if (impl_->tracing) {
    impl_->disable();
  }
}

void ActivityTrace::begin() {
  VERSIEVE_ASSERT(!impl_->tracing, "a repetition is under way");
  check_cuda(cudaDeviceSynchronize(), "waiting before the trace");
  check_cupti(cupti().cuptiActivityFlushAll(0), "clearing the trace");
  Delivery& shared = delivery();
  {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    shared.kernels.clear();
    shared.range_of_correlation.clear();
    shared.dropped = 0;
  }
  impl_->paths.clear();
  impl_->enable();
}

void ActivityTrace::push(const std::string& path) {
  VERSIEVE_ASSERT(impl_->tracing, "no repetition is under way");
  check_cupti(cupti().cuptiActivityPushExternalCorrelationId(
                  CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, impl_->paths.size()),
              "opening a traced range");
  impl_->paths.push_back(path);
}

void ActivityTrace::pop() {
  std::uint64_t id = 0;
  check_cupti(
      cupti().cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id),
      "closing a traced range");
}

std::vector<TracedRange> ActivityTrace::end() {
  VERSIEVE_ASSERT(impl_->tracing, "no repetition is under way");
  check_cuda(cudaDeviceSynchronize(), "waiting for the trace");
  check_cupti(cupti().cuptiActivityFlushAll(1), "ending the trace");
  impl_->disable();
  return impl_->attribute();
}

}  // namespace versieve::profiler
