// The catalogue: every derived number follows from its factors; keys and device names lead to it.
#include "model/words/hardware.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "model/words/error.h"
#include "model/words/hardware_limits.h"

using namespace versieve;

TEST_CASE("every entry of the catalogue reproduces its peaks from its factors") {
  for (const HardwareSpec& spec : hardware_catalogue()) {
    CAPTURE(spec.key);
    CHECK(hardware_contradictions(spec).empty());
    for (const HardwareValue& value : spec.fields) {
      CHECK(value.value > 0.0);
      CHECK(!value.source.empty());
    }
    CHECK(implausible_field(spec).empty());
  }
}

TEST_CASE("the catalogue has the promised keys, each once") {
  std::set<std::string> keys;
  for (const HardwareSpec& spec : hardware_catalogue()) {
    CHECK(keys.insert(spec.key).second);
  }
  CHECK(keys == std::set<std::string>{"a100-sxm-80g", "a100-pcie-80g", "h100-pcie", "h100-sxm",
                                      "h200-sxm", "gh200", "b200", "l40s", "rtx4090", "rtx5090"});
}

TEST_CASE("numbers that published catalogues often get wrong are right") {
  CHECK(hardware_by_key("h200-sxm")[HardwareField::kL2Mib] == 60.0);
  CHECK(hardware_by_key("b200")[HardwareField::kL2Mib] == 126.5);
  CHECK(hardware_by_key("h200-sxm")[HardwareField::kBf16Tflops] == 989.0);  // dense
  CHECK(!hardware_by_key("h200-sxm")
             .fields[static_cast<std::size_t>(HardwareField::kTensorClockMhz)]
             .verified);
}

TEST_CASE(
    "kernels of sm_90a run on compute capability 9.0 alone, and any other is refused for it") {
  CHECK(kernels_cannot_run_because("NVIDIA H200", 9, 0).empty());
  CHECK(kernels_cannot_run_because("NVIDIA L40S", 8, 9) ==
        "NVIDIA L40S has compute capability 8.9; the kernels need 9.0 (H100, H200, GH200).");
  CHECK(!kernels_cannot_run_because("NVIDIA B200", 10, 0).empty());
}

TEST_CASE("a planted contradiction is noticed") {
  HardwareSpec spec = hardware_by_key("h100-sxm");
  spec.fields[static_cast<std::size_t>(HardwareField::kBf16Tflops)].value = 1979.0;  // sparse
  const std::vector<std::string> found = hardware_contradictions(spec);
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("bf16_peak") != std::string::npos);
}

TEST_CASE("an unknown key is a usage error that lists the keys") {
  try {
    hardware_by_key("h300");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::kUsage);
    CHECK(std::string(e.what()).find("h200-sxm") != std::string::npos);
  }
}

TEST_CASE("a driver's device names lead to their entries") {
  const std::pair<const char*, const char*> names[] = {{"NVIDIA A100-SXM4-80GB", "a100-sxm-80g"},
                                                       {"A100-SXM4-80GB", "a100-sxm-80g"},
                                                       {"NVIDIA A100 80GB PCIe", "a100-pcie-80g"},
                                                       {"NVIDIA H100 PCIe", "h100-pcie"},
                                                       {"NVIDIA H100 80GB HBM3", "h100-sxm"},
                                                       {"nvidia  h100 80gb hbm3 ", "h100-sxm"},
                                                       {"NVIDIA H200", "h200-sxm"},
                                                       {"H200", "h200-sxm"},
                                                       {"NVIDIA GH200 480GB", "gh200"},
                                                       {"NVIDIA GH200 120GB", "gh200"},
                                                       {"NVIDIA B200", "b200"},
                                                       {"NVIDIA L40S", "l40s"},
                                                       {"NVIDIA GeForce RTX 4090", "rtx4090"},
                                                       {"GeForce RTX 5090", "rtx5090"}};
  for (const auto& [name, key] : names) {
    CAPTURE(name);
    REQUIRE(hardware_for_device(name) != nullptr);
    CHECK(hardware_for_device(name)->key == key);
  }
}

