#include "engine/measure/sweep/selection_point.h"

#include <algorithm>
#include <optional>

#include "engine/io/input_file.h"
#include "engine/io/layer_map_file.h"
#include "engine/io/model_config.h"
#include "engine/measure/sweep/text_yields.h"
#include "engine/run/model/load.h"
#include "engine/run/quality/held_prefix.h"
#include "engine/run/speculate/block_sharing.h"
#include "engine/run/speculate/draft_choice.h"
#include "engine/run/speculate/model_drafter.h"
#include "engine/run/speculate/rectify.h"
#include "engine/run/speculate/step.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kTogether = 16;  // of ReSA's queries, that are held against each other

using Lists = std::vector<std::vector<std::int32_t>>;  // a query and KV head each

// What the queries of one stretch of text chose, layer by layer.
class Choices {
 public:
  Choices(std::int64_t layers, std::int64_t num_kv_heads)
      : layers_(static_cast<std::size_t>(layers)), num_kv_heads_(num_kv_heads) {}

  void add(std::int64_t layer, std::vector<std::int32_t> list) {
    width_ = std::max(width_, list.size());
    layers_[static_cast<std::size_t>(layer)].push_back(std::move(list));
  }
  std::int64_t queries() const {
    return static_cast<std::int64_t>(layers_.front().size()) / num_kv_heads_;
  }
  // Into the sum, and forgotten. Lists are filled up to the longest.
  void flush(SharingSum& sum) {
    const DraftTree chain =
        chain_tree(std::vector<std::int32_t>(static_cast<std::size_t>(queries()), 0));
    std::vector<std::vector<std::int32_t>> selected;
    for (Lists& lists : layers_) {
      std::vector<std::int32_t>& flat = selected.emplace_back();
      for (std::vector<std::int32_t>& list : lists) {
        list.resize(width_, -1);
        flat.insert(flat.end(), list.begin(), list.end());
      }
      lists.clear();
    }
    if (chain.size() > 1) {
      sum.add({.tree = &chain,
               .selected = &selected,
               .num_kv_heads = num_kv_heads_,
               .sel_count = static_cast<std::int64_t>(width_)});
    }
    width_ = 1;
  }

 private:
  std::vector<Lists> layers_;
  std::int64_t num_kv_heads_;
  std::size_t width_ = 1;
};

// The runs of so many tokens that hold a listed one.
std::vector<std::int32_t> runs_of(const TokenList& tokens, std::int64_t run) {
  std::vector<std::int32_t> runs;
  for (const std::int32_t token : tokens) {
    const std::int32_t own = static_cast<std::int32_t>(token / run);
    if (runs.empty() || runs.back() != own) {
      runs.push_back(own);
    }
  }
  return runs;
}

// Over all texts of a point.
struct Totals {
  SharingSum sharing;
  AcceptanceMeasurement acceptance;
  double chosen = 0.0, choices = 0.0;  // blocks, or runs of a step's union; of how many layers
};

PointMeasurement point_of(const PointKey& key, const Totals& totals) {
  PointMeasurement point{.key = key};
  point.stop_reason = "fixed";
  point.sharing = totals.sharing.mean();
  if (totals.choices > 0.0) {
    point.unique_blocks = totals.chosen / totals.choices;
  }
  if (totals.acceptance.steps > 0) {
    point.acceptance = totals.acceptance;
    finish_generated(*point.acceptance);
  }
  double sum = 0.0, count = 0.0;
  for (const BlockSharing& row : point.sharing) {
    if (row.along == SharingAlong::kPosition && row.overlap[1]) {
      sum += *row.overlap[1];
      count += 1.0;
    }
  }
  if (count > 0.0) {
    point.adjacent_overlap = sum / count;
  }
  return point;
}

template <class T>
class SelectionRunner final : public PointRunner {
 public:
  SelectionRunner(const SweepPlan& plan, std::unique_ptr<kernels::Ops<T>> ops,
                  const PairSource& pair)
      : plan_(plan),
        source_(pair),
        ops_(std::move(ops)),
        checkpoint_(load_target(pair.model)),
        head_weights_(head_of(pair.model, checkpoint_.shape)),
        eos_(stop_tokens(pair.model, checkpoint_.special.eos)),
        tokenizer_(load_tokenizer(pair.model, checkpoint_.shape)),
        texts_(pair.prompts, *tokenizer_, pair.model),
        target_(make_target<T>(*ops_, checkpoint_, head_weights_ ? &*head_weights_ : nullptr)) {
    if (head_weights_) {
      head_.emplace(make_draft(*ops_, *head_weights_, target_));
    } else if (is_there(pair.model / "draft")) {
      draft_.emplace(make_target<T>(
          *ops_, load_draft_model(pair.model / "draft", checkpoint_.shape), nullptr));
    }
    prefix_.emplace(*ops_, target_, TextDraft<T>{.model = draft_ ? &*draft_ : nullptr});
    generator_.emplace(*ops_, target_, head_ ? &*head_ : nullptr, draft_ ? &*draft_ : nullptr);
    if (draft_ && has_layer_map(pair.model)) {
      generator_->set_layer_map(
          read_layer_map(pair.model, checkpoint_.shape, draft_->shape().layers).draft_layer);
    }
  }

