#include "engine/measure/sweep/acceptance_point.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "engine/measure/sweep/selection_point.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "engine/measure/sweep/text_yields.h"
#include "engine/run/model/load.h"
#include "engine/run/speculate/block_sharing.h"
#include "engine/run/speculate/generate.h"
#include "model/cost/acceptance.h"
#include "model/words/strategy.h"

namespace versieve::engine {
namespace {

// A model with a prefilled prompt of its own, so that the strategies of one context share it.
template <class T>
struct Reader {
  Reader(kernels::Ops<T>& ops, const Checkpoint& checkpoint, const DraftCheckpoint& draft_weights)
      : target(make_target(ops, checkpoint, &draft_weights)),
        draft(make_draft(ops, draft_weights, target)),
        generator(ops, target, &draft) {}

  Target<T> target;
  Draft<T> draft;
  Generator<T> generator;
  TextWindow window;

  bool has_continuation() const { return !window.continuation.empty(); }
};

// Sums over prompts and steps, until they become a point.
struct Totals {
  AcceptanceMeasurement acceptance;
  double overlap = 0.0;
  std::int64_t overlap_steps = 0;
  double unique_blocks = 0.0;
  std::int64_t block_steps = 0;  // steps x layers
  double forced_tokens = 0.0;
  std::int64_t forced_steps = 0;
  SharingSum sharing;
};

void add_blocks(const Generation& run, Totals& totals) {
  for (const LayerOverlap& layer : run.overlap) {
    totals.overlap += layer.adjacent_overlap * static_cast<double>(layer.overlap_steps);
    totals.overlap_steps += layer.overlap_steps;
    totals.unique_blocks += layer.unique_blocks * static_cast<double>(run.steps);
    totals.block_steps += run.steps;
  }
}

PointMeasurement point_of(const PointKey& key, const Totals& totals) {
  PointMeasurement point{.key = key};
  point.stop_reason = "fixed";
  point.acceptance = totals.acceptance;
  finish_generated(*point.acceptance);
  if (totals.forced_steps > 0) {
    point.acceptance->teacher_forced =
        totals.forced_tokens / static_cast<double>(totals.forced_steps);
  }
  if (totals.overlap_steps > 0) {
    point.adjacent_overlap = totals.overlap / static_cast<double>(totals.overlap_steps);
  }
  if (totals.block_steps > 0) {
    point.unique_blocks = totals.unique_blocks / static_cast<double>(totals.block_steps);
  }
  point.sharing = totals.sharing.mean();
  return point;
}

SharingStep sharing_step(const StepResult& step, const Strategy& strategy, const LlmShape& shape) {
  return {.tree = &step.tree,
          .selected = &step.selected,
          .num_kv_heads = shape.num_kv_heads,
          .sel_count = shape.nsa.sel_count,
          .order = strategy.order,
          .own_choices = approximate_group(strategy) == 1};
}

template <class T>
class AcceptanceRunner final : public PointRunner {
 public:
  AcceptanceRunner(const SweepPlan& plan, std::unique_ptr<kernels::Ops<T>> ops,
                   const PairSource& pair)
      : plan_(plan), source_(pair), ops_(std::move(ops)), pair_(pair) {}

  PointMeasurement run(const PointKey& key) override {
    if (const std::string other = other_pair_because(key, source_); !other.empty()) {
      return refused_point(key, other);
    }
    GenerateOptions options{.strategy = Strategy::parse(key.strategy),
                            .max_new_tokens = plan_.new_tokens,
                            .temperature = key.temperature,
                            .seed = plan_.seed,
                            .measures_blocks = true};
    prepare(key);
    if (used_ == 0) {
      return refused_point(key, no_text_because(key));
    }
    const std::string refusal = readers_.front().generator.refusal(options);
    return refusal.empty() ? measure(key, options) : refused_point(key, refusal);
  }

 private:
  void prepare(const PointKey& key);
  PointMeasurement measure(const PointKey& key, const GenerateOptions& options);
  void generate(Reader<T>& reader, GenerateOptions options, bool with_blocks, Totals& totals);
  void walk(Reader<T>& reader, GenerateOptions options, Totals& totals);

