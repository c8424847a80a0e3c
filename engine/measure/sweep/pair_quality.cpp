#include "engine/measure/sweep/pair_quality.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/io/input_file.h"
#include "engine/io/layer_map_file.h"
#include "engine/io/model_config.h"
#include "engine/io/sha256.h"
#include "engine/io/task_file.h"
#include "engine/run/calibrate/text_loss.h"
#include "engine/run/specattn/align_request.h"
#include "model/plan/lossy_space.h"
#include "model/words/error.h"
#include "model/words/strategy.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

// Layers tried a step of the search after the first: of 30 layers all would take twice as long.
constexpr std::int64_t kLayersTried = 8;
constexpr std::int64_t kFewestScored = 16;
constexpr std::size_t kPieceStrategies = 12;  // about half a minute of trees on an H100
constexpr std::size_t kRegimesOnCpu = 2;

// How much of the texts is scored, and how many questions are asked.
struct Sample {
  std::int64_t calibrated = 1024, judged = kContinuation, questions = 48;
  std::int64_t of_dense = 128;  // of its many settings each text scores fewer tokens
};
Sample sample_on(Backend backend) {
  return backend == Backend::kCpu
             ? Sample{.calibrated = 128, .judged = 32, .questions = 4, .of_dense = 16}
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

bool is_of_dense(const Strategy& strategy) {
  return strategy.attention != AttentionMethod::kNsa;
}

std::vector<Strategy> planned_choices(const PairAtHand& pair, const PairQualityOptions& options) {
  return lossy_space(pair.loaded.target.shape, options.reuse);
}

// Every choice that a plan may hold; on a CPU groups with one schedule beside F* alone.
std::vector<std::string> strategies_of(const PairAtHand& pair, const PairQualityOptions& options) {
  std::vector<std::string> strategies;
  for (const Strategy& s : planned_choices(pair, options)) {
    const bool is_few = s.precision() != PrecisionClass::kApproxReuse ||
                        s.schedule == options.product || pair.backend != Backend::kCpu;
    if (!is_of_dense(s) && is_few) {
      strategies.push_back(s.text());
    }
  }
  return strategies;
}

// The same of a dense model: on texts all of them, of questions, which ReSA reads token by token,
// and on a CPU one of each kind and another share.
std::vector<std::string> dense_strategies(const PairAtHand& pair, const PairQualityOptions& options,
                                          bool asks) {
  if (asks || pair.backend == Backend::kCpu) {
    return {"resa:b16p0.1f32/ar", "resa:b64p0.02f0/ar", "specattn:p0.97/d7k1n8/bfs/c1/F*",
            "specattn:p0.9/d7k1n8/bfs/c1/F*"};
  }
  std::vector<std::string> strategies;
  for (const Strategy& s : planned_choices(pair, options)) {
    if (is_of_dense(s)) {
      strategies.push_back(s.text());
    }
  }
  return strategies;
}

LossyQualityRequest request_of(const PairAtHand& pair, const PairQualityOptions& options) {
  const Sample sample = sample_on(pair.backend);
  return {.model = pair.source.model,
          .strategies = strategies_of(pair, options),
          .scored = sample.judged,
          .questions = options.questions > 0 ? options.questions : sample.questions,
          .backend = name_of(pair.backend),
          .dtype = dtype_of(pair),
          .threads = options.threads,
          .leaves_out = true};
}

std::string configuration_of(const PairAtHand& pair, const PairQualityPart& part) {
  ordered_json out = {{"sweep", "quality"},
                      {"pair_sha256", part.pair.sha256},
                      {"set", part.name},
                      {"split", part.split},
                      {"scored", part.request.scored},
                      {"decoded", part.request.decoded},
                      {"questions", part.request.questions},
                      {"dtype", part.request.dtype},
                      {"backend", part.request.backend}};
  if (part.pair.sha256 != pair.source.id.sha256) {
    out[kDenseOf] = pair.source.id.sha256;
  }
  if (!part.request.layer_map.empty()) {
    out["layer_map"] = part.request.layer_map;
  }
  for (const QualityWindow& window : part.request.windows) {
    out["texts"].push_back(window.name + " of " + window.group);
  }
  return out.dump();
}

// At the shortest context and, on a GPU, at the longest too.
std::vector<QualityWindow> judged_windows(const PairAtHand& pair, const std::string& split,
                                          std::int64_t scored) {
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
         window_each(pair, {.split = split, .context_len = context, .continuation_len = scored})) {
      windows.push_back({.group = std::to_string(context) + " tokens",
                         .name = window.name(),
                         .tokens = window.prompt});
      std::vector<std::int32_t>& tokens = windows.back().tokens;
      tokens.insert(tokens.end(), window.continuation.begin(), window.continuation.end());
    }
  }
  return windows;
}

