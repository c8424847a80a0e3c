#include "engine/measure/bench/specattn_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

#include "engine/io/checkpoint.h"
#include "engine/io/prompt/prompt.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/measure/bench/given_yield.h"
#include "engine/run/model/load.h"
#include "engine/run/model/synthetic.h"
#include "engine/run/speculate/device_step.h"
#include "engine/run/speculate/step.h"
#include "kernels/common/bf16.h"
#include "model/launches/step_shape.h"
#include "model/words/error.h"
#include "profiler/environment.h"

namespace versieve::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWarmSteps = 6;
constexpr std::int64_t kUsualYield = 4;
constexpr std::int64_t kPrefillChunk = Target<float>::kMostTogether;
constexpr std::int64_t kSinks = 16;   // first tokens, of StreamingLLM
constexpr std::int64_t kPage = 16;    // tokens, of Quest
constexpr double kLeastSaved = 0.02;  // below it there is nothing to compare

LlmShape target_shape(const SpecAttnBenchOptions& options, std::int64_t vocab) {
  LlmShape shape = named_llm_shape(options.geometry);
  if (shape.attention != AttentionKind::kDense) {
    throw Error(ExitCode::kUsage,
                "bench specattn takes a dense geometry, as dense-1b, not " + options.geometry);
  }
  shape.vocab = vocab;
  return shape;
}

// Target layers that choose are shared out over the draft's layers but the first, whose attention
// is diffuse (engine/run/specattn).
std::vector<std::int32_t> spread_map(std::int64_t draft_layers, std::int64_t target_layers,
                                     std::int64_t dense_layers) {
  std::vector<std::int32_t> map(static_cast<std::size_t>(target_layers), 0);
  const std::int64_t choosing = target_layers - dense_layers;
  const std::int64_t first = draft_layers > 1 ? 1 : 0;
  for (std::int64_t layer = dense_layers; layer < target_layers; ++layer) {
    map[static_cast<std::size_t>(layer)] = static_cast<std::int32_t>(
        first + (layer - dense_layers) * (draft_layers - first) / choosing);
  }
  return map;
}

// The first tokens and the newest ones at a run's start, in the layers that choose. In a run they
// move on by a place a token, which is no work of a step.
template <class T>
class FirstAndNewest final : public TokenSelector<T> {
 public:
  FirstAndNewest(kernels::Ops<T>& ops, std::int64_t context_len, std::int64_t count,
                 std::int64_t dense_layers)
      : dense_layers_(dense_layers), count_(std::min(count, context_len)) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(count_));
    const std::int64_t first = std::min(kSinks, count_);
    std::iota(tokens.begin(), tokens.begin() + first, 0);
    std::iota(tokens.begin() + first, tokens.end(),
              static_cast<std::int32_t>(context_len - (count_ - first)));
    token_ = kernels::OpsBuffer<T, std::int32_t>(ops, tokens);
    known_ = kernels::OpsBuffer<T, std::int32_t>(
        ops, std::vector<std::int32_t>(1, static_cast<std::int32_t>(count_)));
  }

  kernels::SelectedTokens select(const LayerQueries<T>& layer) override {
    if (layer.layer < dense_layers_) {
      return {};
    }
    return {.token = token_.data(), .count = count_, .known_count = known_.data()};
  }

 private:
  std::int64_t dense_layers_, count_;
  kernels::OpsBuffer<T, std::int32_t> token_, known_;
};

template <class T>
class SpecAttnBencher {
 public:
  SpecAttnBencher(kernels::Ops<T>& ops, const SpecAttnBenchOptions& options,
                  const Checkpoint& draft, const LlmShape& shape, TokenIds text)
      : ops_(ops),
        options_(options),
        text_(std::move(text)),
        target_(make_synthetic_target<T>(ops, shape, draft_shape_for(shape), options.seed)),
        draft_(make_target<T>(ops, draft, nullptr)),
        map_(spread_map(draft_.shape().layers, shape.layers, SpecAttnOptions{}.dense_layers)) {}

  const std::vector<std::int32_t>& layer_map() const { return map_; }

