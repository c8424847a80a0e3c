#include "profiler/metric_catalog.h"

#include "model/words/assert.h"
#include "model/words/error.h"
#include "profiler/cupti_library.h"

namespace versieve::profiler {
namespace {

std::vector<const char*> pointers_to(const std::vector<std::string>& names) {
  std::vector<const char*> pointers;
  for (const std::string& name : names) {
    pointers.push_back(name.c_str());
  }
  return pointers;
}

std::string text_or_empty(const char* text) {
  return text != nullptr ? text : "";
}

// One host object: it takes one set of metrics in its life.
class HostObject {
 public:
  HostObject(const std::string& chip, const std::vector<std::uint8_t>& availability) {
    auto params = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params);
    params.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    params.pChipName = chip.c_str();
    params.pCounterAvailabilityImage = availability.empty() ? nullptr : availability.data();
    check_cupti(cupti().cuptiProfilerHostInitialize(&params), "opening the metric catalogue");
    object_ = params.pHostObject;
  }
  ~HostObject() {
    auto params = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params);
    params.pHostObject = object_;
    cupti().cuptiProfilerHostDeinitialize(&params);
  }
  HostObject(const HostObject&) = delete;
  HostObject& operator=(const HostObject&) = delete;

  CUpti_Profiler_Host_Object* get() const { return object_; }

 private:
  CUpti_Profiler_Host_Object* object_ = nullptr;
};

}  // namespace

struct MetricCatalog::Impl {
  std::string chip;
  std::vector<std::uint8_t> availability;
  HostObject host;  // for questions and evaluation; each config image has one of its own

  Impl(const std::string& chip_name, std::vector<std::uint8_t> image)
      : chip(chip_name), availability(std::move(image)), host(chip, availability) {}
};

std::string MetricCatalog::missing_because() {
  return cupti().loaded() ? "" : cupti().missing_because;
}

MetricCatalog::MetricCatalog(const std::string& chip, std::vector<std::uint8_t> availability) {
  if (!cupti().loaded()) {
    throw Error(ExitCode::kEnvironment, cupti().missing_because);
  }
  impl_ = std::make_unique<Impl>(chip, std::move(availability));
}

MetricCatalog::~MetricCatalog() = default;
MetricCatalog::MetricCatalog(MetricCatalog&&) noexcept = default;
MetricCatalog& MetricCatalog::operator=(MetricCatalog&&) noexcept = default;

std::optional<MetricProperties> MetricCatalog::properties(const std::string& metric) const {
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Host_GetMetricProperties_Params);
  params.pHostObject = impl_->host.get();
  params.pMetricName = metric.c_str();
  if (cupti().cuptiProfilerHostGetMetricProperties(&params) != CUPTI_SUCCESS) {
    return std::nullopt;
  }
  return MetricProperties{text_or_empty(params.pDescription), text_or_empty(params.pHwUnit),
                          text_or_empty(params.pDimUnit)};
}

std::vector<std::string> MetricCatalog::unknown_of(const std::vector<std::string>& metrics) const {
  std::vector<std::string> unknown;
  for (const std::string& metric : metrics) {
    if (!properties(metric)) {
      unknown.push_back(metric);
    }
  }
  return unknown;
}

std::vector<std::uint8_t> MetricCatalog::config_image(
    const std::vector<std::string>& metrics) const {
  const std::vector<std::string> unknown = unknown_of(metrics);
  if (!unknown.empty()) {
    throw Error(
        ExitCode::kEnvironment,
        "counters: " + impl_->chip + " has no metric '" + unknown.front() + "'" +
            (unknown.size() > 1 ? " and " + std::to_string(unknown.size() - 1) + " more" : ""));
  }
  const HostObject host(impl_->chip, impl_->availability);
  std::vector<const char*> names = pointers_to(metrics);
  auto add = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params);
  add.pHostObject = host.get();
  add.ppMetricNames = names.data();
  add.numMetrics = names.size();
  check_cupti(cupti().cuptiProfilerHostConfigAddMetrics(&add), "adding metrics");
  auto size = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params);
  size.pHostObject = host.get();
  check_cupti(cupti().cuptiProfilerHostGetConfigImageSize(&size), "sizing the configuration");
  std::vector<std::uint8_t> image(size.configImageSize);
  auto get = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params);
  get.pHostObject = host.get();
  get.configImageSize = image.size();
  get.pConfigImage = image.data();
  check_cupti(cupti().cuptiProfilerHostGetConfigImage(&get), "making the configuration");
  return image;
}

std::int64_t MetricCatalog::pass_count(const std::vector<std::string>& metrics) const {
  std::vector<std::uint8_t> image = config_image(metrics);
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params);
  params.configImageSize = image.size();
  params.pConfigImage = image.data();
  check_cupti(cupti().cuptiProfilerHostGetNumOfPasses(&params), "counting passes");
  return static_cast<std::int64_t>(params.numOfPasses);
}

std::vector<double> MetricCatalog::evaluate(const std::vector<std::uint8_t>& counter_image,
                                            std::size_t range_index,
                                            const std::vector<std::string>& metrics) const {
  std::vector<const char*> names = pointers_to(metrics);
  std::vector<double> values(metrics.size());
  auto params = VERSIEVE_CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params);
  params.pHostObject = impl_->host.get();
  params.pCounterDataImage = counter_image.data();
  params.counterDataImageSize = counter_image.size();
  params.rangeIndex = range_index;
  params.ppMetricNames = names.data();
  params.numMetrics = names.size();
  params.pMetricValues = values.data();
  check_cupti(cupti().cuptiProfilerHostEvaluateToGpuValues(&params), "evaluating counters");
  return values;
}

}  // namespace versieve::profiler
