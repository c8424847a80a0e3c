// The environment record: complete JSON on any machine.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "profiler/environment.h"

using namespace versieve::profiler;

TEST_CASE("the environment is one JSON object that names machine, build and commit") {
  const Environment environment = read_environment();
  const nlohmann::json object = nlohmann::json::parse(to_json(environment));
  CHECK(object.at("cpu").at("name").get<std::string>().size() > 3);
  CHECK(object.at("cpu").at("threads").get<int>() >= 1);
  CHECK(object.at("memory_bytes").get<double>() > 1e8);
  CHECK(object.at("build").at("compiler").get<std::string>().find('.') != std::string::npos);
  CHECK(std::regex_match(object.at("build").at("revision").get<std::string>(),
                         std::regex("unknown|[0-9a-f]{12}(\\+dirty)?")));
  CHECK(object.at("gpu").is_null() == !environment.gpu_missing_because.empty());
}

TEST_CASE("a GPU's absence is a sentence") {
  const Environment environment = read_environment();
  if (!environment.gpu) {
    CHECK(environment.gpu_missing_because.back() == '.');
  } else {
    CHECK(environment.gpu->uuid_hash.size() == 16);
  }
}

TEST_CASE("hashes are stable and differ") {
  CHECK(stable_hash("") == "cbf29ce484222325");  // FNV-1a's published values
  CHECK(stable_hash("a") == "af63dc4c8601ec8c");
  CHECK(stable_hash("a") != stable_hash("b"));
}

TEST_CASE("only heat, the brake and hardware count as throttling") {
  CHECK(!is_throttled(0));
  CHECK(!is_throttled(0x4));  // a software power cap is normal for dense work
  CHECK(!is_throttled(0x1 | 0x2 | 0x10 | 0x100));
  CHECK(is_throttled(0x8));
  CHECK(is_throttled(0x20));
  CHECK(is_throttled(0x40));
  CHECK(is_throttled(0x80));
  CHECK(clock_event_names(0x4 | 0x40) == "software power cap, hardware thermal");
  CHECK(clock_event_names(0) == "none");
}

TEST_CASE("times are written in UTC") {
  CHECK(std::regex_match(utc_now(), std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ")));
}
