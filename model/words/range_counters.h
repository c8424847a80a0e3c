// What a range's counters say. A counter that has no value, or a status other than ok, says
// nothing.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/words/measurement.h"

namespace versieve {

inline constexpr const char* kDramBytesRead = "dram__bytes_read.sum";
inline constexpr const char* kDramBytesWrite = "dram__bytes_write.sum";

// What a run of the whole point takes of energy, by the GPU's own count over many runs: a range
// beside those of launches, with this metric alone.
inline constexpr const char* kEnergyRange = "energy";
inline constexpr const char* kEnergyJoules = "nvml__energy.joules";

struct DramBytes {
  double read = 0.0;
  double written = 0.0;
  double total() const { return read + written; }
};

std::optional<double> counter_of(const RangeMeasurement& range, std::string_view metric);
// None if the range lacks one of the two counters.
std::optional<DramBytes> dram_bytes(const RangeMeasurement& range);
// Of all ranges of launches; none if there are none, or if one lacks a counter.
std::optional<DramBytes> dram_bytes(const std::vector<RangeMeasurement>& ranges);
// Of one run of the whole point; none where it was not sampled.
std::optional<double> joules(const PointMeasurement& point);

}  // namespace versieve
