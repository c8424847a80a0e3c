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
// Texts of each kind and context that a plan's tokens a step are counted on, each for as long as
// `bench planner` plays: enough to say how texts differ. On a CPU fewer, for time's sake.
constexpr std::int64_t kTexts = 8, kTextsOnCpu = 4;
constexpr std::int64_t kNewTokens = 128;
constexpr std::int64_t kChatStep = 64;      // chats' context: the longest, rounded up to this
constexpr std::int64_t kShorterStep = 256;  // of contexts of texts that end before the usual ones
constexpr double kOverlap = 0.8;            // of synthetic queries, as trees of trained pairs have

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

// Contexts of a split, and the regimes whose texts reach them.
struct Reach {
  std::vector<std::int64_t> contexts;
  std::vector<std::string> regimes;
};

// The context, or where the text of that regime and split is too short for it the longest of its
// range (a context lies in its middle, or nearly) that the text reaches; 0: none.
std::int64_t reached_context(const PairSweepShape& shape, const std::string& regime,
                             const std::string& split, std::int64_t context) {
  const auto text = shape.text_tokens.find({regime, split});
  if (text == shape.text_tokens.end() || text->second == 0 || context == chat_context(shape) ||
      text->second >= context + kContinuation) {
    return context;
  }
  const std::int64_t most = text->second - kContinuation;
  if (context < kContexts[0]) {
    std::int64_t reached = context;
    while (reached > most && reached > 0) {
      reached /= 2;
    }
    return reached >= kShortestContext ? reached : 0;
  }
  const std::int64_t reached = most / kShorterStep * kShorterStep;
  return reached > std::max<std::int64_t>(context - kContexts[0], 0) ? reached : 0;
}

std::vector<Reach> reaches_of(const PairSweepShape& shape, const std::string& split) {
  std::vector<Reach> out;
  for (const std::string& regime : shape.regimes) {
    std::vector<std::int64_t> contexts;
    for (const std::int64_t context : contexts_of(shape)) {
      if (const std::int64_t own = reached_context(shape, regime, split, context); own > 0) {
        contexts.push_back(own);
      }
    }
    const auto like = std::find_if(out.begin(), out.end(),
                                   [&](const Reach& other) { return other.contexts == contexts; });
    if (like != out.end()) {
      like->regimes.push_back(regime);
    } else if (!contexts.empty()) {
      out.push_back({contexts, {regime}});
    }
  }
  return out;
}

// The text that timed steps are of: that which reaches most contexts, of several the first split's
// and regime's (its words do not matter to a time); on a CPU at the shortest context alone, since
// nothing is planned with its times.
struct TimedText {
  std::string split, regime;
  std::vector<std::int64_t> contexts;
};
TimedText timed_text(const PairSweepShape& shape, bool on_gpu) {
  TimedText best;
  for (const std::string& split : shape.splits) {
    for (const Reach& reach : reaches_of(shape, split)) {
      if (reach.contexts.size() > best.contexts.size()) {
        best = {split, reach.regimes.front(), reach.contexts};
      }
    }
  }
  if (best.contexts.empty()) {  // of texts that all are too short: points that say so
    best = {shape.splits.front(), shape.regimes.front(), contexts_of(shape)};
  }
  if (!on_gpu) {
    best.contexts.resize(1);
  }
  return best;
}

// What a plan ranks first, and what says how steps grow: nodes, groups, reuse.
void add_steps(const PairSweepShape& shape, bool on_gpu, ordered_json& grids) {
  const TimedText text = timed_text(shape, on_gpu);
  const ordered_json step = {{"workload", "step"},
                             {"model", kPairModel},
                             {"context_len", text.contexts},
                             {"regime", text.regime},
                             {"split", text.split},
                             {"dtype", name_of(shape.dtype)},
                             {"launch", on_gpu ? "graph" : "stream"}};
  const auto add = [&](const std::vector<std::string>& drafts, const char* group,
                       const ordered_json& schedule, const char* order = "bfs") {
    ordered_json grid = step;
    grid.update({{"draft", drafts}, {"order", order}, {"group", group}, {"schedule", schedule}});
    grids.push_back(grid);
  };
  if (!on_gpu) {
    add({"ar", "d7k1n8", "d5k4n16", "d6k8n64"}, "c1", "F*");
    return;
  }
  add({"ar", "d7k1n8", "d3k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"}, "c1", "F*");
  add({"d5k4n16", "d7k8n48", "d6k8n64", "d8k8n128"}, "c8e", "F*");
  add({"d7k8n48", "d8k8n128"}, "c4e", "F*");
  add({"d5k4n16", "d6k8n64"}, "c8e", shape.reuse);
  add({"d6k8n64", "d8k8n128"}, "c8e", "F*", "dfs");
}

