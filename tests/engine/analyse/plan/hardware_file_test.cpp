// Machines from files: read back as written, based on an entry, refused when they contradict
// themselves.
#include "engine/analyse/plan/hardware_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

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
}
