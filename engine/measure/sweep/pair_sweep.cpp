#include "engine/measure/sweep/pair_sweep.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/io/model_config.h"
#include "engine/measure/sweep/sweep.h"
#include "engine/run/model/load.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

// The middles of the planner's context ranges, or nearly.
constexpr std::int64_t kContexts[] = {2048, 6144, 10240, 14336};
constexpr std::int64_t kShortestContext = 16;
// Behind a context there is room for the text that goes on, for what is generated and for any tree.
constexpr std::int64_t kRoom = 512;
constexpr std::int64_t kChatStep = 64;  // chats' context: the longest, rounded up to this

// 0: there are no chats, or the pair has no room for them.
std::int64_t chat_context(const PairSweepShape& shape) {
  const std::int64_t chat = (shape.longest_chat + kChatStep - 1) / kChatStep * kChatStep;
  return chat + kRoom <= shape.positions ? chat : 0;
}

std::vector<std::int64_t> contexts_of(const PairSweepShape& shape) {
  std::vector<std::int64_t> contexts = text_contexts(shape);
  if (const std::int64_t chat = chat_context(shape); chat > 0) {
    contexts.insert(contexts.begin(), chat);
  }
  if (contexts.empty()) {
    throw Error(ExitCode::kBadInput,
                "the pair's positions (" + std::to_string(shape.positions) +
                    ") and the prompts (the longest has " +
                    std::to_string(std::max(shape.longest_text, shape.longest_chat)) +
                    " tokens) leave no context with " + std::to_string(kRoom) + " positions and " +
                    std::to_string(kContinuation) + " tokens of text behind it");
  }
  return contexts;
}

// What a plan ranks first, and what says how steps grow: nodes, groups, reuse.
ordered_json step_grids(const PairSweepShape& shape, const std::vector<std::int64_t>& contexts,
                        bool on_gpu) {
  const auto grid = [&](const std::vector<std::string>& drafts, const char* group,
                        const ordered_json& schedule, const char* order = "bfs") {
    return ordered_json{{"workload", "step"},
                        {"model", kPairModel},
                        {"context_len", contexts},
                        {"regime", shape.regimes.front()},
                        {"split", shape.splits.front()},
                        {"dtype", name_of(shape.dtype)},
                        {"launch", on_gpu ? "graph" : "stream"},
                        {"draft", drafts},
                        {"order", order},
                        {"group", group},
                        {"schedule", schedule}};
  };
  return {grid({"ar", "d7k1n8", "d3k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"}, "c1", "F*"),
          grid({"d5k4n16", "d7k8n48", "d6k8n64", "d8k8n128"}, "c8e", "F*"),
          grid({"d7k8n48", "d8k8n128"}, "c4e", "F*"),
          grid({"d5k4n16", "d6k8n64"}, "c8e", shape.reuse),
          grid({"d6k8n64", "d8k8n128"}, "c8e", "F*", "dfs")};
}

ordered_json acceptance_grids(const PairSweepShape& shape,
                              const std::vector<std::int64_t>& contexts) {
  const auto grid = [&](const std::string& split, const std::vector<std::string>& drafts,
                        const ordered_json& group, const ordered_json& schedule) {
    return ordered_json{
        {"workload", "acceptance"}, {"context_len", contexts},       {"regime", shape.regimes},
        {"split", split},           {"dtype", name_of(shape.dtype)}, {"draft", drafts},
        {"group", group},           {"schedule", schedule}};
  };
  const std::string& plan = shape.splits.front();
  // Exact groups of either order yield what c1 yields, and its points tell what they share; of
  // approximate ones both count.
  ordered_json approximate = grid(plan, {"d6k8n64"}, {"c4a", "c8a"}, "F*");
  approximate["order"] = {"bfs", "dfs"};
  ordered_json grids = {
      grid(plan, {"d7k1n8", "d3k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"}, "c1", "F*"),
      grid(plan, {"d5k4n16", "d6k8n64"}, "c1", shape.reuse), approximate};
  for (std::size_t i = 1; i < shape.splits.size(); ++i) {
    grids.push_back(grid(shape.splits[i], {"d7k1n8", "d5k4n16", "d6k8n64"}, "c1", "F*"));
  }
  return grids;
}

// Where plan and judgement have their texts; others (needles to recall) are of another kind.
bool is_measured_on(const PromptFile& prompt) {
  return prompt.split == "calibration" || prompt.split == "test";
}

PairSource plan_and_judgement(const PairSource& pair) {
  if (read_target_config(pair.model).shape.attention != AttentionKind::kNsa) {
    throw Error(ExitCode::kUsage, pair.model.string() +
                                      ": the sweep pair is of targets with sparse attention, and "
                                      "this one is dense");
  }
  const std::filesystem::path draft_folder = pair.model / "draft";
  if (is_draft_model(draft_folder)) {
    throw Error(ExitCode::kUsage, draft_folder.string() +
                                      ": the sweep pair is of draft heads on the target's streams, "
                                      "and this draft is a model of its own");
  }
  PairSource own = pair;
  std::erase_if(own.prompts, [](const PromptFile& p) { return !is_measured_on(p); });
  return own;
}

}  // namespace

std::string pair_sweep(const PairSweepShape& shape, Backend backend) {
  const std::vector<std::int64_t> contexts = contexts_of(shape);
  ordered_json sweep = {
      {"name", kPairSweep},
      {"trace_repetitions", 1},
      {"counter_repetitions", 0},
      {"timing",
       {{"warm_up_s", 0.01}, {"min_samples", 20}, {"max_samples", 200}, {"time_limit_s", 0.2}}},
      {"grids", step_grids(shape, contexts, backend == Backend::kCuda)}};
  for (ordered_json& grid : acceptance_grids(shape, contexts)) {
    sweep["grids"].push_back(std::move(grid));
  }
  return sweep.dump();
}

std::vector<std::int64_t> text_contexts(const PairSweepShape& shape) {
  const std::int64_t of_text =
      std::min(shape.positions - kRoom, shape.longest_text - kContinuation);
  std::vector<std::int64_t> contexts;
  for (const std::int64_t context : kContexts) {
    if (context <= of_text) {
      contexts.push_back(context);
    }
  }
  if (contexts.empty() && kShortestContext <= of_text && chat_context(shape) == 0) {
    std::int64_t context = kShortestContext;
    while (2 * context <= of_text) {
      context *= 2;
    }
    contexts.push_back(context);
  }
  return contexts;
}

std::string pair_sweep(const PairSource& pair, Backend backend) {
  return pair_sweep(PairAtHand(pair, backend).shape, backend);
}

PairAtHand::PairAtHand(const PairSource& pair, Backend at)
    : source(plan_and_judgement(pair)), backend(at), loaded(source) {
  shape = {.positions = loaded.target.shape.max_position,
           .longest_text = loaded.texts.longest_text(),
           .longest_chat = loaded.texts.longest_chat(),
           .dtype = usual_dtype(backend, loaded.target.weights).dtype,
           .regimes = regimes_of(source.prompts),
           .splits = splits_of(source.prompts)};
  if (loaded.draft.shape.max_position > 0) {
    shape.positions = std::min(shape.positions, loaded.draft.shape.max_position);
  }
}

}  // namespace versieve::engine
