#include "model/words/range_counters.h"

#include <cmath>

namespace versieve {

std::optional<double> counter_of(const RangeMeasurement& range, std::string_view metric) {
  for (const CounterValue& counter : range.counters) {
    if (counter.metric == metric && counter.status == CounterStatus::kOk) {
      return counter.value;
    }
  }
  return {};
}

std::optional<DramBytes> dram_bytes(const RangeMeasurement& range) {
  const std::optional<double> read = counter_of(range, kDramBytesRead);
  const std::optional<double> written = counter_of(range, kDramBytesWrite);
  if (!read || !written || !std::isfinite(*read + *written)) {
    return {};
  }
  return DramBytes{*read, *written};
}

std::optional<DramBytes> dram_bytes(const std::vector<RangeMeasurement>& ranges) {
  DramBytes total;
  bool any = false;
  for (const RangeMeasurement& range : ranges) {
    if (range.path == kEnergyRange) {
      continue;
    }
    any = true;
    const std::optional<DramBytes> bytes = dram_bytes(range);
    if (!bytes) {
      return {};
    }
    total.read += bytes->read;
    total.written += bytes->written;
  }
  return any ? std::optional(total) : std::nullopt;
}

std::optional<double> joules(const PointMeasurement& point) {
  for (const RangeMeasurement& range : point.ranges) {
    if (range.path == kEnergyRange) {
      return counter_of(range, kEnergyJoules);
    }
  }
  return {};
}

}  // namespace versieve