  // The draft reads the text, the target's cache is random.
  void set_context(std::int64_t context_len) {
    draft_.cache().truncate(0);
    draft_.cache().reserve(context_len + room());
    target_.cache().truncate(0);
    target_.cache().reserve(context_len + room());
    fill_context(ops_, target_, context_len, options_.seed + 1);
    for (std::int64_t at = 0; at < context_len; at += kPrefillChunk) {
      const std::int64_t end = std::min(context_len, at + kPrefillChunk);
      std::vector<std::int32_t> path(static_cast<std::size_t>(end - at));
      std::iota(path.begin(), path.end(), 0);
      draft_.verify(chain_tree({text_.begin() + at, text_.begin() + end}),
                    {.last_logits_only = true});
      draft_.commit(path);
    }
    context_len_ = context_len;
  }

  SpecAttnRow row(const Strategy& strategy) { return timed({.strategy = strategy}, nullptr); }

  SpecAttnRow in_line(const Strategy& strategy) {
    return timed({.method = "in line", .strategy = strategy}, nullptr);
  }

  // Reads as much of each choosing layer as `chosen` did.
  SpecAttnRow streaming(const SpecAttnRow& chosen) {
    const std::int64_t layers = target_.shape().layers;
    const std::int64_t dense = SpecAttnOptions{}.dense_layers;
    const double saved = chosen.reads_saved * static_cast<double>(layers) /
                         static_cast<double>(std::max<std::int64_t>(1, layers - dense));
    FirstAndNewest<T> selector(
        ops_, context_len_, std::llround((1.0 - saved) * static_cast<double>(context_len_)), dense);
    Strategy chain = chosen.strategy;
    chain.attention = AttentionMethod::kDense;
    SpecAttnRow row = timed({.method = "streaming", .strategy = chain}, &selector);
    row.reads_saved = chosen.reads_saved;
    return row;
  }

  // All layers choose, so each reads the share that `chosen` read over all.
  SpecAttnRow quest(const SpecAttnRow& chosen) {
    Strategy pages{.attention = AttentionMethod::kResa};
    pages.resa_key_block = kPage;
    pages.resa_active_ratio = std::round(1e3 * (1.0 - chosen.reads_saved)) / 1e3;
    pages.resa_rectify_every = 0;
    target_.keep_block_keys(kPage);
    SpecAttnRow row = timed({.method = "quest", .strategy = pages}, nullptr);
    target_.drop_block_keys();
    row.reads_saved = 1.0 - pages.resa_active_ratio;
    return row;
  }

 private:
  SpecAttnRow timed(SpecAttnRow row, TokenSelector<T>* selector) {
    const Strategy& strategy = row.strategy;
    const bool speculates = strategy.draft.speculates();
    row.context_len = context_len_;
    row.tokens = yield_of(strategy, options_.yield, kUsualYield);
    DeviceStepOptions steps{.choice = strategy.draft,
                            .verify = verify_options(strategy, target_.shape()),
                            .forced_yield = speculates ? row.tokens : 0};
    if (strategy.attention == AttentionMethod::kSpecAttn) {
      steps.chooses = specattn_options(strategy);
      steps.layer_map = map_;
      steps.chooses_beside = row.method != "in line";
    }
    DeviceStepRunner<T> runner(ops_, target_, nullptr, steps, &draft_);
    runner.set_token_selector(selector);
    runner.begin({.context_len = context_len_,
                  .token = text_[static_cast<std::size_t>(context_len_)],
                  .token_before = text_[static_cast<std::size_t>(context_len_ - 1)],
                  .max_context = context_len_ + room() / 2});
    row.step = profiler::summary_of(times(runner));
    row.reads_saved = runner.reads().saved();
    return row;
  }

  // Positions that steps may take, and what they draft beyond.
  std::int64_t room() const { return 2 * (options_.samples + kWarmSteps + 2) * 34; }

  // From one step's end to the next, us; the next step is under way when one ends.
  std::vector<double> times(DeviceStepRunner<T>& runner) const {
    std::vector<double> us;
    Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < kWarmSteps + options_.samples; ++i) {
      const std::int64_t recordings = runner.recordings();
      while (runner.pending() < 2 && runner.can_launch()) {
        runner.launch();
      }
      runner.wait();
      const Clock::time_point end = Clock::now();
      if (i >= kWarmSteps && runner.recordings() == recordings) {
        us.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
      }
      begin = end;
    }
    while (runner.pending() > 0) {
      runner.wait();
    }
    return us;
  }

  kernels::Ops<T>& ops_;
  const SpecAttnBenchOptions& options_;
  TokenIds text_;
  Target<T> target_;
  Target<T> draft_;
  std::vector<std::int32_t> map_;
  std::int64_t context_len_ = 0;
};

