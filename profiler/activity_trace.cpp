#include "profiler/activity_trace.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>

#include "model/words/assert.h"
#include "model/words/error.h"
#include "profiler/busy_time.h"
#include "profiler/cupti_library.h"
#include "profiler/driver_context.h"
#include "profiler/kernel_name.h"

namespace versieve::profiler {
namespace {

constexpr std::size_t kBufferBytes = 4U << 20;
constexpr std::size_t kBufferAlignment = 8;  // as CUPTI asks
// Calls of the API are recorded too: CUPTI ties a range to a kernel by the call that launched it.
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                         CUPTI_ACTIVITY_KIND_RUNTIME,
                                         CUPTI_ACTIVITY_KIND_DRIVER};

// Ranges and turns are stacks of their own, so that a turn holds what ranges within it launch.
constexpr CUpti_ExternalCorrelationKind kRange = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
constexpr CUpti_ExternalCorrelationKind kTurn = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;

struct Work {
  std::string kernel;  // as compiled; empty: a copy or a memset, named by `other`
  const char* other = "";
  std::uint32_t correlation = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t stream = 0;
  std::int64_t blocks = 0;
  std::int64_t threads = 0;
  std::uint64_t graph_node = 0;
};

// What CUPTI's own threads deliver. CUPTI's callbacks carry no user pointer, hence the one place
// that they all know.
struct Delivery {
  std::mutex mutex;
  std::vector<Work> kernels;
  std::vector<Work> others;  // copies and memsets
  std::map<std::uint32_t, std::uint64_t> range_of_correlation;
  std::map<std::uint32_t, std::uint64_t> turn_of_correlation;
  std::uint64_t dropped = 0;
};

Delivery& delivery() {
  static Delivery instance;
  return instance;
}

const char* copy_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "memcpy HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "memcpy DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "memcpy DtoD";
    default:
      return "memcpy";
  }
}

// A copy's or a memset's record; both have these fields under these names.
template <class Record>
Work other_work(const Record& record, const char* name) {
  return {.kernel = {},
          .other = name,
          .correlation = record.correlationId,
          .start_ns = record.start,
          .end_ns = record.end,
          .stream = record.streamId,
          .graph_node = record.graphNodeId};
}

Work kernel_work(const CUpti_ActivityKernel10& kernel) {
  return {.kernel = kernel.name != nullptr ? kernel.name : "",
          .correlation = kernel.correlationId,
          .start_ns = kernel.start,
          .end_ns = kernel.end,
          .stream = kernel.streamId,
          .blocks = std::int64_t{kernel.gridX} * kernel.gridY * kernel.gridZ,
          .threads = std::int64_t{kernel.blockX} * kernel.blockY * kernel.blockZ,
          .graph_node = kernel.graphNodeId};
}

void take_record(const CUpti_Activity& record, Delivery& into) {
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    into.kernels.push_back(kernel_work(reinterpret_cast<const CUpti_ActivityKernel10&>(record)));
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
    into.others.push_back(other_work(copy, copy_name(copy.copyKind)));
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& set = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
    into.others.push_back(other_work(set, "memset"));
  } else if (record.kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
    const auto& link = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
    (link.externalKind == kTurn ? into.turn_of_correlation
                                : into.range_of_correlation)[link.correlationId] = link.externalId;
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
  bool in_turn = false;

  void enable();
  void disable();
  void end_turn();
  std::vector<TracedRange> attribute() const;
  TracedWork traced(const Work& work, const Delivery& from) const;
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

void ActivityTrace::Impl::end_turn() {
  if (in_turn) {
    std::uint64_t id = 0;
    check_cupti(cupti().cuptiActivityPopExternalCorrelationId(kTurn, &id), "ending a turn");
    in_turn = false;
  }
}

TracedWork ActivityTrace::Impl::traced(const Work& work, const Delivery& from) const {
  TracedWork out{.kernel = work.kernel.empty() ? work.other : readable_kernel_name(work.kernel),
                 .range = {},
                 .start_ns = work.start_ns,
                 .end_ns = work.end_ns,
                 .stream = work.stream,
                 .blocks = work.blocks,
                 .threads = work.threads,
                 .call = work.correlation,
                 .graph_node = work.graph_node};
  const auto range = from.range_of_correlation.find(work.correlation);
  if (range != from.range_of_correlation.end() && range->second < paths.size()) {
    out.range = paths[range->second];
  }
  const auto turn = from.turn_of_correlation.find(work.correlation);
  out.turn = turn != from.turn_of_correlation.end() ? static_cast<std::int64_t>(turn->second) : -1;
  if (work.start_ns == 0 || work.end_ns < work.start_ns) {
    throw Error(ExitCode::kEnvironment, "trace: CUPTI has no time for '" + out.kernel + "'");
  }
  return out;
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
  for (const Work& kernel : from.kernels) {
    spans.push_back({kernel.start_ns, std::max(kernel.start_ns, kernel.end_ns)});
  }
  const std::vector<double> times = busy_times(spans);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Work& kernel = from.kernels[i];
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
    shared.others.clear();
    shared.range_of_correlation.clear();
    shared.turn_of_correlation.clear();
    shared.dropped = 0;
  }
  impl_->paths.clear();
  impl_->enable();
}

void ActivityTrace::push(const std::string& path) {
  VERSIEVE_ASSERT(impl_->tracing, "no repetition is under way");
  check_cupti(cupti().cuptiActivityPushExternalCorrelationId(kRange, impl_->paths.size()),
              "opening a traced range");
  impl_->paths.push_back(path);
}

void ActivityTrace::pop() {
  std::uint64_t id = 0;
  check_cupti(cupti().cuptiActivityPopExternalCorrelationId(kRange, &id), "closing a traced range");
}

void ActivityTrace::turn(std::int64_t number) {
  VERSIEVE_ASSERT(impl_->tracing && number >= 0, "a turn is of a repetition under way");
  impl_->end_turn();
  check_cupti(
      cupti().cuptiActivityPushExternalCorrelationId(kTurn, static_cast<std::uint64_t>(number)),
      "beginning a turn");
  impl_->in_turn = true;
}

std::vector<TracedRange> ActivityTrace::end() {
  VERSIEVE_ASSERT(impl_->tracing, "no repetition is under way");
  impl_->end_turn();
  check_cuda(cudaDeviceSynchronize(), "waiting for the trace");
  check_cupti(cupti().cuptiActivityFlushAll(1), "ending the trace");
  impl_->disable();
  return impl_->attribute();
}

std::vector<TracedWork> ActivityTrace::work() const {
  VERSIEVE_ASSERT(!impl_->tracing, "a repetition has ended");
  const Delivery& from = delivery();
  const std::lock_guard<std::mutex> lock(delivery().mutex);
  std::vector<TracedWork> all;
  for (const std::vector<Work>* works : {&from.kernels, &from.others}) {
    for (const Work& work : *works) {
      all.push_back(impl_->traced(work, from));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const TracedWork& a, const TracedWork& b) {
    return std::tie(a.call, a.graph_node, a.start_ns) < std::tie(b.call, b.graph_node, b.start_ns);
  });
  return all;
}

}  // namespace versieve::profiler
