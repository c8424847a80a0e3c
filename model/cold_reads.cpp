// Measured read times of the machines where they were taken.
#include <algorithm>

#include "model/assert.h"
#include "model/hardware.h"
#include "model/machine_rates.h"

namespace versieve {
namespace {

constexpr double kMebibyte = 1048576.0;

constexpr std::array<ReadTime, 14> kH200 = {{{1, 1.71},
                                             {2, 1.97},
                                             {4, 2.46},
                                             {8, 3.54},
                                             {16, 6.01},
                                             {24, 7.33},
                                             {32, 9.44},
                                             {40, 10.9},
                                             {48, 12.9},
                                             {64, 16.5},
                                             {128, 30.8},
                                             {256, 60.4},
                                             {1024, 233},
                                             {4096, 925}}};

}  // namespace

std::span<const ReadTime> cold_read_times(const HardwareSpec& spec) {
  return spec.key == "h200-sxm" ? std::span<const ReadTime>(kH200) : std::span<const ReadTime>();
}

const char* cold_read_source() {
  return "one NVIDIA H200, driver 580.159.04, CUDA 13.0, 2026-11-20: 16-byte loads in a CUDA "
         "graph, "
         "buffers rotated, median of 15-31";
}

std::optional<double> cold_read_us(const HardwareSpec& spec, double bytes) {
  VERSIEVE_ASSERT(bytes >= 0.0, "bytes are not negative");
  const std::span<const ReadTime> table = cold_read_times(spec);
  if (table.empty()) {
    return {};
  }
  const double mebibytes = bytes / kMebibyte;
  const auto above = std::find_if(table.begin() + 1, table.end() - 1,
                                  [&](const ReadTime& row) { return row.mebibytes >= mebibytes; });
  const ReadTime& low = *(above - 1);
  const ReadTime& high = *above;
  const double slope = (high.microseconds - low.microseconds) / (high.mebibytes - low.mebibytes);
  return low.microseconds + slope * (mebibytes - low.mebibytes);
}

std::optional<double> cold_read_rate(const HardwareSpec& spec) {
  if (const std::optional<double> rate = measured_figure(spec, "read_rate")) {
    return 1e9 * *rate;
  }
  const std::span<const ReadTime> table = cold_read_times(spec);
  if (table.empty()) {
    return {};
  }
  return table.back().mebibytes * kMebibyte / (table.back().microseconds * 1e-6);
}

double HardwareSpec::bandwidth() const {
  return raw_bandwidth() * scale.read;
}

const char* unit_of_figure(std::string_view name) {
  const std::pair<std::string_view, const char*> units[] = {
      {"read_rate", "GB/s"},    {"copy_rate", "GB/s"},  {"l2_copy_rate", "GB/s"},
      {"gemm_rate", "Tflop/s"}, {"graph_launch", "us"}, {"stream_launch", "us"}};
  for (const auto& [known, unit] : units) {
    if (known == name) {
      return unit;
    }
  }
  return nullptr;
}

}  // namespace versieve
