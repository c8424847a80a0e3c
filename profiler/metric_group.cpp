#include "profiler/metric_group.h"

#include <cmath>

namespace versieve::profiler {

std::vector<std::string> core_metrics() {
  return {"lts__t_sectors.sum",
          "lts__t_sectors_op_read.sum",
          "lts__t_sectors_op_write.sum",
          "lts__t_sectors_srcunit_tex.sum",
          "lts__t_requests.sum",
          "lts__t_requests_lookup_hit.sum",
          kDramBytesRead,
          kDramBytesWrite,
          kGpuDuration,
          "sm__cycles_elapsed.max",
          "sm__cycles_elapsed.avg.per_second",
          "sm__cycles_active.avg",
          "dram__cycles_elapsed.avg.per_second",
          "l1tex__t_sectors.sum",
          "l1tex__t_sectors_lookup_hit.sum",
          "sm__warps_active.avg.pct_of_peak_sustained_active",
          "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
          "sm__inst_executed.sum",
          "dram__throughput.avg.pct_of_peak_sustained_elapsed"};
}

bool adds_up(const std::string& metric) {
  return metric.find(".pct") == std::string::npos && metric.find("_pct") == std::string::npos &&
         metric.find(".per_") == std::string::npos && metric.find(".ratio") == std::string::npos;
}

CounterValue checked_counter(const std::string& metric, double value) {
  if (std::isnan(value)) {
    return {.metric = metric, .value = {}, .status = CounterStatus::kNan};
  }
  const bool percentage = metric.find(".pct") != std::string::npos;
  const bool believable = std::isfinite(value) && value >= 0.0 && (!percentage || value <= 100.0);
  if (!believable) {
    return {.metric = metric, .value = {}, .status = CounterStatus::kOutOfRange};
  }
  return {.metric = metric, .value = value, .status = CounterStatus::kOk};
}

std::vector<CounterValue> absent_counters(const std::vector<std::string>& metrics,
                                          CounterStatus status) {
  std::vector<CounterValue> absent;
  for (const std::string& metric : metrics) {
    absent.push_back({.metric = metric, .value = {}, .status = status});
  }
  return absent;
}

}  // namespace versieve::profiler