// Beside them: steps in the vanilla form, which the host leads, as it does for the same in the
// fused form; and the pair's weights with dense attention.
void add_baseline_steps(const PairSweepShape& shape, bool on_gpu, ordered_json& grids) {
  using Texts = std::vector<std::string>;
  const TimedText text = timed_text(shape, on_gpu);
  ordered_json step = {
      {"workload", "step"},    {"model", kPairModel}, {"context_len", text.contexts},
      {"regime", text.regime}, {"split", text.split}, {"dtype", name_of(shape.dtype)},
      {"launch", "stream"}};
  ordered_json led = step;
  led["draft"] = on_gpu ? Texts{"ar", "d6k8n64", "d8k8n128"} : Texts{"ar", "d5k4n16"};
  led["form"] = on_gpu ? Texts{"fused", "vanilla"} : Texts{"vanilla"};
  grids.push_back(led);
  step["launch"] = on_gpu ? "graph" : "stream";
  step["strategy"] = on_gpu ? Texts{"dense/ar", "dense/d7k1n8/bfs/c1/F*", "dense/d5k4n16/bfs/c1/F*",
                                    "dense/d6k8n64/bfs/c1/F*", "dense/d8k8n128/bfs/c1/F*"}
                            : Texts{"dense/ar", "dense/d5k4n16/bfs/c1/F*"};
  grids.push_back(step);
}

// One layer of the pair's shape: sparse, in both forms, and dense.
void add_attention(const PairSweepShape& shape, bool on_gpu, ordered_json& grids) {
  using Texts = std::vector<std::string>;
  const ordered_json layer = {{"model", kPairModel},
                              {"context_len", timed_text(shape, on_gpu).contexts},
                              {"dtype", name_of(shape.dtype)}};
  const auto add = [&](const ordered_json& own) {
    ordered_json grid = layer;
    grid.update(own);
    grids.push_back(grid);
  };
  const Texts trees = on_gpu ? Texts{"d5k4n16", "d6k8n64", "d8k8n128"} : Texts{"d5k4n16"};
  add({{"workload", "attention"}, {"draft", "ar"}, {"layer", {"refresh", "reuse"}}});
  add({{"workload", "attention"},
       {"draft", trees},
       {"group", {"c1", "c8e"}},
       {"layer", {"refresh", "reuse"}},
       {"overlap", kOverlap}});
  add({{"workload", "attention"},
       {"draft", trees},
       {"layer", "refresh"},
       {"overlap", kOverlap},
       {"form", "vanilla"}});
  add({{"workload", "decode"},
       {"strategy", on_gpu ? Texts{"dense/ar", "dense/d5k4n16/bfs/c1/F*", "dense/d6k8n64/bfs/c1/F*",
                                   "dense/d8k8n128/bfs/c1/F*"}
                           : Texts{"dense/ar", "dense/d5k4n16/bfs/c1/F*"}}});
}

void add_acceptance(const PairSweepShape& shape, ordered_json& grids) {
  const auto add = [&](const std::string& split, const std::vector<std::string>& drafts,
                       const ordered_json& group, const ordered_json& schedule,
                       const ordered_json& order = "bfs") {
    for (const Reach& reach : reaches_of(shape, split)) {
      grids.push_back({{"workload", "acceptance"},
                       {"context_len", reach.contexts},
                       {"regime", reach.regimes},
                       {"split", split},
                       {"dtype", name_of(shape.dtype)},
                       {"draft", drafts},
                       {"order", order},
                       {"group", group},
                       {"schedule", schedule}});
    }
  };
  const std::string& plan = shape.splits.front();
  add(plan, {"d7k1n8", "d3k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"}, "c1", "F*");
  add(plan, {"d5k4n16", "d6k8n64"}, "c1", shape.reuse);
  // Exact groups of either order yield what c1 yields, and its points tell what they share; of
  // approximate ones both count.
  add(plan, {"d6k8n64"}, {"c4a", "c8a"}, "F*", {"bfs", "dfs"});
  for (std::size_t i = 1; i < shape.splits.size(); ++i) {
    // The fixed baseline among them, without whose walks nothing is replayed.
    add(shape.splits[i], {"d7k1n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"}, "c1", "F*");
    if (!shape.reuse.empty()) {
      add(shape.splits[i], {"d6k8n64"}, "c1", shape.reuse.back());
    }
  }
}

