// One constant of the guard at a time, the others as given (table 4 of Sparse Speculative
// Verification).
#include <array>
#include <cstdio>

#include "engine/analyse/replay/replay.h"

namespace versieve::engine {
namespace {

std::string named(const char* constant, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%s %g", constant, value);
  return text;
}

template <class Field>
void add_values(const char* constant, Field GuardConstants::*field, std::array<Field, 2> values,
                const GuardConstants& given, std::vector<GuardSetting>& out) {
  for (const Field value : values) {
    GuardConstants changed = given;
    changed.*field = value;
    out.push_back({.name = named(constant, static_cast<double>(value)), .guard = changed});
  }
}

}  // namespace

std::vector<GuardSetting> vary_guard(const PlanTable& table, const Walks& walks,
                                     const ReplayOptions& options) {
  const GuardConstants& given = options.guard;
  std::vector<GuardSetting> settings = {{.name = "as given", .guard = given}};
  add_values("alpha", &GuardConstants::alpha, {0.1, 0.4}, given, settings);
  add_values("drop_ratio", &GuardConstants::drop_ratio, {0.75, 0.95}, given, settings);
  add_values<std::int64_t>("warmup", &GuardConstants::warmup, {4, 16}, given, settings);
  add_values<std::int64_t>("hysteresis", &GuardConstants::hysteresis, {2, 10}, given, settings);
  for (GuardSetting& setting : settings) {
    setting.replay =
        replay(table, walks, {.guard = setting.guard, .most_tokens = options.most_tokens});
  }
  return settings;
}

}  // namespace versieve::engine