  PointMeasurement run(const PointKey& key) override {
    const Strategy strategy = Strategy::parse(key.strategy);
    if (const std::string reason = refusal(key, strategy); !reason.empty()) {
      return refused_point(key, reason);
    }
    const std::vector<TextWindow> windows = texts_.windows({.regime = key.regime,
                                                            .split = key.split,
                                                            .context_len = key.context_len,
                                                            .continuation_len = kContinuation,
                                                            .count = plan_.prompts});
    if (windows.empty()) {
      return refused_point(key, no_text_because(key));
    }
    Totals totals;
    if (strategy.attention != AttentionMethod::kDense && key.temperature == 0.0) {
      walk(strategy, windows, totals);
    }
    if (strategy.draft.speculates() && generator_->refusal(options_of(key, strategy)).empty()) {
      for (const TextWindow& window : windows) {
        generator_->prefill(window.prompt);
        add_generated(window.name(), generator_->run(options_of(key, strategy)), totals.acceptance);
      }
    }
    return point_of(key, totals);
  }

 private:
  GenerateOptions options_of(const PointKey& key, const Strategy& strategy) const {
    return {.strategy = strategy,
            .max_new_tokens = plan_.new_tokens,
            .temperature = key.temperature,
            .seed = plan_.seed,
            .eos = eos_};
  }
  // Along the author's own text.
  void walk(const Strategy& strategy, const std::vector<TextWindow>& windows, Totals& totals) {
    for (const TextWindow& window : windows) {
      std::vector<std::int32_t> text = window.prompt;
      const auto end = window.continuation.begin() +
                       std::min(plan_.new_tokens, static_cast<std::int64_t>(kContinuation));
      text.insert(text.end(), window.continuation.begin(), end);
      const std::int64_t start = static_cast<std::int64_t>(window.prompt.size());
      if (strategy.attention == AttentionMethod::kResa) {
        walk_blocks(strategy, text, start, totals);
      } else {
        walk_chains(strategy, text, start, totals);
      }
      prefix_->rewind();
    }
  }
  std::string refusal(const PointKey& key, const Strategy& strategy) const {
    if (std::string other = other_pair_because(key, source_); !other.empty()) {
      return other;
    }
    if (std::string reason = illegal_because(strategy, checkpoint_.shape); !reason.empty()) {
      return reason;
    }
    if (strategy.attention == AttentionMethod::kSpecAttn && !draft_) {
      return "specattn chooses by a draft model's attention, and the folder has none in draft/";
    }
    if (strategy.attention == AttentionMethod::kDense && !strategy.draft.speculates()) {
      return "plain dense attention selects nothing and drafts nothing";
    }
    if (strategy.attention == AttentionMethod::kDense || key.temperature > 0.0) {
      return generator_->refusal(options_of(key, strategy));
    }
    return {};
  }
  void walk_blocks(const Strategy& strategy, const std::vector<std::int32_t>& text,
                   std::int64_t start, Totals& totals);
  void walk_chains(const Strategy& strategy, const std::vector<std::int32_t>& text,
                   std::int64_t start, Totals& totals);
  void add_chain(const DraftAttention<T>& attention, double p, Totals& totals);

  const SweepPlan& plan_;
  const PairSource& source_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  Checkpoint checkpoint_;
  std::optional<DraftCheckpoint> head_weights_;
  std::vector<std::int32_t> eos_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  PromptTexts texts_;
  Target<T> target_;
  std::optional<Draft<T>> head_;
  std::optional<Target<T>> draft_;
  std::optional<HeldPrefix<T>> prefix_;
  std::optional<Generator<T>> generator_;
};