TEST_CASE("a GPU whose name contains another's is never taken for it") {
  for (const char* name : {"NVIDIA GB200",
                           "NVIDIA GB300",
                           "NVIDIA B300 SXM6 AC",
                           "NVIDIA B200 MIG 1g.23gb",
                           "NVIDIA H100 NVL",
                           "NVIDIA H200 NVL",
                           "NVIDIA H100",
                           "NVIDIA H100 80GB HBM2e",
                           "NVIDIA H100 SXM5 64GB",
                           "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
                           "NVIDIA H200 MIG 1g.18gb",
                           "NVIDIA H800",
                           "NVIDIA H800 PCIe",
                           "NVIDIA H20",
                           "NVIDIA GH200 144G HBM3e",
                           "NVIDIA GH200",
                           "NVIDIA A100-SXM4-40GB",
                           "NVIDIA A100-PCIE-40GB",
                           "NVIDIA A100-SXM-64GB",
                           "NVIDIA A100X",
                           "NVIDIA A800-SXM4-80GB",
                           "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
                           "GRID A100D-80C",
                           "NVIDIA H100-80C",
                           "NVIDIA L40S-48Q",
                           "NVIDIA L40",
                           "NVIDIA L4",
                           "NVIDIA L20",
                           "NVIDIA GeForce RTX 4090 D",
                           "NVIDIA GeForce RTX 4090 Laptop GPU",
                           "NVIDIA GeForce RTX 5090 D",
                           "NVIDIA GeForce RTX 5090 D v2",
                           "NVIDIA GeForce RTX 5090 Laptop GPU",
                           "NVIDIA RTX 4000 Ada Generation",
                           "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                           "2x NVIDIA H200",
                           "h200-sxm",
                           "simulator of h200-sxm",
                           "AMD EPYC 9654",
                           "NVIDIA",
                           ""}) {
    CAPTURE(name);
    CHECK(hardware_for_device(name) == nullptr);
  }
}

TEST_CASE("a number that no machine has is refused with the unit it was likely written in") {
  CHECK(implausible_because(HardwareField::kL2Mib, 62914560) ==
        "l2: 62914560 MiB cannot be (0.25 to 1000); were 60 MiB meant, written in bytes?");
  CHECK(implausible_because(HardwareField::kSmCount, 16896) ==
        "sm_count: 16896 cannot be (1 to 1024); were 132 meant, written in FP32 lanes?");
  CHECK(implausible_because(HardwareField::kSmCount, 131.5) ==
        "sm_count: 131.5 is no whole number");
  CHECK(implausible_because(HardwareField::kPowerWatt, 1e-9) ==
        "power: 1e-09 W cannot be (10 to 20000)");
  CHECK(!implausible_because(HardwareField::kL2Mib, std::nan("")).empty());
  CHECK(!implausible_because(HardwareField::kL2Mib, -60).empty());
  CHECK(implausible_because(HardwareField::kL2Mib, 253).empty());  // a what-if of twice the largest
  CHECK(wrong_unit_because(HardwareField::kL2Mib, 60, "MiB").empty());
  CHECK(wrong_unit_because(HardwareField::kMaxClockMhz, 1.98, "GHz") ==
        "max_clock: the unit is MHz, not 'GHz'; 1.98 GHz are 1980 MHz");
  for (std::size_t i = 0; i < kHardwareFieldCount; ++i) {
    const HardwareLimits limits = limits_of(static_cast<HardwareField>(i));
    CHECK(limits.low > 0.0);
    for (const HardwareSpec& spec : hardware_catalogue()) {  // room for half and twice of each
      CHECK(limits.low <= spec.fields[i].value / 2);
      CHECK(limits.high >= spec.fields[i].value * 2);
    }
  }
}

TEST_CASE("the floor of a fetch is the measured cold read of its bytes, interpolated") {
  const HardwareSpec& h200 = hardware_by_key("h200-sxm");
  const std::span<const ReadTime> table = cold_read_times(h200);
  constexpr double kMebibyte = 1048576.0;
  for (const ReadTime& row : table) {
    CHECK(*cold_read_us(table, row.mebibytes * kMebibyte) == Approx(row.microseconds));
  }
  CHECK(*cold_read_us(table, 12 * kMebibyte) == Approx((3.54 + 6.01) / 2));
  CHECK(*cold_read_us(table, 0.0) == Approx(1.71 - 0.26));
  CHECK(*cold_read_us(table, 8192 * kMebibyte) == Approx(925 + (925 - 233) * 4096.0 / 3072.0));
  CHECK(*cold_read_rate(h200) == Approx(4.643e12).epsilon(0.001));
  CHECK(*cold_read_rate(table) == *cold_read_rate(h200));
  CHECK(*cold_read_rate(hardware_by_key("h100-sxm")) == Approx(3.217e12).epsilon(0.001));
  CHECK(!cold_read_us(cold_read_times(hardware_by_key("b200")), kMebibyte));
  CHECK(!cold_read_us(table.first(1), kMebibyte));
  CHECK(!cold_read_rate(hardware_by_key("b200")));
}
