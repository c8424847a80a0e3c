#include "profiler/range_counters.h"

#include <cuda_runtime.h>

#include <charconv>
#include <optional>

#include "model/words/assert.h"
#include "model/words/error.h"
#include "profiler/cupti_library.h"
#include "profiler/driver_context.h"
#include "profiler/metric_catalog.h"
#include "profiler/metric_group.h"

namespace versieve::profiler {
namespace {

// Initialised once a process: without it every later call may crash, so its failure ends here.
void initialize_profiler() {
  if (!cupti().loaded()) {
    throw Error(ExitCode::kEnvironment, cupti().missing_because);
  }
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Initialize_Params);
  check_cupti(cupti().cuptiProfilerInitialize(&params), "starting CUPTI");
}

std::string chip_name(int device) {
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_Device_GetChipName_Params);
  params.deviceIndex = static_cast<std::size_t>(device);
  check_cupti(cupti().cuptiDeviceGetChipName(&params), "naming the chip");
  return params.pChipName != nullptr ? params.pChipName : "";
}

std::vector<std::uint8_t> counter_availability(CUcontext context) {
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability_Params);
  params.ctx = context;
  check_cupti(cupti().cuptiProfilerGetCounterAvailability(&params), "asking for the counters");
  std::vector<std::uint8_t> image(params.counterAvailabilityImageSize);
  params.pCounterAvailabilityImage = image.data();
  check_cupti(cupti().cuptiProfilerGetCounterAvailability(&params), "asking for the counters");
  return image;
}

// CUPTI merges ranges of one name, so each is pushed under a name of its own: "ordinal:path".
std::string unique_name(std::size_t ordinal, const std::string& path) {
  return std::to_string(ordinal) + ":" + path;
}

std::size_t ordinal_of(const std::string& name) {
  std::size_t ordinal = 0;
  const char* end = name.data() + name.size();
  const std::from_chars_result parsed = std::from_chars(name.data(), end, ordinal);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != ':') {
    throw Error(ExitCode::kEnvironment, "counters: CUPTI returned an unknown range '" + name + "'");
  }
  return ordinal;
}

}  // namespace

struct RangeCounters::Impl {
  std::vector<std::string> metrics;
  std::int64_t max_ranges = 0;
  CUcontext context = nullptr;
  std::string chip;
  std::optional<MetricCatalog> catalog;
  std::vector<std::uint8_t> config;
  std::vector<std::uint8_t> counter_image;
  CUpti_RangeProfiler_Object* profiler = nullptr;  // enabled while not null
  std::vector<std::string> paths;                  // of this repetition, by ordinal
  bool collecting = false;
  bool in_range = false;

  void enable();
  void make_counter_image();
  void set_config();
  std::vector<RangeSample> decode();
  RangeSample evaluate(std::size_t index, std::size_t& ordinal) const;
};

void RangeCounters::Impl::enable() {
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params);
  params.ctx = context;
  check_cupti(cupti().cuptiRangeProfilerEnable(&params), "taking the counters");
  profiler = params.pRangeProfilerObject;
}

void RangeCounters::Impl::make_counter_image() {
  std::vector<const char*> names;
  for (const std::string& metric : metrics) {
    names.push_back(metric.c_str());
  }
  auto size = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params);
  size.pRangeProfilerObject = profiler;
  size.pMetricNames = names.data();
  size.numMetrics = names.size();
  size.maxNumOfRanges = static_cast<std::size_t>(max_ranges);
  size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(max_ranges);
  check_cupti(cupti().cuptiRangeProfilerGetCounterDataSize(&size), "sizing the counters");
  counter_image.assign(size.counterDataSize, 0);
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params);
  params.pRangeProfilerObject = profiler;
  params.counterDataSize = counter_image.size();
  params.pCounterData = counter_image.data();
  check_cupti(cupti().cuptiRangeProfilerCounterDataImageInitialize(&params),
              "preparing the counters");
}

void RangeCounters::Impl::set_config() {
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params);
  params.pRangeProfilerObject = profiler;
  params.configSize = config.size();
  params.pConfig = config.data();
  params.counterDataImageSize = counter_image.size();
  params.pCounterDataImage = counter_image.data();
  params.range = CUPTI_UserRange;
  params.replayMode = CUPTI_UserReplay;
  params.maxRangesPerPass = static_cast<std::size_t>(max_ranges);
  params.numNestingLevels = 1;
  params.minNestingLevel = 1;
  params.passIndex = 0;
  params.targetNestingLevel = 1;
  check_cupti(cupti().cuptiRangeProfilerSetConfig(&params), "configuring the counters");
}

RangeSample RangeCounters::Impl::evaluate(std::size_t index, std::size_t& ordinal) const {
  auto info = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_CounterData_GetRangeInfo_Params);
  info.pCounterDataImage = counter_image.data();
  info.counterDataImageSize = counter_image.size();
  info.rangeIndex = index;
  info.rangeDelimiter = "/";
  check_cupti(cupti().cuptiRangeProfilerCounterDataGetRangeInfo(&info), "naming a range");
  ordinal = ordinal_of(info.rangeName != nullptr ? info.rangeName : "");
  VERSIEVE_ASSERT(ordinal < paths.size(), "CUPTI returned a range that was never pushed");
  RangeSample sample{paths[ordinal], {}};
  const std::vector<double> values = catalog->evaluate(counter_image, index, metrics);
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    sample.counters.push_back(checked_counter(metrics[m], values[m]));
  }
  return sample;
}

