#include "engine/analyse/plan/prefill_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/io/strict_json.h"
#include "model/words/error.h"
#include "model/words/hardware.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ExitCode::kBadInput, path + ": " + what);
}

// A geometry with dense attention in the place of its own is another target.
std::string geometry_of(const json& file) {
  const std::string name = file.at("geometry").get<std::string>();
  const bool dense = file.at("attention").get<std::string>() == "dense";
  return dense && name.starts_with("nsa-") ? "dense-" + name.substr(4) : name;
}

std::map<std::int64_t, std::vector<PromptTimes::Point>> by_rows(const json& file) {
  std::map<std::int64_t, std::vector<PromptTimes::Point>> out;
  for (const json& row : file.at("rows")) {
    const std::int64_t rows = row.at("rows").get<std::int64_t>();
    const json& ms = row.at("time_ms");
    if (rows > 0) {  // 0: the slow form, which nobody serves with
      out[rows].push_back({row.at("prompt").get<std::int64_t>(),
                           ms.at("median").get<double>(),
                           {ms.at("low").get<double>(), ms.at("high").get<double>()}});
    }
  }
  for (auto& [rows, points] : out) {
    std::sort(points.begin(), points.end(),
              [](const auto& a, const auto& b) { return a.tokens < b.tokens; });
  }
  return out;
}

PromptTimes times_of(const std::string& path, const json& file) {
  if (file.at("bench") != "prefill") {
    refuse(path, "not an answer of bench prefill");
  }
  PromptTimes out{.device = file.at("device").get<std::string>(),
                  .geometry = geometry_of(file),
                  .rows = 1,
                  .points = {}};
  for (const auto& [rows, points] : by_rows(file)) {
    const std::string why = unsound_because({.rows = rows, .points = points});
    if (!why.empty()) {
      refuse(path, "its prompts " + why);
    }
    const PromptTimes::Point& last = points.back();
    if (out.points.empty() || last.tokens > out.points.back().tokens ||
        (last.tokens == out.points.back().tokens && last.ms < out.points.back().ms)) {
      out.rows = rows;
      out.points = points;
    }
  }
  if (out.points.empty()) {
    refuse(path, "its prompts " + unsound_because(out));
  }
  return out;
}

}  // namespace

std::string unsound_because(const PromptTimes& times) {
  if (times.points.empty() || times.rows < 1) {
    return "are none of several tokens in one forward";
  }
  std::int64_t before = 0;
  for (const PromptTimes::Point& p : times.points) {
    const bool sound = p.tokens > before && std::isfinite(p.ms) && p.ms > 0.0 &&
                       p.interval.low > 0.0 && p.interval.low <= p.ms && p.interval.high >= p.ms &&
                       std::isfinite(p.interval.high);
    if (!sound) {
      return "need lengths in ascending order, each once, and times above 0 within their intervals";
    }
    before = p.tokens;
  }
  return {};
}

PromptTimes read_prompt_times(const std::string& path) {
  const json file = read_json_object(path);
  try {
    return times_of(path, file);
  } catch (const json::exception&) {
    refuse(path, "not an answer of bench prefill: a key is missing or of another kind");
  }
}

void require_prompts_of(const PromptTimes& times, const LlmShape& target,
                        const std::string& hardware_key) {
  const std::string name = target_name(target.name);
  if (times.geometry != name) {
    throw Error(ExitCode::kUsage,
                "--prefill holds prompts of " + times.geometry + ", and the plan is for " + name);
  }
  const HardwareSpec* const machine = hardware_for_device(times.device);
  if (machine == nullptr || machine->key != hardware_key) {
    throw Error(ExitCode::kUsage, "--prefill holds prompts read on " + times.device +
                                      ", and the plan is for " + hardware_key);
  }
}

}  // namespace versieve::engine