// One part a set of questions and one of the second split's texts; `make` gives a part with its
// pair and request, told whether it asks questions.
template <class Make>
std::vector<PairQualityPart> parts_of(const PairAtHand& pair,
                                      const std::vector<std::filesystem::path>& tasks,
                                      const Make& make) {
  std::vector<PairQualityPart> parts;
  for (const std::filesystem::path& path : tasks) {
    PairQualityPart part = make(true);
    part.name = read_task_set(path).name;
    part.split = "test";
    part.request.tasks = {path};
    parts.push_back(std::move(part));
  }
  if (pair.shape.splits.size() > 1) {  // texts of one split alone made the schedules
    PairQualityPart part = make(false);
    part.name = "texts";
    part.split = pair.shape.splits[1];
    part.request.windows = judged_windows(pair, part.split, part.request.scored);
    if (!part.request.windows.empty()) {
      parts.push_back(std::move(part));
    }
  }
  for (PairQualityPart& part : parts) {
    part.configuration = configuration_of(pair, part);
  }
  return parts;
}

// Empty: neither tokenizer file is there.
std::string tokenizer_hash(const std::filesystem::path& model) {
  for (const char* file : {"tokenizer.json", "tokenizer.model"}) {
    if (is_there(model / file)) {
      return sha256_of_file(model / file);
    }
  }
  return {};
}

// Files of the first split to align layers on: on a GPU the longest of each regime, on a CPU the
// first that is longer than what alignment leaves out.
std::vector<std::filesystem::path> alignment_texts(const PairAtHand& pair) {
  constexpr std::uintmax_t kFewestBytes = 900;
  std::map<std::string, std::pair<std::uintmax_t, std::filesystem::path>> longest;
  for (const PromptFile& prompt : pair.source.prompts) {
    if (prompt.split != pair.shape.splits.front() || prompt.is_chat) {
      continue;
    }
    std::error_code ignored;
    const std::uintmax_t bytes = std::filesystem::file_size(prompt.path, ignored);
    if (pair.backend == Backend::kCpu && bytes >= kFewestBytes && !ignored) {
      return {prompt.path};
    }
    if (!ignored && bytes > longest[prompt.regime].first) {
      longest[prompt.regime] = {bytes, prompt.path};
    }
  }
  std::vector<std::filesystem::path> texts;
  for (const auto& [regime, text] : longest) {
    if (!text.second.empty()) {
      texts.push_back(text.second);
    }
  }
  return texts;
}

// Empty: the folder has a map of its own, or there can be none.
std::vector<std::int32_t> aligned_layers(const PairAtHand& pair, const DenseModel& dense,
                                         const PairQualityOptions& options,
                                         std::vector<std::string>& left_out) {
  if (has_layer_map(dense.folder)) {
    return {};
  }
  try {
    return run_alignment({.model = dense.folder,
                          .texts = alignment_texts(pair),
                          .backend = name_of(pair.backend),
                          .dtype = dtype_of(pair),
                          .threads = options.threads})
        .map.draft_layer;
  } catch (const Error& error) {
    if (error.code() == ExitCode::kEnvironment) {
      throw;
    }
    left_out.push_back("SpecAttn of " + text_of(dense.id) + ": " + error.what());
    return {};
  }
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
  return parts_of(pair, options.tasks, [&](bool) {
    return PairQualityPart{.pair = pair.source.id, .request = request_of(pair, options)};
  });
}