// The tuples of the texts of plan, sampled.
void add_sampled_acceptance(const PairSweepShape& shape, ordered_json& grids) {
  const std::string& plan = shape.splits.front();
  const auto add = [&](const std::vector<std::string>& drafts, const char* group,
                       const ordered_json& schedule) {
    for (const Reach& reach : reaches_of(shape, plan)) {
      grids.push_back({{"workload", "acceptance"},
                       {"context_len", reach.contexts},
                       {"regime", reach.regimes},
                       {"split", plan},
                       {"temperature", shape.temperatures},
                       {"dtype", name_of(shape.dtype)},
                       {"draft", drafts},
                       {"group", group},
                       {"schedule", schedule}});
    }
  };
  add({"d7k1n8", "d3k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"}, "c1", "F*");
  if (!shape.reuse.empty()) {
    add({"d6k8n64"}, "c1", shape.reuse);
  }
  add({"d6k8n64"}, "c8a", "F*");
}

// Steps that draw launch the same at every temperature above 0: one of them is timed, on a GPU.
void add_sampled_steps(const PairSweepShape& shape, ordered_json& grids) {
  const TimedText text = timed_text(shape, true);
  const auto add = [&](const std::vector<std::string>& drafts, const char* group) {
    grids.push_back({{"workload", "step"},
                     {"model", kPairModel},
                     {"context_len", text.contexts},
                     {"regime", text.regime},
                     {"split", text.split},
                     {"temperature", shape.temperatures.front()},
                     {"dtype", name_of(shape.dtype)},
                     {"draft", drafts},
                     {"group", group}});
  };
  add({"ar", "d7k1n8", "d3k4n8", "d5k4n16", "d6k6n32", "d6k8n64", "d8k8n128"}, "c1");
  add({"d5k4n16", "d6k8n64"}, "c8e");
}

// Of a CPU a few samples: nothing is planned with its times.
ordered_json timing_on(Backend backend) {
  return backend == Backend::kCuda ? ordered_json{{"warm_up_s", 0.01},
                                                  {"min_samples", 20},
                                                  {"max_samples", 200},
                                                  {"time_limit_s", 0.2}}
                                   : ordered_json{{"warm_up_s", 0.0},
                                                  {"min_samples", 5},
                                                  {"max_samples", 20},
                                                  {"time_limit_s", 0.05}};
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
  contexts_of(shape);  // throws where there is none
  ordered_json sweep = {{"name", kPairSweep},
                        {"trace_repetitions", 1},
                        {"counter_repetitions", 0},
                        {"prompts", backend == Backend::kCuda ? kTexts : kTextsOnCpu},
                        {"new_tokens", kNewTokens},
                        {"timing", timing_on(backend)},
                        {"grids", ordered_json::array()}};
  const bool on_gpu = backend == Backend::kCuda;
  ordered_json& grids = sweep["grids"];
  if (!shape.temperatures.empty()) {
    add_sampled_acceptance(shape, grids);
    if (on_gpu) {
      add_sampled_steps(shape, grids);
    }
    return sweep.dump();
  }
  add_steps(shape, on_gpu, grids);
  add_baseline_steps(shape, on_gpu, grids);
  add_attention(shape, on_gpu, grids);
  add_acceptance(shape, grids);
  return sweep.dump();
}

std::vector<std::string> pair_sweep_notes(const PairSweepShape& shape) {
  std::vector<std::string> notes;
  for (const std::string& split : shape.splits) {
    for (const std::string& regime : shape.regimes) {
      for (const std::int64_t context : contexts_of(shape)) {
        const std::int64_t own = reached_context(shape, regime, split, context);
        if (own != context) {
          notes.push_back(regime + " of the split " + split + " has " +
                          std::to_string(shape.text_tokens.at({regime, split})) +
                          " tokens of text: " +
                          (own > 0 ? "measured at " + std::to_string(own) + " in the place of "
                                   : std::string("not measured at ")) +
                          std::to_string(context));
        }
      }
    }
  }
  return notes;
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
           .splits = splits_of(source.prompts),
           .text_tokens = loaded.texts.tokens_of_texts()};
  if (const std::int64_t own = loaded.draft->shape.max_position; own > 0) {
    shape.positions = std::min(shape.positions, own);
  }
}

}  // namespace versieve::engine
