// Measured read times of the machines where they were taken.
#include <algorithm>

#include "model/words/assert.h"
#include "model/words/hardware.h"
#include "model/words/machine_rates.h"

namespace versieve {
namespace {

constexpr double kMebibyte = 1048576.0;

// One NVIDIA H200, driver 580.159.04, CUDA 13.0, 2026-11-20: 16-byte loads in a CUDA graph, buffers
// rotated, median of 15-31.
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

// One NVIDIA H100 80GB HBM3, driver 580.159.04, CUDA 13.0, 2026-11-25, by profiler/cold_reads.h.
constexpr std::array<ReadTime, 14> kH100 = {{{1, 1.64},
                                             {2, 2.03},
                                             {4, 2.74},
                                             {8, 4.07},
                                             {16, 6.80},
                                             {24, 9.55},
                                             {32, 12.2},
                                             {40, 15.0},
                                             {48, 17.7},
                                             {64, 23.1},
                                             {128, 44.1},
                                             {256, 86.4},
                                             {1024, 336},
                                             {4096, 1335}}};

}  // namespace

std::span<const ReadTime> cold_read_times(const HardwareSpec& spec) {
  if (spec.key == "h200-sxm") {
    return kH200;
  }
  return spec.key == "h100-sxm" ? std::span<const ReadTime>(kH100) : std::span<const ReadTime>();
}

std::optional<double> cold_read_us(std::span<const ReadTime> table, double bytes) {
  VERSIEVE_ASSERT(bytes >= 0.0, "bytes are not negative");
  if (table.size() < 2) {
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

std::optional<double> cold_read_rate(std::span<const ReadTime> table) {
  if (table.empty()) {
    return {};
  }
  return table.back().mebibytes * kMebibyte / (table.back().microseconds * 1e-6);
}

std::optional<double> cold_read_rate(const HardwareSpec& spec) {
  if (const std::optional<double> rate = measured_figure(spec, "read_rate")) {
    return 1e9 * *rate;
  }
  return cold_read_rate(cold_read_times(spec));
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