// ReSA: token by token, with its passes, as it decodes.
template <class T>
void SelectionRunner<T>::walk_blocks(const Strategy& strategy,
                                     const std::vector<std::int32_t>& text, std::int64_t start,
                                     Totals& totals) {
  const LlmShape& shape = target_.shape();
  prefix_->hold(std::span(text).first(static_cast<std::size_t>(start)));
  target_.keep_block_keys(strategy.resa_key_block);
  VerifyOptions options = verify_options(strategy, shape);
  options.last_logits_only = true;
  std::optional<Rectifier<T>> rectifier;
  if (strategy.resa_rectify_every > 0) {
    rectifier.emplace(target_, strategy.resa_rectify_every);
  }
  Choices choices(shape.layers, shape.num_kv_heads);
  for (std::size_t at = static_cast<std::size_t>(start); at < text.size(); ++at) {
    target_.verify(chain_tree({text[at]}), options);
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      const std::vector<std::int32_t> blocks = target_.selected_blocks(layer);
      const std::ptrdiff_t own = static_cast<std::ptrdiff_t>(blocks.size()) / shape.num_kv_heads;
      for (auto from = blocks.begin(); from != blocks.end(); from += own) {
        choices.add(layer, {from, from + own});
      }
      totals.chosen += static_cast<double>(own);
      totals.choices += 1.0;
    }
    const std::int32_t path[1] = {0};
    target_.commit(path);
    if (rectifier) {
      rectifier->committed(text[at]);
    }
    if (choices.queries() == kTogether) {
      choices.flush(totals.sharing);
    }
  }
  choices.flush(totals.sharing);
  target_.drop_block_keys();
}

// SpecAttn: the draft decodes the true tokens, a chain after the other.
template <class T>
void SelectionRunner<T>::walk_chains(const Strategy& strategy,
                                     const std::vector<std::int32_t>& text, std::int64_t start,
                                     Totals& totals) {
  const std::vector<std::int32_t> prompt(text.begin(), text.begin() + start);
  prefix_->hold_by_model(prompt);
  const std::int64_t steps = strategy.draft.levels();
  ModelDrafter<T> drafter(*ops_, *draft_, prompt, true);
  drafter.capture_attention(steps);
  std::int64_t known = start - 1;  // the newest position whose token the drafter has
  const std::int64_t length = static_cast<std::int64_t>(text.size());
  for (std::int64_t at = start; at + steps < length; at += steps + 1) {
    drafter.begin(at, {.first = known,
                       .next_token = {text.begin() + known + 1, text.begin() + at + 1},
                       .captured = nullptr,
                       .rows = {}});
    known = at;
    for (std::int64_t i = 1; i < steps; ++i) {
      drafter.step({.token = {text[static_cast<std::size_t>(at + i)]},
                    .position = {static_cast<std::int32_t>(at + i)},
                    .parent = {static_cast<std::int32_t>(i - 2)}});
    }
    add_chain(drafter.attention(), strategy.specattn_p, totals);
  }
}

// Each step's own choice, and the union that a verification reads.
template <class T>
void SelectionRunner<T>::add_chain(const DraftAttention<T>& attention, double p, Totals& totals) {
  const SpecAttnOptions options{.p = p};
  const std::int64_t layers = draft_->shape().layers;
  Choices choices(layers, 1);
  DraftAttention<T> one = attention;
  one.steps = 1;
  for (std::int64_t step = 0; step < attention.steps; ++step) {
    one.weights = attention.weights + step * attention.stride;
    const std::vector<TokenList> chosen = chosen_tokens(*ops_, one, layers, options);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      choices.add(layer, runs_of(chosen[static_cast<std::size_t>(layer)], options.chunk));
    }
  }
  choices.flush(totals.sharing);
  const std::vector<TokenList> all = chosen_tokens(*ops_, attention, layers, options);
  // The first layer's attention is diffuse and speaks for nobody (versieve align).
  for (std::size_t layer = all.size() > 1 ? 1 : 0; layer < all.size(); ++layer) {
    totals.chosen += static_cast<double>(runs_of(all[layer], options.chunk).size());
    totals.choices += 1.0;
  }
}

}  // namespace

bool reads_all_tokens(const PairSource& pair) {
  return read_target_config(pair.model).shape.attention == AttentionKind::kDense;
}

template <class T>
std::unique_ptr<PointRunner> make_selection_runner(const SweepPlan& plan,
                                                   std::unique_ptr<kernels::Ops<T>> ops,
                                                   const PairSource& pair) {
  return std::make_unique<SelectionRunner<T>>(plan, std::move(ops), pair);
}

template std::unique_ptr<PointRunner> make_selection_runner(const SweepPlan&,
                                                            std::unique_ptr<kernels::Ops<float>>,
                                                            const PairSource&);
template std::unique_ptr<PointRunner> make_selection_runner(const SweepPlan&,
                                                            std::unique_ptr<kernels::Ops<Bf16>>,
                                                            const PairSource&);

}  // namespace versieve::engine
