// Settings of ReSA and SpecAttn as somebody gives them: read, ordered, refused by name; and the
// tuples that a plan then goes over.
#include "engine/analyse/plan/given_systems.h"

#include <catch2/catch.hpp>
#include <set>

#include "model/plan/system_grid.h"
#include "model/words/error.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

void check_refused(const GivenSystems& given, const std::string& part) {
  try {
    planned_systems(given);
    FAIL("accepted what " + part + " says");
  } catch (const Error& e) {
    CAPTURE(e.what());
    CHECK(e.code() == ExitCode::kUsage);
    CHECK(std::string(e.what()).find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("what nobody gives is the usual, what is given comes in order and once") {
  CHECK(planned_systems({}) == SystemSettings{});
  const SystemSettings some = planned_systems({.resa_block_size = "64,16,64",
                                               .resa_ratio = "0.1,0.05",
                                               .resa_rectify = "24",
                                               .specattn_mass = "1"});
  CHECK(some.resa_key_blocks == std::vector<std::int64_t>{16, 64});
  CHECK(some.resa_active_ratios == std::vector<double>{0.05, 0.1});
  CHECK(some.resa_periods == std::vector<std::int64_t>{24});
  CHECK(some.specattn_shares == std::vector<double>{1.0});
}

TEST_CASE("a setting that no strategy has is refused with its option and what it takes") {
  for (const char* text : {"", "16,", ",16", "0", "-16", "16.5", "0x10", "16 32", "262145",
                           "99999999999999999999", "sixteen"}) {
    CAPTURE(text);
    check_refused({.resa_block_size = text}, "--resa-block-size (ReSA b) takes tokens");
    check_refused({.resa_rectify = text}, "--resa-rectify (ReSA f) takes steps");
  }
  for (const char* text : {"", "0.1,", "0", "-0.1", "1.01", "nan", "inf", "1e400", "0,1", "half"}) {
    CAPTURE(text);
    check_refused({.resa_ratio = text}, "--resa-ratio (ReSA p) takes a share");
    check_refused({.specattn_mass = text}, "--specattn-mass (SpecAttn p) takes a share");
  }
}

TEST_CASE("the tuples of the other systems are those of the settings, each of a canonical text") {
  const SystemSettings some = planned_systems({.resa_block_size = "32",
                                               .resa_ratio = "0.03,0.05",
                                               .resa_rectify = "24",
                                               .specattn_mass = "0.96"});
  const std::vector<Strategy> rectified = system_space(PrecisionClass::kSparseRectified, some);
  REQUIRE(rectified.size() == 2);
  CHECK(rectified[0].text() == "resa:b32p0.03f24/ar");
  CHECK(rectified[1].text() == "resa:b32p0.05f24/ar");
  std::set<std::string> attention;
  for (const Strategy& s : system_space(PrecisionClass::kSparse, some)) {
    CHECK(Strategy::parse(s.text()) == s);
    attention.insert(s.text().substr(0, s.text().find('/')));
  }
  CHECK(attention == std::set<std::string>{"indexer:k1024", "indexer:k2048", "indexer:k4096",
                                           "indexer:k512", "resa:b32p0.03f0", "resa:b32p0.05f0",
                                           "specattn:p0.96"});
  CHECK(system_space(PrecisionClass::kApproxSampling, some) ==
        system_space(PrecisionClass::kApproxSampling));
}
