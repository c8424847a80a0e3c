// Machines from files: read back as written, based on an entry, refused when they contradict
// themselves.
#include "engine/analyse/plan/hardware_file.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "model/words/error.h"
#include "tests/support/paths.h"

using namespace versieve;
using namespace versieve::engine;
namespace fs = std::filesystem;

namespace {

std::string written(const std::string& name, const std::string& text) {
  const fs::path folder = fs::path(VERSIEVE_BINARY_DIR) / "test_engine_plan";
  fs::create_directories(folder);
  std::ofstream(folder / name) << text;
  return (folder / name).string();
}

void check_refused(const std::string& text, const std::string& part) {
  try {
    load_hardware(written("bad_hardware.json", text));
    FAIL("accepted " + text);
  } catch (const Error& e) {
    CAPTURE(e.what());
    CHECK(e.code() == ExitCode::kBadInput);
    CHECK(std::string(e.what()).find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a machine comes back from its file as it went") {
  const std::string text = hardware_json(hardware_by_key("b200"));
  CHECK(hardware_json(load_hardware(written("b200.json", text))) == text);
}

TEST_CASE("a what-if machine names what differs from an entry") {
  const HardwareSpec spec = load_hardware(
      written("wide.json",
              R"({"key": "h200-wide-l2", "name": "H200, twice the L2", "like": "h200-sxm",
          "fields": {"l2": {"value": 120, "source": "what if"}}})"));
  CHECK(spec[HardwareField::kL2Mib] == 120.0);
  CHECK(!spec.fields[static_cast<std::size_t>(HardwareField::kL2Mib)].verified);
  CHECK(spec.raw_bandwidth() == hardware_by_key("h200-sxm").raw_bandwidth());
  CHECK(load_hardware("l40s").key == "l40s");
}

TEST_CASE("files that say too little or contradict themselves are refused") {
  check_refused("{}", "key");
  check_refused(R"({"key": "a", "name": "b"})", "fields");
  check_refused(R"({"key": "a", "name": "b", "fields": {}})", "sm_count");
  check_refused(R"({"key": "a", "name": "b", "like": "l40s", "fields": {}, "l2": 120})",
                "the key 'l2' is unknown");
  check_refused(R"({"key": "a", "name": "b", "like": "l40s", "fields": {"cores": {"value": 1}}})",
                "cores");
  check_refused(
      R"({"key": "a", "name": "b", "like": "l40s", "fields": {"l2": {"value": -1, "source": "x"}}})",
      "positive");
  check_refused(R"({"key": "a", "name": "b", "like": "l40s", "fields": {"l2": {"value": 1}}})",
                "source");
  check_refused(
      R"({"key": "a", "name": "b", "like": "l40s", "fields": {"bf16_peak": {"value": 733, "source": "sparse"}}})",
      "bf16_peak");
  check_refused("not json", "bad_hardware.json");
  check_refused(R"({"key": "a", "name": "b", "like": "h300", "fields": {}})", "like: unknown");
  check_refused(R"({"key": "l40s", "name": "b", "like": "h200-sxm", "fields": {}})",
                "the key 'l40s' is the catalogue's");
}

namespace {

// One field of a machine like the H200.
std::string with(const std::string& name, const std::string& value, const std::string& more = "") {
  return R"({"key": "a", "name": "b", "like": "h200-sxm", "fields": {")" + name +
         R"(": {"source": "here", "value": )" + value + more + "}}}";
}

}  // namespace

TEST_CASE("a number in a wrong unit is refused with the likely right one") {
  const std::tuple<const char*, const char*, const char*> wrong[] = {
      {"l2", "62914560",
       "l2: 62914560 MiB cannot be (0.25 to 1000); were 60 MiB meant, written in "
       "bytes?"},
      {"l2", "61440", "were 60 MiB meant, written in KiB?"},
      {"l2", "0.05", "were 51.2 MiB meant, written in GiB?"},
      {"max_clock", "1.98", "were 1980 MHz meant, written in GHz?"},
      {"max_clock", "1980000", "were 1980 MHz meant, written in kHz?"},
      {"max_clock", "1.98e9", "were 1980 MHz meant, written in Hz?"},
      {"tensor_clock", "1.83", "were 1830 MHz meant, written in GHz?"},
      {"memory_clock", "3.201", "were 3201 MHz meant, written in GHz?"},
      {"raw_bandwidth", "4.917", "were 4917 GB/s meant, written in TB/s?"},
      {"raw_bandwidth", "4917000", "were 4917 GB/s meant, written in MB/s?"},
      {"raw_bandwidth", "4.917e12", "were 4917 GB/s meant, written in bytes/s?"},
      {"bf16_peak", "0.989", "were 989 Tflop/s meant, written in Pflop/s?"},
      {"bf16_peak", "989000", "were 989 Tflop/s meant, written in Gflop/s?"},
      {"bf16_peak", "989e12", "were 989 Tflop/s meant, written in flop/s?"},
      {"fp32_peak", "66900", "were 66.9 Tflop/s meant, written in Gflop/s?"},
      {"memory", "141", "were 144384 MiB meant, written in GiB?"},
      {"memory", "150109880320", "were 143156 MiB meant, written in bytes?"},
      {"shared_memory_per_sm", "233472", "were 228 KiB meant, written in bytes?"},
      {"threads_per_sm", "64", "were 2048 meant, written in warps?"},
      {"registers_per_sm", "262144", "were 65536 meant, written in bytes?"},
      {"registers_per_sm", "64", "were 65536 meant, written in thousands?"},
      {"sm_count", "16896", "were 132 meant, written in FP32 lanes?"},
      {"power", "0.7", "were 700 W meant, written in kW?"},
      {"power", "700000", "were 700 W meant, written in mW?"}};
  for (const auto& [name, value, part] : wrong) {
    CAPTURE(name, value);
    check_refused(with(name, value), part);
  }
  check_refused(with("memory_bus", "768"), "bus x memory clock x 2 / 8 is");  // bytes
}