  const SweepPlan& plan_;
  const PairSource& source_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  LoadedPair pair_;
  std::deque<Reader<T>> readers_;  // a reader's parts point at each other: it never moves
  std::ptrdiff_t used_ = 0;        // readers that hold a prompt of the current text
  std::string current_;            // regime, split and context of those
};

template <class T>
void AcceptanceRunner<T>::prepare(const PointKey& key) {
  const std::string wanted = key.regime + "/" + key.split + "/" + std::to_string(key.context_len);
  if (wanted == current_) {
    return;
  }
  current_.clear();
  const std::vector<TextWindow> windows = pair_.texts.windows({.regime = key.regime,
                                                               .split = key.split,
                                                               .context_len = key.context_len,
                                                               .continuation_len = kContinuation,
                                                               .count = plan_.prompts,
                                                               .as_prompts = true});
  used_ = static_cast<std::ptrdiff_t>(windows.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (i == readers_.size()) {
      readers_.emplace_back(*ops_, pair_.target, *pair_.draft);
    }
    readers_[i].window = windows[i];
    readers_[i].generator.prefill(readers_[i].window.prompt);
  }
  current_ = wanted;
}

// Decoding walks the model's own text, whatever it is: loops are counted, and marked. An author's
// text is nothing that the pair samples, and what queries share is known from greedy points.
template <class T>
PointMeasurement AcceptanceRunner<T>::measure(const PointKey& key, const GenerateOptions& options) {
  Totals totals;
  std::int64_t walked = 0;
  const bool anyone_walks =
      plan_.walks > 0 && options.temperature == 0.0 &&
      std::any_of(readers_.begin(), readers_.begin() + used_,
                  [](const Reader<T>& reader) { return reader.has_continuation(); });
  for (auto reader = readers_.begin(); reader != readers_.begin() + used_; ++reader) {
    const bool with_blocks = !anyone_walks && options.temperature == 0.0;
    generate(*reader, options, with_blocks, totals);
    if (anyone_walks && reader->has_continuation() && walked < plan_.walks) {
      walk(*reader, options, totals);
      ++walked;
    }
  }
  return point_of(key, totals);
}

// `with_blocks`: what its queries share, where no text is walked along.
template <class T>
void AcceptanceRunner<T>::generate(Reader<T>& reader, GenerateOptions options, bool with_blocks,
                                   Totals& totals) {
  options.measures_blocks = with_blocks;
  options.records_steps = options.temperature > 0.0;
  options.eos = pair_.eos;
  const LlmShape& shape = reader.target.shape();
  if (with_blocks) {
    options.on_step = [&](const StepResult& step) {
      totals.sharing.add(sharing_step(step, options.strategy, shape));
    };
  }
  const Generation generated = reader.generator.run(options);
  add_generated(reader.window.name(), generated, totals.acceptance);
  if (with_blocks) {
    add_blocks(generated, totals);
  }
}

template <class T>
void AcceptanceRunner<T>::walk(Reader<T>& reader, GenerateOptions options, Totals& totals) {
  AcceptanceWalk& walk = totals.acceptance.walks.emplace_back();
  walk.text = reader.window.name();
  const LlmShape& shape = reader.target.shape();
  options.on_step = [&](const StepResult& step) {
    walk.yields.push_back(step.acceptance.yield());
    totals.sharing.add(sharing_step(step, options.strategy, shape));
  };
  const Generation forced = reader.generator.teacher_forced(options, reader.window.continuation);
  add_blocks(forced, totals);
  totals.forced_tokens += forced.accepted_per_step() * static_cast<double>(forced.steps);
  totals.forced_steps += forced.steps;
}

}  // namespace

template <class T>
std::unique_ptr<PointRunner> make_acceptance_runner(const SweepPlan& plan, Instrument& instrument,
                                                    bool on_gpu, int threads,
                                                    const PairSource& pair) {
  std::unique_ptr<kernels::Ops<T>> ops = make_sweep_ops<T>(on_gpu, instrument.stream(), threads);
  if (reads_all_tokens(pair)) {
    return make_selection_runner<T>(plan, std::move(ops), pair);
  }
  return std::make_unique<AcceptanceRunner<T>>(plan, std::move(ops), pair);
}

template std::unique_ptr<PointRunner> make_acceptance_runner<float>(const SweepPlan&, Instrument&,
                                                                    bool, int, const PairSource&);
template std::unique_ptr<PointRunner> make_acceptance_runner<Bf16>(const SweepPlan&, Instrument&,
                                                                   bool, int, const PairSource&);

}  // namespace versieve::engine