// As many tokens of the texts as the longest context takes, and one.
TokenIds read_texts(const SpecAttnBenchOptions& options, const Tokenizer& tokenizer,
                    std::int64_t tokens) {
  TokenIds all;
  for (const std::filesystem::path& path : options.texts) {
    const TokenIds text = tokenizer.encode(read_prompt(path));
    all.insert(all.end(), text.begin(), text.end());
  }
  if (all.empty()) {
    throw Error(ExitCode::kBadInput, "the texts of bench specattn hold no token");
  }
  const std::size_t once = all.size();
  while (static_cast<std::int64_t>(all.size()) < tokens) {
    all.push_back(all[all.size() - once]);
  }
  return all;
}

void check_strategy(const Strategy& strategy, const LlmShape& shape) {
  const std::string reason = illegal_because(strategy, shape);
  if (!reason.empty()) {
    throw Error(ExitCode::kAnswerNo, "strategy '" + strategy.text() + "': " + reason);
  }
  if (strategy.attention == AttentionMethod::kResa || strategy.draft.width > 1) {
    throw Error(ExitCode::kAnswerNo, "strategy '" + strategy.text() +
                                         "': bench specattn runs dense decoding and chains of "
                                         "the draft model, dense and by specattn");
  }
}

void check_options(const SpecAttnBenchOptions& options) {
  if (options.draft.empty() || options.texts.empty()) {
    throw Error(ExitCode::kUsage,
                "bench specattn needs a draft model and a text: --draft FOLDER --text FILE");
  }
  if (options.samples < 6 || options.contexts.empty() || options.strategies.empty() ||
      *std::min_element(options.contexts.begin(), options.contexts.end()) < 8) {
    throw Error(ExitCode::kUsage,
                "bench specattn takes strategies, contexts of at least 8 tokens and at least 6 "
                "samples");
  }
}

}  // namespace

SpecAttnBench bench_specattn(const SpecAttnBenchOptions& options,
                             const std::function<void(const SpecAttnRow&)>& on_row) {
  check_options(options);
  std::vector<Strategy> strategies;
  for (const std::string& text : options.strategies) {
    strategies.push_back(Strategy::parse(text));
    check_yield(strategies.back(), options.yield);
    check_strategy(strategies.back(), named_llm_shape(options.geometry));
  }
  const std::filesystem::path folder =
      std::filesystem::exists(options.draft / "draft") ? options.draft / "draft" : options.draft;
  const Checkpoint draft = load_target(folder);
  if (draft.shape.attention != AttentionKind::kDense || draft.shape.has_windows()) {
    throw Error(ExitCode::kAnswerNo,
                folder.string() + ": bench specattn needs a dense draft that sees all tokens");
  }
  const LlmShape shape = target_shape(options, draft.shape.vocab);
  const std::int64_t longest = *std::max_element(options.contexts.begin(), options.contexts.end());
  TokenIds text = read_texts(options, *load_tokenizer(options.draft, draft.shape), longest + 1);
  const ComputeDevice device = compute_device(options.on_gpu ? "cuda" : "cpu", options.threads);
  const Dtype dtype = options.on_gpu ? Dtype::kBf16 : Dtype::kF32;
  SpecAttnBench bench{.device = device.name,
                      .backend = name_of(device.backend),
                      .dtype = name_of(dtype),
                      .options = options,
                      .layer_map = {},
                      .rows = {}};
  with_ops(device, dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
    SpecAttnBencher<T> bencher(*ops, options, draft, shape, std::move(text));
    bench.layer_map = bencher.layer_map();
    for (const std::int64_t context : options.contexts) {
      bencher.set_context(context);
      const auto keep = [&](SpecAttnRow row) {
        bench.rows.push_back(std::move(row));
        on_row(bench.rows.back());
      };
      for (const Strategy& strategy : strategies) {
        const SpecAttnRow row = bencher.row(strategy);
        keep(row);
        if (!options.others || strategy.attention != AttentionMethod::kSpecAttn) {
          continue;
        }
        keep(bencher.in_line(strategy));
        if (row.reads_saved > kLeastSaved) {
          keep(bencher.streaming(row));
          keep(bencher.quest(row));
        }
      }
    }
  });
  return bench;
}

}  // namespace versieve::engine