TEST_CASE("a unit that a file names must be the field's") {
  check_refused(with("l2", "61440", R"(, "unit": "KiB")"),
                "l2: the unit is MiB, not 'KiB'; 61440 KiB are 60 MiB");
  check_refused(with("max_clock", "1.98", R"(, "unit": "GHz")"), "1.98 GHz are 1980 MHz");
  check_refused(with("sm_count", "132", R"(, "unit": "pieces")"), "the unit is 1, a count, not");
  check_refused(with("l2", "60", R"(, "unit": 20)"), "'unit' of the field 'l2' must be a text");
  CHECK(load_hardware(written(
            "unit.json", with("l2", "60", R"(, "unit": "MiB")")))[HardwareField::kL2Mib] == 60.0);
}

TEST_CASE("what is no number of a machine at all is refused by its field") {
  for (const char* value : {"0", "-60", "\"60\"", "null", "true", "[60]", "{}"}) {
    CAPTURE(value);
    check_refused(with("l2", value), "the field 'l2' needs a positive number 'value', not");
  }
  for (const char* value : {"NaN", "Infinity", "1e999", "60,5", "+60"}) {
    CAPTURE(value);
    check_refused(with("l2", value), "'fields.l2.value'");
  }
  check_refused(with("sm_count", "131.5"), "sm_count: 131.5 is no whole number");
  check_refused(with("l2", "60", R"(, "value": 120)"), "'value' stands twice in 'fields.l2'");
  check_refused(with("l2", "60", R"(, "valeu": 120)"), "the unknown key 'valeu'");
  check_refused(R"({"key": "a", "name": "b", "like": "h200-sxm", "fields": {"l2": 60}})",
                "'l2' must be an object");
  check_refused(with("l2", "1e300"), "l2: 1e+300 MiB cannot be");
}

TEST_CASE("measured figures in a wrong unit are refused with the likely right one") {
  const auto measured = [](const std::string& name, const std::string& value) {
    return R"({"key": "a", "name": "b", "like": "h200-sxm", "fields": {}, "measured": {")" + name +
           R"(": {"source": "here", "value": )" + value + "}}}";
  };
  check_refused(measured("read_rate", "4.6"), "were 4600 GB/s meant, written in TB/s?");
  check_refused(measured("gemm_rate", "700e12"), "were 700 Tflop/s meant, written in flop/s?");
  check_refused(measured("graph_launch", "0.0007"), "were 0.7 us meant, written in ms?");
  check_refused(measured("read_rate", "4600, \"unit\": \"MB/s\""),
                "the unit of the measured figure 'read_rate' is GB/s, not 'MB/s'");
}

TEST_CASE("every machine of the catalogue is written and read back as it is") {
  for (const HardwareSpec& entry : hardware_catalogue()) {
    CAPTURE(entry.key);
    const std::string text = hardware_json(entry);
    CHECK(hardware_json(load_hardware(written("entry.json", text))) == text);
  }
}

TEST_CASE("a machine with another bandwidth says so, and nothing measured is taken for it") {
  HardwareSpec built = hardware_by_key("h200-sxm");
  built.measured.push_back({"read_rate", {.value = 4600.0, .source = "here", .verified = true}});
  const HardwareSpec turned = with_bandwidth(built, 8.0);
  CHECK(turned.key == "h200-sxm at 8.0 TB/s");
  CHECK(turned.raw_bandwidth() == Approx(8e12));
  CHECK(turned.measured.empty());
  CHECK(with_bandwidth(built, 8.25).name == built.name + " at 8.25 TB/s");
  for (const double wrong : {0.0, -1.0, 8e6, std::nan("")}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(with_bandwidth(built, wrong), Error);
  }
}
