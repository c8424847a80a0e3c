// The catalogue. Sources: "device query" = a property dump of the card in a public repository or
// issue; "system file" = the public system description of ai-dynamo/aiconfigurator; "data sheet" =
// the vendor's figure as copied on a named page; "derived" = from the other fields by the formula
// of hardware_contradictions. Where a widespread figure is wrong (H200 L2 50 MiB, B200 L2 65 MB,
// sparse tensor rates) the device query decides.
#include "model/words/hardware.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "model/words/assert.h"
#include "model/words/error.h"
#include "model/words/formatted.h"
#include "model/words/lower_case.h"

namespace versieve {
namespace {

struct FieldInfo {
  const char* name;
  const char* unit;
};

constexpr std::array<FieldInfo, kHardwareFieldCount> kFields = {{
    {"sm_count", "1"},
    {"max_clock", "MHz"},
    {"tensor_clock", "MHz"},
    {"tensor_flop_per_clock_sm", "flop"},
    {"fp32_lanes_per_sm", "1"},
    {"bf16_peak", "Tflop/s"},
    {"fp32_peak", "Tflop/s"},
    {"l2", "MiB"},
    {"memory", "MiB"},
    {"memory_bus", "bit"},
    {"memory_clock", "MHz"},
    {"raw_bandwidth", "GB/s"},
    {"shared_memory_per_sm", "KiB"},
    {"threads_per_sm", "1"},
    {"blocks_per_sm", "1"},
    {"registers_per_sm", "1"},
    {"power", "W"},
}};

constexpr const char* kQuery = "device query";
constexpr const char* kSystem = "system file of ai-dynamo/aiconfigurator";
constexpr const char* kSheet = "vendor data sheet";
constexpr const char* kDerived = "derived from the other fields";
constexpr const char* kOccupancy = "CUDA 13.0 cuda_occupancy.h";
constexpr const char* kArchitecture = "rate of the architecture that reproduces the quoted peak";

HardwareValue known(double value, const char* source) {
  return {value, source, true};
}
HardwareValue unverified(double value, const char* source) {
  return {value, source, false};
}

// What all cards of a compute capability share.
struct Architecture {
  double tensor_flop_per_clock_sm;
  double fp32_lanes;
  double shared_memory_kib;
  double threads;
  double blocks;
};
constexpr Architecture kAmpere80 = {2048, 64, 164, 2048, 32};
constexpr Architecture kHopper90 = {4096, 128, 228, 2048, 32};
constexpr Architecture kBlackwell100 = {8192, 128, 228, 2048, 32};
constexpr Architecture kAda89 = {512, 128, 100, 1536, 24};
constexpr Architecture kAdaServer89 = {1024, 128, 100, 1536, 24};
constexpr Architecture kBlackwell120 = {512, 128, 100, 1536, 24};

// What differs from card to card.
struct Card {
  const char* key;
  const char* name;
  HardwareValue sm_count, max_clock, tensor_clock, bf16_peak, fp32_peak, l2, memory;
  HardwareValue memory_bus, memory_clock, raw_bandwidth, power;
};

HardwareSpec spec(const Architecture& a, const Card& c) {
  return {
      c.key,
      c.name,
      {c.sm_count, c.max_clock, c.tensor_clock, known(a.tensor_flop_per_clock_sm, kArchitecture),
       known(a.fp32_lanes, kArchitecture), c.bf16_peak, c.fp32_peak, c.l2, c.memory, c.memory_bus,
       c.memory_clock, c.raw_bandwidth, known(a.shared_memory_kib, kOccupancy),
       known(a.threads, kOccupancy), known(a.blocks, kOccupancy), known(65536, kQuery), c.power}};
}

std::vector<HardwareSpec> ampere() {
  return {
      spec(kAmpere80,
           {"a100-sxm-80g", "NVIDIA A100-SXM4-80GB", known(108, kQuery), known(1410, kQuery),
            known(1410, kDerived), known(312, kSystem), known(19.5, kSheet), known(40, kQuery),
            known(81158, kQuery), known(5120, kQuery), known(1593, kQuery), known(2039, kSystem),
            known(400, kSystem)}),
      spec(kAmpere80,
           {"a100-pcie-80g", "NVIDIA A100 80GB PCIe", known(108, kQuery), known(1410, kQuery),
            known(1410, kDerived), known(312, kSystem), known(19.5, kSheet), known(40, kQuery),
            known(81038, kQuery), known(5120, kQuery), known(1512, kQuery), known(1935, kSystem),
            known(300, kSystem)}),
  };
}

std::vector<HardwareSpec> hopper() {
  return {
      spec(kHopper90, {"h100-pcie", "NVIDIA H100 PCIe", known(114, kQuery), known(1755, kQuery),
                       known(1620, kDerived), known(756, kSystem), known(51.2, kDerived),
                       known(50, kQuery), known(81079, kQuery), known(5120, kQuery),
                       known(1593, kQuery), known(2039, kDerived), known(350, kSheet)}),
      spec(kHopper90,
           {"h100-sxm", "NVIDIA H100 80GB HBM3", known(132, kQuery), known(1980, kQuery),
            known(1830, "glennklockwood.com, H100"), known(989, kSystem), known(66.9, kDerived),
            known(50, kQuery), known(81079, kQuery), known(5120, kQuery), known(2619, kQuery),
            known(3352, kDerived), known(700, kSheet)}),
      spec(
          kHopper90,
          {"h200-sxm", "NVIDIA H200", known(132, kQuery), known(1980, "telemetry record of a card"),
           unverified(1830, "that of the H100 SXM: the same die"), known(989, kSystem),
           unverified(66.9, kDerived), known(60, kQuery), known(143156, kQuery),
           known(6144, "hwcooling.net, H200"), known(3201, "telemetry record of a card"),
           known(4917, kDerived), known(700, "MLPerf inference 4.1 system file")}),
      spec(kHopper90, {"gh200", "NVIDIA GH200 (96 GB HBM3)", known(132, kQuery),
                       known(1980, kQuery), unverified(1830, "that of the H100 SXM: the same die"),
                       unverified(989, "that of the H100 SXM: the same die"),
                       known(66.9, "pc2/GPUInspector.jl #27"), known(60, kQuery),
                       known(97280, kQuery), known(6144, kQuery), known(2619, kQuery),
                       known(4023, kDerived), known(1000, "Hopper overview page: the module's")}),
  };
}

std::vector<HardwareSpec> later() {
  return {
      spec(kBlackwell100, {"b200", "NVIDIA B200", known(148, kQuery),
                           unverified(1965, "pages differ: 1965 to 1980"), known(1856, kDerived),
                           known(2250, kSystem), unverified(74.4, "derived; pages say 75 to 80"),
                           known(126.5, kQuery), known(182642, kQuery), known(7680, kQuery),
                           known(3996, kQuery), known(7672, kDerived), known(1000, kSystem)}),
      spec(kAdaServer89,
           {"l40s", "NVIDIA L40S", known(142, kQuery), known(2520, kQuery), known(2490, kDerived),
            known(362.05, kSystem), known(91.6, kSheet), known(96, kQuery), known(45373, kQuery),
            known(384, kQuery), known(9001, kQuery), known(864, kSystem), known(350, kSystem)}),
      spec(kAda89, {"rtx4090", "NVIDIA GeForce RTX 4090", known(128, kQuery), known(2520, kQuery),
                    known(2520, kDerived), known(165.2, "hmc-tech.com, RTX 4090"),
                    known(82.6, "hmc-tech.com, RTX 4090"), known(72, kQuery), known(24564, kQuery),
                    known(384, kQuery), known(10501, kQuery), known(1008, kDerived),
                    known(450, "hmc-tech.com, RTX 4090")}),
      spec(kBlackwell120,
           {"rtx5090", "NVIDIA GeForce RTX 5090", known(170, kQuery), known(2407, kQuery),
            known(2407, kDerived), known(209.5, kDerived), known(104.8, kDerived),
            known(96, kQuery), known(32109, kQuery), known(512, kQuery), known(14001, kQuery),
            known(1792, kDerived), known(575, "Linux Format, May 2025")}),
  };
}

std::vector<HardwareSpec> whole_catalogue() {
  std::vector<HardwareSpec> all = ampere();
  for (const std::vector<HardwareSpec>& part : {hopper(), later()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// A driver's whole device name, less "NVIDIA " -> key. Names that only contain one of these are
// other GPUs: GB200, H100 NVL, A100-SXM4-40GB, RTX 4090 D, a laptop's part, a slice ("... MIG
// 1g.10gb"). The 480 and 120 GB of a GH200 are its Grace's memory; the one with 144 GB of HBM3e is
// another.
struct DeviceName {
  const char* name;
  const char* key;
};
constexpr DeviceName kDeviceNames[] = {
    {"a100-sxm4-80gb", "a100-sxm-80g"},
    {"a100 80gb pcie", "a100-pcie-80g"},
    {"h100 pcie", "h100-pcie"},
    {"h100 80gb hbm3", "h100-sxm"},
    {"h200", "h200-sxm"},
    {"gh200 480gb", "gh200"},
    {"gh200 120gb", "gh200"},
    {"b200", "b200"},
    {"l40s", "l40s"},
    {"geforce rtx 4090", "rtx4090"},
    {"geforce rtx 5090", "rtx5090"},
};

// Lower case, one space between words, none at the ends, without the vendor in front.
std::string plain_device_name(std::string_view name) {
  std::istringstream words{lower_case(std::string(name))};
  std::string out, word;
  while (words >> word) {
    if (!(out.empty() && word == "nvidia")) {
      out += (out.empty() ? "" : " ") + word;
    }
  }
  return out;
}

void compare(const HardwareSpec& s, HardwareField field, double computed, const char* formula,
             std::vector<std::string>& out) {
  const double stated = s[field];
  if (std::abs(computed / stated - 1.0) <= 0.01) {
    return;
  }
  out.emplace_back(formatted("%s: %s is stated as %.6g %s, but %s is %.6g: %.4g times that",
                             s.key.c_str(), name_of(field), stated, unit_of(field), formula,
                             computed, stated / computed));
}

}  // namespace

const char* name_of(HardwareField field) {
  return kFields[static_cast<std::size_t>(field)].name;
}

const char* unit_of(HardwareField field) {
  return kFields[static_cast<std::size_t>(field)].unit;
}

double HardwareSpec::raw_bandwidth() const {
  return (*this)[HardwareField::kRawBandwidthGbps] * 1e9;
}

double HardwareSpec::l2_bytes() const {
  return (*this)[HardwareField::kL2Mib] * 1048576.0;
}

double HardwareSpec::bf16_flops() const {
  return (*this)[HardwareField::kBf16Tflops] * 1e12;
}

double HardwareSpec::fp32_flops() const {
  return (*this)[HardwareField::kFp32Tflops] * 1e12;
}

double HardwareSpec::l2_clock_hz() const {
  return (*this)[HardwareField::kMaxClockMhz] * 1e6;
}

std::span<const HardwareSpec> hardware_catalogue() {
  static const std::vector<HardwareSpec> catalogue = whole_catalogue();
  return catalogue;
}

const HardwareSpec& hardware_by_key(std::string_view key) {
  std::string keys;
  for (const HardwareSpec& entry : hardware_catalogue()) {
    if (entry.key == key) {
      return entry;
    }
    keys += (keys.empty() ? "" : " ") + entry.key;
  }
  throw Error(ExitCode::kUsage, "unknown hardware '" + std::string(key) + "': the keys are " +
                                    keys + ", or give the path of a JSON file");
}

const HardwareSpec* hardware_for_device(std::string_view device_name) {
  const std::string name = plain_device_name(device_name);
  for (const DeviceName& row : kDeviceNames) {
    if (name == row.name) {
      return &hardware_by_key(row.key);
    }
  }
  return nullptr;
}

std::string kernels_cannot_run_because(const std::string& device_name, int major, int minor) {
  if (major == 9 && minor == 0) {
    return {};
  }
  return device_name + " has compute capability " + std::to_string(major) + "." +
         std::to_string(minor) + "; the kernels need 9.0 (H100, H200, GH200).";
}

std::vector<std::string> hardware_contradictions(const HardwareSpec& s) {
  std::vector<std::string> out;
  const double sms = s[HardwareField::kSmCount];
  compare(s, HardwareField::kBf16Tflops,
          sms * s[HardwareField::kTensorFlopPerClockSm] * s[HardwareField::kTensorClockMhz] * 1e-6,
          "SMs x flop/clock x tensor clock", out);
  compare(s, HardwareField::kFp32Tflops,
          sms * s[HardwareField::kFp32LanesPerSm] * 2.0 * s[HardwareField::kMaxClockMhz] * 1e-6,
          "SMs x lanes x 2 x clock", out);
  compare(s, HardwareField::kRawBandwidthGbps,
          s[HardwareField::kMemoryBusBits] / 8.0 * s[HardwareField::kMemoryClockMhz] * 2.0 * 1e-3,
          "bus x memory clock x 2 / 8", out);
  return out;
}

}  // namespace versieve
