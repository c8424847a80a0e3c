#include "engine/analyse/plan/prefill_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/io/formatted.h"
#include "engine/io/strict_json.h"
#include "engine/run/batch/prompt_rows.h"
#include "model/words/error.h"
#include "model/words/hardware.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ExitCode::kBadInput, path + ": " + what);
}

// Assumption, in log of time: what a prompt takes more in forwards of half as many tokens, and the
// standard deviation of that. On an H200 512 took 1.36 to 1.42 times what 2,048 did (two halvings;
// prompts of 4K to 64K, db/measured/h200-prefill.json).
constexpr double kHalvedForward = 0.16;

// A geometry with dense attention in the place of its own is another target.
std::string geometry_of(const json& file) {
  const std::string name = file.at("geometry").get<std::string>();
  const bool dense = file.at("attention").get<std::string>() == "dense";
  return dense && name.starts_with("nsa-") ? "dense-" + name.substr(4) : name;
}

bool is_dense(const json& file) {
  return file.at("attention").get<std::string>() == "dense" ||
         geometry_of(file).starts_with("dense-");
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

void add_warning(const std::string& text, PromptTimes& times) {
  times.warning += (times.warning.empty() ? "" : "; ") + text;
}

// How often so many tokens are halved to become `piece`; below 0 where they are doubled. No forward
// holds more than its `prompt`.
double halvings(std::int64_t rows, std::int64_t piece,
                std::int64_t prompt = std::numeric_limits<std::int64_t>::max()) {
  return std::log2(static_cast<double>(std::min(rows, prompt)) /
                   static_cast<double>(std::min(piece, prompt)));
}

// Prompts in forwards of times.rows tokens, read in pieces of `piece`.
void read_by(std::int64_t piece, PromptTimes& times) {
  constexpr double kNinetyFive = 1.96;  // of the points' intervals
  const std::int64_t rows = std::exchange(times.rows, piece);
  double most = 0.0;  // halvings of the longest prompt
  for (PromptTimes::Point& p : times.points) {
    most = halvings(rows, piece, p.tokens);
    const double ratio = std::exp(kHalvedForward * most);
    const double error = kNinetyFive * kHalvedForward * std::fabs(most);
    const double low = std::hypot(std::log(p.ms / p.interval.low), error);
    const double high = std::hypot(std::log(p.interval.high / p.ms), error);
    p.ms *= ratio;
    p.interval = {p.ms * std::exp(-low), p.ms * std::exp(high)};
  }
  if (most == 0.0) {
    return;
  }
  add_warning(formatted("--prefill holds no forwards of %lld tokens, by which a batch's steps read "
                        "prompts: those of %lld are taken to last %.2f times as long, of the "
                        "longest (an assumption; bench prefill --rows %lld --out measures them)",
                        static_cast<long long>(piece), static_cast<long long>(rows),
                        std::exp(kHalvedForward * most), static_cast<long long>(piece)),
              times);
}

PromptTimes times_of(const std::string& path, const json& file) {
  if (file.at("bench") != "prefill") {
    refuse(path, "not an answer of bench prefill");
  }
  PromptTimes out{.device = file.at("device").get<std::string>(),
                  .geometry = geometry_of(file),
                  .rows = 1,
                  .points = {},
                  .measured_utc = file.value("measured_utc", std::string()),
                  .revision = file.value("revision", std::string())};
  // Of NSA each named geometry has a launch that attends a long piece at once.
  const std::int64_t piece = usual_prompt_rows(!is_dense(file));
  for (const auto& [rows, points] : by_rows(file)) {  // of two as near the fewer: rather too long
    PromptTimes of_rows{.rows = rows, .points = points};
    const std::string why = unsound_because(of_rows);
    if (!why.empty()) {
      refuse(path, "its prompts " + why);
    }
    if (out.points.empty() ||
        std::fabs(halvings(rows, piece)) < std::fabs(halvings(out.rows, piece))) {
      out.rows = rows;
      out.points = points;
    }
  }
  if (out.points.empty()) {
    refuse(path, "its prompts " + unsound_because(out));
  }
  read_by(piece, out);
  return out;
}

constexpr std::size_t kDateChars = 10;  // of ISO 8601
constexpr const char* kMeasureAgain = "; bench prefill --out measures them again";

// "revision abc1234, 2026-11-28"; what is not known is left out.
std::string when_text(const std::string& revision, const std::string& utc) {
  const std::string date = utc.substr(0, kDateChars);
  if (revision.empty() || date.empty()) {
    return revision.empty() ? date : "revision " + revision;
  }
  return "revision " + revision + ", " + date;
}

}  // namespace

std::string origin_text(const PromptTimes& times) {
  const std::string when = when_text(times.revision, times.measured_utc);
  return times.device + (when.empty() ? "" : " (" + when + ")");
}

void date_against(const std::optional<RunRecord>& newest, PromptTimes& times) {
  const std::string points =
      newest ? when_text(newest->revision, newest->started_utc) : std::string();
  const std::string against =
      points.empty() ? std::string() : " (the database's newest points are of " + points + ")";
  if (times.revision.empty() && times.measured_utc.empty()) {
    add_warning(
        "--prefill says neither when nor with which revision its prompts were measured, so they "
        "may be of an older engine, which reads them slower" +
            against + ", and the plan too careful" + kMeasureAgain,
        times);
    return;
  }
  if (!newest || newest->revision == times.revision) {
    return;
  }
  if (times.measured_utc.empty()) {
    add_warning("--prefill is of " + origin_text(times) +
                    " and says not when, so its prompts may be of an older engine" + against +
                    kMeasureAgain,
                times);
  } else if (times.measured_utc.substr(0, kDateChars) < newest->started_utc.substr(0, kDateChars)) {
    add_warning("the prompts of --prefill were measured on " + origin_text(times) +
                    ", before the database's newest points (" + points +
                    "): an older engine may read them slower, and the plan is then too careful" +
                    kMeasureAgain,
                times);
  }
}

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
