// What `versieve bench planner --out` wrote, as tables 3 and 4 need it.
#include <nlohmann/json.hpp>

#include "engine/analyse/figures/figure.h"
#include "engine/io/strict_json.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

LivePlan::Cell& cell_of(const json& row, LivePlan& plan) {
  const ContextBucket range{row.at("context").at(0).get<std::int64_t>(),
                            row.at("context").at(1).get<std::int64_t>()};
  const std::string precision = row.at("class").get<std::string>();
  for (LivePlan::Cell& cell : plan.cells) {
    if (cell.range.low == range.low && cell.range.high == range.high &&
        cell.precision == precision) {
      return cell;
    }
  }
  return plan.cells.emplace_back(
      LivePlan::Cell{.range = range, .precision = precision, .tokens_per_s = {}});
}

// Who played, and whether its acceptance was its own.
std::string player_of(const json& in) {
  std::string pair = in.at("pair").get<std::string>();
  if (in.contains("acceptance") && in.at("acceptance").at("kind") == "synthetic") {
    pair += ", synthetic acceptance (" + in.at("acceptance").at("from").get<std::string>() + ")";
  }
  return pair;
}

LivePlan plan_of(const json& in) {
  if (in.at("bench") != "planner") {
    throw Error(ExitCode::kBadInput, "it is of another bench");
  }
  LivePlan plan{.device = in.at("device").get<std::string>(),
                .pair = player_of(in),
                .max_new_tokens = in.at("max_new_tokens").get<std::int64_t>(),
                .cells = {},
                .settings = {}};
  for (const json& row : in.at("rows")) {
    LivePlan::Cell& cell = cell_of(row, plan);
    const std::string contender = row.at("contender").get<std::string>();
    cell.prompts = row.at("prompts").get<std::int64_t>();
    cell.tokens_per_s[contender] = row.at("tokens_per_s").at("median").get<double>();
    if (contender == "best+R") {
      cell.moved = row.at("moved").get<std::int64_t>();
    }
  }
  for (const json& s : in.at("settings")) {
    plan.settings.push_back({s.at("setting").get<std::string>(), s.at("gain").get<double>(),
                             s.at("moved").get<std::int64_t>()});
  }
  return plan;
}

}  // namespace

LivePlan read_live_plan(const std::string& path) {
  const json in = read_json_object(path);
  try {
    return plan_of(in);
  } catch (const json::exception& e) {
    throw Error(ExitCode::kBadInput,
                path + ": not what versieve bench planner --out writes: " + e.what());
  } catch (const Error& e) {
    throw Error(e.code(), path + ": not what versieve bench planner --out writes: " + e.what());
  }
}

}  // namespace versieve::engine
