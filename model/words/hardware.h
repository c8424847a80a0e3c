// What a machine is, as far as a step's cost depends on it: each number with its unit, its source
// and whether a source was found. Peaks are dense (no sparsity), bfloat16 with f32 accumulation.
// Bandwidth here is what the memory bus could carry; what a kernel gets of it is a fitted share
// (model/cost/cost_parameters.h), never a data sheet's figure.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace versieve {

enum class HardwareField {
  kSmCount,
  kMaxClockMhz,
  kTensorClockMhz,  // the clock that the quoted tensor peak assumes
  kTensorFlopPerClockSm,
  kFp32LanesPerSm,
  kBf16Tflops,
  kFp32Tflops,
  kL2Mib,
  kMemoryMib,
  kMemoryBusBits,
  kMemoryClockMhz,
  kRawBandwidthGbps,
  kSharedMemoryKibPerSm,
  kThreadsPerSm,
  kBlocksPerSm,
  kRegistersPerSm,
  kPowerWatt,
};
inline constexpr std::size_t kHardwareFieldCount = 17;
const char* name_of(HardwareField field);  // "sm_count", ...
const char* unit_of(HardwareField field);  // "1", "MHz", "TFLOP/s", ...

struct HardwareValue {
  double value = 0.0;
  std::string source;
  bool verified = true;  // false: no document or device dump was found that says it
};

// Measured on the machine itself: read_rate, copy_rate, l2_copy_rate (GB/s), gemm_rate (Tflop/s),
// graph_launch and stream_launch (us). How they carry a fit over: model/words/machine_rates.h.
struct MeasuredFigure {
  std::string name;
  HardwareValue figure;
};
// "GB/s", "Tflop/s" or "us"; null for a name that no figure has.
const char* unit_of_figure(std::string_view name);

// What a machine gives of its data sheet, against what the machine of a fit gave of its own.
struct RateScale {
  double read = 1.0;          // of DRAM's rate
  double written_time = 1.0;  // of a written byte, against a read one
  double l2 = 1.0;
  double products = 1.0;  // of tensor cores
  double graph_gap = 1.0, stream_gap = 1.0;

  // Of a machine against a second one whose own scale is `further`, against a third.
  RateScale times(const RateScale& further) const;
  bool operator==(const RateScale&) const = default;
};

struct HardwareSpec {
  std::string key;   // "h200-sxm"
  std::string name;  // "NVIDIA H200 SXM"
  std::array<HardwareValue, kHardwareFieldCount> fields;
  std::vector<MeasuredFigure> measured;
  RateScale scale;  // set by who prices with a fit of another machine

  double operator[](HardwareField field) const {
    return fields[static_cast<std::size_t>(field)].value;
  }
  double raw_bandwidth() const;  // bytes/s
  double bandwidth() const;      // bytes/s of which a kernel gets the fitted share: scaled
  double l2_bytes() const;
  double bf16_flops() const;  // flop/s
  double fp32_flops() const;  // flop/s
  double l2_clock_hz()
      const;  // the SMs' greatest clock; L2 rates are stated per SM and clock of it
};

// Measured time of a kernel that only reads, launch and ramp included: the data-movement floor of
// whatever must fetch that many bytes.
struct ReadTime {
  double mebibytes = 0.0;
  double microseconds = 0.0;
};
// Bytes that lie in DRAM (buffers rotated), ascending; empty for a machine where nobody measured
// it. A program that runs on the machine measures its own (profiler/cold_reads.h).
std::span<const ReadTime> cold_read_times(const HardwareSpec& spec);
// Interpolated; beyond the table by its last segment's rate. None without a table of two rows.
std::optional<double> cold_read_us(std::span<const ReadTime> table, double bytes);
// bytes/s of the longest read of a table, or of the machine's: what `calibrate` measured there,
// else its table's.
std::optional<double> cold_read_rate(std::span<const ReadTime> table);
std::optional<double> cold_read_rate(const HardwareSpec& spec);

// The machines that ship, in the order of the key list in product documents.
std::span<const HardwareSpec> hardware_catalogue();
// Throws Error(kUsage) that lists the keys.
const HardwareSpec& hardware_by_key(std::string_view key);
// The catalogue entry that a driver's device name means ("NVIDIA H200" -> h200-sxm), or null.
const HardwareSpec* hardware_for_device(std::string_view device_name);
// Why the kernels cannot run on a device of that name and compute capability, as one sentence, or
// an empty text. They are built for sm_90a, whose instructions no other capability has.
std::string kernels_cannot_run_because(const std::string& device_name, int major, int minor);
// One sentence for each derived number that its factors do not reproduce within 1 %: bf16 peak =
// SMs x flop/clock x tensor clock, fp32 peak = SMs x lanes x 2 x clock, bandwidth = bus x clock x 2
// / 8. Empty for a consistent entry.
std::vector<std::string> hardware_contradictions(const HardwareSpec& spec);

}  // namespace versieve