std::vector<PairQualityPart> quality_pieces(const std::vector<PairQualityPart>& parts) {
  std::vector<std::string> sets;
  for (const PairQualityPart& part : parts) {
    if (std::find(sets.begin(), sets.end(), part.name) == sets.end()) {
      sets.push_back(part.name);
    }
  }
  const auto turn = [&sets](const PairQualityPart& part) {  // texts come first
    return part.request.tasks.empty()
               ? std::ptrdiff_t{-1}
               : std::find(sets.begin(), sets.end(), part.name) - sets.begin();
  };
  std::vector<PairQualityPart> ordered = parts;
  std::stable_sort(
      ordered.begin(), ordered.end(),
      [&turn](const PairQualityPart& a, const PairQualityPart& b) { return turn(a) < turn(b); });
  std::vector<PairQualityPart> pieces;
  for (const PairQualityPart& part : ordered) {
    const std::vector<std::string>& all = part.request.strategies;
    for (std::size_t at = 0; at < all.size(); at += kPieceStrategies) {
      pieces.push_back(part);
      const std::size_t end = std::min(all.size(), at + kPieceStrategies);
      pieces.back().request.strategies = {all.begin() + static_cast<std::ptrdiff_t>(at),
                                          all.begin() + static_cast<std::ptrdiff_t>(end)};
    }
  }
  return pieces;
}

std::string no_dense_model_because(const PairAtHand& pair, const std::filesystem::path& folder) {
  const LlmShape shape = read_target_config(folder).shape;
  if (shape.attention != AttentionKind::kDense) {
    return folder.string() + " is no dense model";
  }
  if (shape.vocab != pair.loaded.target.shape.vocab ||
      tokenizer_hash(folder) != tokenizer_hash(pair.source.model)) {
    return folder.string() + " has another tokenizer than the pair";
  }
  return {};
}

std::filesystem::path dense_model_beside(const PairAtHand& pair) {
  const std::filesystem::path folder =
      std::filesystem::absolute(pair.source.model / "").parent_path().parent_path() / "dense";
  try {
    const bool is_one =
        is_there(folder / "config.json") && no_dense_model_because(pair, folder).empty();
    return is_one ? folder : std::filesystem::path();
  } catch (const Error&) {
    return {};  // nobody named it
  }
}

std::vector<PairQualityPart> dense_quality(const PairAtHand& pair, const DenseModel& dense,
                                           const PairQualityOptions& options,
                                           std::vector<std::string>& left_out) {
  const std::vector<std::int32_t> layer_map = aligned_layers(pair, dense, options, left_out);
  const auto part_of = [&](bool asks) {
    PairQualityPart part{.pair = dense.id, .request = request_of(pair, options)};
    part.request.model = dense.folder;
    part.request.strategies = dense_strategies(pair, options, asks);
    part.request.scored = sample_on(pair.backend).of_dense;
    part.request.layer_map = layer_map;
    if (layer_map.empty() && !has_layer_map(dense.folder)) {
      std::erase_if(part.request.strategies, [](const std::string& text) {
        return Strategy::parse(text).attention == AttentionMethod::kSpecAttn;
      });
    }
    return part;
  };
  std::vector<PairQualityPart> parts = parts_of(pair, options.tasks, part_of);
  const std::int64_t positions = read_target_config(dense.folder).shape.max_position;
  for (PairQualityPart& part : parts) {
    std::erase_if(part.request.windows, [&](const QualityWindow& window) {
      return static_cast<std::int64_t>(window.tokens.size()) > positions;
    });
  }
  std::erase_if(parts, [](const PairQualityPart& part) {
    return part.request.windows.empty() && part.request.tasks.empty();
  });
  for (PairQualityPart& part : parts) {
    part.configuration = configuration_of(pair, part);
  }
  return parts;
}

}  // namespace versieve::engine
