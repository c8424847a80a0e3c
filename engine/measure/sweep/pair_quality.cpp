#include "engine/measure/sweep/pair_quality.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/io/task_file.h"
#include "engine/run/calibrate/text_loss.h"
#include "model/words/strategy.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

// Layers tried a step of the search after the first: of 30 layers all would take twice as long.
constexpr std::int64_t kLayersTried = 8;
constexpr std::int64_t kFewestScored = 16;
constexpr std::size_t kRegimesOnCpu = 2;
constexpr const char* kTree = "d6k8n64";

// How much of the texts is scored, and how many questions are asked.
struct Sample {
  std::int64_t calibrated = 1024, judged = kContinuation, questions = 48;
};
Sample sample_on(Backend backend) {
  return backend == Backend::kCpu ? Sample{.calibrated = 128, .judged = 32, .questions = 4}
                                  : Sample{};
}

std::string dtype_of(const PairAtHand& pair) {
  return pair.backend == Backend::kCpu ? "f32" : name_of(pair.shape.dtype);
}

// A window of each regime, of two on a CPU; chats, which are no longer than their prompt, aside.
std::vector<TextWindow> window_each(const PairAtHand& pair, WindowRequest request) {
  std::vector<TextWindow> windows;
  for (const std::string& regime : pair.shape.regimes) {
    request.regime = regime;
    request.count = 1;
    for (const TextWindow& window : pair.loaded.texts.windows(request)) {
      const bool is_whole = static_cast<std::int64_t>(window.prompt.size()) == request.context_len;
      const bool has_room = pair.backend != Backend::kCpu || windows.size() < kRegimesOnCpu;
      if (is_whole && has_room) {
        windows.push_back(window);
      }
    }
  }
  return windows;
}

// One text a schedule, so that what is measured of it is found.
std::string usual_text(const std::string& schedule) {
  for (const std::string& usual : PairSweepShape().reuse) {
    const Strategy strategy = Strategy::parse("nsa/ar/bfs/c1/" + usual);
    if (strategy.schedule_for(static_cast<std::int64_t>(schedule.size())) == schedule) {
      return usual;
    }
  }
  return schedule;
}

std::vector<std::string> strategies_of(const PairQualityOptions& options) {
  std::vector<std::string> strategies;
  for (const std::string& schedule : options.reuse) {
    strategies.push_back("nsa/ar/bfs/c1/" + schedule);
  }
  const std::string tree = std::string("nsa/") + kTree;
  for (const char* group : {"c4a", "c8a"}) {
    for (const char* order : {"bfs", "dfs"}) {
      strategies.push_back(tree + "/" + order + "/" + group + "/F*");
    }
  }
  for (const char* group : {"c4a", "c8a"}) {
    strategies.push_back(tree + "/bfs/" + group + "/" + options.product);
  }
  return strategies;
}

LossyQualityRequest request_of(const PairAtHand& pair, const PairQualityOptions& options) {
  const Sample sample = sample_on(pair.backend);
  return {.model = pair.source.model,
          .strategies = strategies_of(options),
          .scored = sample.judged,
          .questions = options.questions > 0 ? options.questions : sample.questions,
          .backend = name_of(pair.backend),
          .dtype = dtype_of(pair),
          .threads = options.threads};
}

std::string configuration_of(const PairAtHand& pair, const PairQualityPart& part) {
  ordered_json out = {{"sweep", "quality"},
                      {"pair_sha256", pair.source.id.sha256},
                      {"set", part.name},
                      {"split", part.split},
                      {"scored", part.request.scored},
                      {"decoded", part.request.decoded},
                      {"questions", part.request.questions},
                      {"dtype", part.request.dtype},
                      {"backend", part.request.backend}};
  for (const QualityWindow& window : part.request.windows) {
    out["texts"].push_back(window.name + " of " + window.group);
  }
  return out.dump();
}

// At the shortest context and, on a GPU, at the longest too.
std::vector<QualityWindow> judged_windows(const PairAtHand& pair, const std::string& split) {
  std::vector<std::int64_t> contexts = text_contexts(pair.shape);
  if (contexts.size() > 2) {
    contexts = {contexts.front(), contexts.back()};
  }
  if (pair.backend == Backend::kCpu && contexts.size() > 1) {
    contexts.pop_back();
  }
  std::vector<QualityWindow> windows;
  for (const std::int64_t context : contexts) {
    for (const TextWindow& window :
         window_each(pair, {.split = split,
                           .context_len = context,
                           .continuation_len = sample_on(pair.backend).judged})) {
      windows.push_back({.group = std::to_string(context) + " tokens",
                         .name = window.name(),
                         .tokens = window.prompt});
      std::vector<std::int32_t>& tokens = windows.back().tokens;
      tokens.insert(tokens.end(), window.continuation.begin(), window.continuation.end());
    }
  }
  return windows;
}

}  // namespace

std::optional<CalibrateRequest> pair_calibration(const PairAtHand& pair, int threads) {
  const std::int64_t unscored = TextLoss<float>::first_scored(pair.loaded.target.shape.nsa) + 1;
  const std::int64_t longest = std::min(pair.shape.positions, pair.shape.longest_text);
  const std::int64_t scored = std::min(sample_on(pair.backend).calibrated, longest - unscored);
  if (scored < kFewestScored) {
    return {};
  }
  CalibrateRequest request{.model = pair.source.model,
                           .windows = {},
                           .most_tried = kLayersTried,
                           .budget = kLossBudgets.back(),
                           .backend = name_of(pair.backend),
                           .dtype = dtype_of(pair),
                           .threads = threads};
  for (const TextWindow& window :
       window_each(pair, {.split = pair.shape.splits.front(), .context_len = unscored + scored})) {
    request.windows.push_back({.name = window.name(), .tokens = window.prompt});
  }
  return request.windows.empty() ? std::nullopt : std::optional(request);
}

std::vector<CalibratedSchedule> calibrated_schedules(const ScheduleSearch& search) {
  std::vector<CalibratedSchedule> out;
  for (const double budget : kLossBudgets) {
    const ScheduleStep& step = step_within(search, budget);
    const std::string schedule = usual_text(step.schedule);
    if (step.layer >= 0 && (out.empty() || out.back().schedule != schedule)) {
      out.push_back({.budget = budget, .schedule = schedule, .rise = step.rise});
    }
  }
  return out;
}

std::vector<std::string> reuse_schedules(const std::vector<CalibratedSchedule>& calibrated) {
  std::vector<std::string> out = PairSweepShape().reuse;
  for (const CalibratedSchedule& own : calibrated) {
    if (std::find(out.begin(), out.end(), own.schedule) == out.end()) {
      out.push_back(own.schedule);
    }
  }
  return out;
}

std::vector<PairQualityPart> pair_quality(const PairAtHand& pair,
                                          const PairQualityOptions& options) {
  std::vector<PairQualityPart> parts;
  for (const std::filesystem::path& path : options.tasks) {
    PairQualityPart part{
        .name = read_task_set(path).name, .split = "test", .request = request_of(pair, options)};
    part.request.tasks = {path};
    parts.push_back(std::move(part));
  }
  if (pair.shape.splits.size() > 1) {  // texts of one split alone made the schedules
    PairQualityPart part{
        .name = "texts", .split = pair.shape.splits[1], .request = request_of(pair, options)};
    part.request.windows = judged_windows(pair, part.split);
    if (!part.request.windows.empty()) {
      parts.push_back(std::move(part));
    }
  }
  for (PairQualityPart& part : parts) {
    part.configuration = configuration_of(pair, part);
  }
  return parts;
}

}  // namespace versieve::engine