std::vector<RangeSample> RangeCounters::Impl::decode() {
  auto data = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData_Params);
  data.pRangeProfilerObject = profiler;
  check_cupti(cupti().cuptiRangeProfilerDecodeData(&data), "decoding the counters");
  auto info = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params);
  info.pCounterDataImage = counter_image.data();
  info.counterDataImageSize = counter_image.size();
  check_cupti(cupti().cuptiRangeProfilerGetCounterDataInfo(&info), "counting the ranges");
  if (data.numOfRangeDropped != 0 || info.numTotalRanges != paths.size()) {
    throw Error(ExitCode::kEnvironment, "counters: " + std::to_string(paths.size()) +
                                            " ranges were pushed, " +
                                            std::to_string(info.numTotalRanges) + " returned and " +
                                            std::to_string(data.numOfRangeDropped) + " dropped");
  }
  std::vector<RangeSample> samples(paths.size());
  for (std::size_t i = 0; i < info.numTotalRanges; ++i) {
    std::size_t ordinal = 0;
    RangeSample sample = evaluate(i, ordinal);
    samples[ordinal] = std::move(sample);
  }
  return samples;
}

RangeCounters::RangeCounters(std::vector<std::string> metrics, std::int64_t max_ranges)
    : impl_(std::make_unique<Impl>()) {
  VERSIEVE_ASSERT(max_ranges > 0 && !metrics.empty(), "a counter session needs metrics and ranges");
  impl_->metrics = std::move(metrics);
  impl_->max_ranges = max_ranges;
  impl_->context = current_driver_context();
  initialize_profiler();
  impl_->chip = chip_name(current_device());
  impl_->catalog.emplace(impl_->chip, counter_availability(impl_->context));
  impl_->config = impl_->catalog->config_image(impl_->metrics);
  const std::int64_t passes = impl_->catalog->pass_count(impl_->metrics);
  if (passes != 1) {
    throw Error(ExitCode::kEnvironment, "counters: the metric group needs " +
                                            std::to_string(passes) + " passes on " + impl_->chip +
                                            " where one is wanted");
  }
}

RangeCounters::~RangeCounters() {
  try {
    release();
  } catch (const Error&) {
    // The counters are lost to this process; there is nobody left to tell.
  }
}

void RangeCounters::begin() {
  VERSIEVE_ASSERT(!impl_->collecting, "a repetition is under way");
  if (impl_->profiler == nullptr) {
    impl_->enable();
  }
  impl_->paths.clear();
  impl_->make_counter_image();
  impl_->set_config();
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params);
  params.pRangeProfilerObject = impl_->profiler;
  check_cupti(cupti().cuptiRangeProfilerStart(&params), "starting a repetition");
  impl_->collecting = true;
}

void RangeCounters::push(const std::string& path) {
  VERSIEVE_ASSERT(impl_->collecting && !impl_->in_range, "counter ranges are flat");
  if (static_cast<std::int64_t>(impl_->paths.size()) >= impl_->max_ranges) {
    throw Error(ExitCode::kEnvironment, "counters: more than " + std::to_string(impl_->max_ranges) +
                                            " ranges in one repetition");
  }
  const std::string name = unique_name(impl_->paths.size(), path);
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_PushRange_Params);
  params.pRangeProfilerObject = impl_->profiler;
  params.pRangeName = name.c_str();
  check_cupti(cupti().cuptiRangeProfilerPushRange(&params), "opening a range");
  impl_->paths.push_back(path);
  impl_->in_range = true;
}

void RangeCounters::pop() {
  VERSIEVE_ASSERT(impl_->in_range, "no range is open");
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_PopRange_Params);
  params.pRangeProfilerObject = impl_->profiler;
  check_cupti(cupti().cuptiRangeProfilerPopRange(&params), "closing a range");
  impl_->in_range = false;
}

std::vector<RangeSample> RangeCounters::end() {
  VERSIEVE_ASSERT(impl_->collecting && !impl_->in_range, "a range is still open");
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params);
  params.pRangeProfilerObject = impl_->profiler;
  impl_->collecting = false;
  check_cupti(cupti().cuptiRangeProfilerStop(&params), "ending a repetition");
  if (params.isAllPassSubmitted == 0) {
    throw Error(ExitCode::kEnvironment, "counters: one pass did not complete the collection");
  }
  return impl_->decode();
}

void RangeCounters::release() {
  if (impl_->profiler == nullptr) {
    return;
  }
  if (impl_->collecting) {
    auto stop = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params);
    stop.pRangeProfilerObject = impl_->profiler;
    cupti().cuptiRangeProfilerStop(&stop);
    impl_->collecting = false;
    impl_->in_range = false;
  }
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params);
  params.pRangeProfilerObject = impl_->profiler;
  impl_->profiler = nullptr;
  check_cupti(cupti().cuptiRangeProfilerDisable(&params), "giving the counters back");
}

const std::string& RangeCounters::chip() const {
  return impl_->chip;
}

const std::vector<std::string>& RangeCounters::metrics() const {
  return impl_->metrics;
}

}  // namespace versieve::profiler
