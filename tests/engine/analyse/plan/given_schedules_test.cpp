#include "engine/analyse/plan/given_schedules.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "model/plan/planner.h"
#include "model/words/error.h"

using namespace versieve;
using engine::planned_schedules;

TEST_CASE("Given schedules stand in the place of the usual ones, and F* is in every plan") {
  LlmShape target;
  target.layers = 4;
  using Schedules = std::vector<std::string>;
  CHECK(planned_schedules({}, target) == default_schedules());
  CHECK(planned_schedules({"(FR)*"}, target) == Schedules{"F*", "(FR)*"});
  CHECK(planned_schedules({"FRRF", "(FR)*", "FRRF"}, target) == Schedules{"F*", "FRRF", "(FR)*"});
  for (const char* exact : {"F*", "FFFF"}) {
    CHECK(planned_schedules({exact}, target) == Schedules{"F*"});
  }
  for (const char* wrong : {"FFF", "RFFF", "F*R", "(F)*", ""}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(planned_schedules({wrong}, target), Error);
  }
}
