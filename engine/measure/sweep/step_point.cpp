#include "engine/measure/sweep/step_point.h"

#include <algorithm>
#include <optional>

#include "engine/measure/sweep/point_shape.h"
#include "engine/measure/sweep/sweep_ops.h"
#include "engine/measure/sweep/traced_step.h"
#include "engine/run/model/load.h"
#include "engine/run/model/synthetic.h"
#include "engine/run/speculate/device_step.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/prefilled.h"
#include "engine/run/speculate/rectify.h"
#include "engine/run/speculate/self_draft.h"
#include "engine/run/speculate/step.h"
#include "model/launches/draft_levels.h"
#include "model/words/assert.h"
#include "model/words/strategy.h"
#include "profiler/timing.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kRoom = 512;          // cache rows beyond the context, more than any tree
constexpr std::int64_t kSpare = 64;          // of them, beyond a period
constexpr std::int64_t kRecordedRoom = 256;  // of them, what recorded steps may commit
constexpr std::int64_t kPeriods = 3;         // that a period's point times
constexpr double kPeriodsLimit = 2.0;        // seconds, of those
constexpr std::int32_t kToken = 17;          // any token, where no text says which

// Why no step of that strategy is timed, or an empty text: what has no kernel of its own yet would
// be timed as something else.
std::string untimed_because(const Strategy& strategy, const LlmShape& shape) {
  if (strategy.adapts_length) {
    return "gamma=adapt is of whole runs: each of its steps is one of a chain of some length";
  }
  return strategy.drafts_itself ? illegal_because(strategy, shape)
                                : unavailable_because(strategy, shape);
}

template <class T>
class StepRunnerPoint final : public StepPointRunner {
 public:
  StepRunnerPoint(const SweepPlan& plan, Instrument& instrument, bool on_gpu, int threads,
                  const PairSource* source)
      : plan_(plan),
        source_pair_(source),
        instrument_(instrument),
        ops_(make_sweep_ops<T>(on_gpu, instrument.stream(), threads)) {}

  PointMeasurement run(const PointKey& key) override {
    detail_ = {};
    const std::string reason = make_ready(key, /*drafts=*/true);
    return reason.empty() ? measure(key) : refused_point(key, reason);
  }

  StepDetail take_detail() override { return std::exchange(detail_, {}); }

  PointMeasurement run_verification(const PointKey& key) override {
    const std::string reason = make_ready(key, /*drafts=*/false);
    if (!reason.empty()) {
      return refused_point(key, reason);
    }
    PointMeasurement point{.key = key};
    const auto sample_ns = [this] {
      return recorded_ ? profiler::host_time_ns([this] { recorded_step(); })
                       : led_verification_ns();
    };
    const profiler::TimingResult time = profiler::collect_samples(sample_ns, plan_.timing);
    finish_recorded();
    point.time_ns = time.samples_ns;
    point.stop_reason = time.stop_reason;
    return point;
  }

 private:
  // Everything for steps of that key, or why there are none.
  std::string make_ready(const PointKey& key, bool drafts);
  std::string prepare(const LlmShape& shape, const PointKey& key);
  void make_models(const LlmShape& shape, const PointKey& key);
  void fill_randomly(std::int64_t context_len);
  std::string prefill_text(const PointKey& key);
  void make_source(const Strategy& strategy, double temperature);
  Draft<T>* head() { return draft_ ? &*draft_ : nullptr; }
  std::string make_recorded(const PointKey& key, const Strategy& strategy, bool drafts);
  std::string make_self_drafts(const Strategy& strategy);
  StepResult step(TreeSource<T>& source, bool measures_blocks);
  double led_verification_ns();
  void finish_recorded();
  void begin_recorded();
  void recorded_step();
  void begin(DeviceStepRunner<T>& runner);
  void step_by_launches(DeviceStepRunner<T>& runner);
  void period();
  void pass();
  PointMeasurement measure(const PointKey& key);

  const SweepPlan& plan_;
  const PairSource* source_pair_;
  Instrument& instrument_;
  std::unique_ptr<kernels::Ops<T>> ops_;
  std::optional<LoadedPair> pair_;  // of the points of a trained pair
  std::string model_;
  std::int64_t context_len_ = 0;
  std::string text_;             // regime and split of a prefilled context
  std::int32_t token_ = kToken;  // that follows the context
  std::optional<Target<T>> target_;
  std::optional<Draft<T>> draft_;  // of a dense pair there may be none
  std::optional<StepRunner<T>> runner_;
  kernels::OpsBuffer<T> captured_;  // [3 * hidden]: what the newest token left for the draft
  std::unique_ptr<TreeSource<T>> source_;
  std::optional<DeviceStepRunner<T>> recorded_;
  // Of a target that drafts for itself, as generation runs it: recorded steps draft, the host leads
  // what verifies them.
  std::optional<DeviceStepRunner<T>> self_drafts_;
  std::unique_ptr<TreeSource<T>> timed_source_;
  // What trace and counters watch in the place of a step that the host leads: one whose draft runs
  // all levels in one launch, which no host-led step has.
  std::optional<DeviceStepRunner<T>> watched_;
  std::optional<DeviceStepRunner<T>> led_;  // recorded steps by launches, for a trace
  std::optional<Rectifier<T>> rectifier_;   // of points of a whole period
  StepOptions options_;
  StepDetail detail_;
};

template <class T>
std::string StepRunnerPoint<T>::make_ready(const PointKey& key, bool drafts) {
  const Strategy strategy = Strategy::parse(key.strategy);
  if (!key.pair.empty()) {
    VERSIEVE_ASSERT(source_pair_ != nullptr, "a campaign of a pair's points has the pair");
    if (const std::string other = other_pair_because(key, *source_pair_); !other.empty()) {
      return other;
    }
    if (!pair_) {
      pair_.emplace(*source_pair_);
    }
  }
  const LlmShape shape =
      key.pair.empty() ? named_llm_shape(key.model) : shape_for(strategy, pair_->target.shape);
  std::string refusal = untimed_because(strategy, shape);
  if (refusal.empty() && !key.pair.empty() && strategy.draft.speculates() &&
      !strategy.drafts_itself && !pair_->draft) {
    refusal = "steps are timed of draft heads, and the pair has none";
  }
  refusal = refusal.empty() ? prepare(shape, key) : refusal;
  if (!refusal.empty()) {
    return refusal;
  }
  target_->keep_choice_keys(strategy.drafts_itself ? drafting_options(strategy, shape)
                                                   : verify_options(strategy, shape));
  make_source(strategy, key.temperature);
  options_ = {.verify = verify_options(strategy, shape),
              .acceptance = {.temperature = key.temperature,
                             .seed = plan_.seed,
                             .sampling = strategy.sampling.value_or(SamplingAlgorithm::kCoupled)},
              .forced_yield = kCommittedNodes};
  return strategy.drafts_itself && key.launch == LaunchMode::kGraph
             ? make_self_drafts(strategy)
             : make_recorded(key, strategy, drafts);
}

// The recorded steps of a point that asks for some, or why there are none.
template <class T>
std::string StepRunnerPoint<T>::make_recorded(const PointKey& key, const Strategy& strategy,
                                              bool drafts) {
  const bool rectifies = key.workload == WorkloadKind::kRectifiedStep;
  if (rectifies && strategy.resa_rectify_every > kRoom - kSpare) {
    return "a period of more than " + std::to_string(kRoom - kSpare) + " tokens";
  }
  if (key.launch == LaunchMode::kGraph && is_led_by_host(strategy, key.temperature)) {
    return "its sampler reads random numbers from the host, which leads the step (launch "
           "\"stream\" can be measured)";
  }
  if (key.launch != LaunchMode::kGraph) {
    return rectifies ? "a period's steps are recorded: launch \"graph\"" : "";
  }
  DeviceStepOptions steps{.choice = strategy.draft,
                          .order = strategy.order,
                          .verify = options_.verify,
                          .temperature = key.temperature,
                          .scores_by_rank = true,
                          .forced_yield = kCommittedNodes,
                          .drafts = drafts};
  const std::string reason = DeviceStepRunner<T>::refusal(*target_, steps, context_len_ + kRoom);
  if (!reason.empty()) {
    return reason + " (launch \"stream\" can be measured)";
  }
  recorded_.emplace(*ops_, *target_, head(), steps);
  steps.records = false;
  if (drafts && draft_ && std::is_same_v<T, Bf16> && key.temperature == 0.0 &&
      drafts_in_one_launch(draft_->shape(), target_->shape().vocab, strategy.draft)) {
    watched_.emplace(*ops_, *target_, head(), steps);
  } else if (drafts && !rectifies) {
    led_.emplace(*ops_, *target_, head(), steps);
  }
  if (rectifies) {
    rectifier_.emplace(*target_, strategy.resa_rectify_every);
    rectifier_->reserve();
  }
  return {};
}

template <class T>
std::string StepRunnerPoint<T>::make_self_drafts(const Strategy& strategy) {
  const DeviceStepOptions steps{.verify = drafting_options(strategy, target_->shape())};
  const std::string reason = DeviceStepRunner<T>::refusal(*target_, steps, context_len_ + kRoom);
  if (!reason.empty()) {
    return reason + " (launch \"stream\" can be measured)";
  }
  self_drafts_.emplace(*ops_, *target_, head(), steps);
  timed_source_ = std::make_unique<RecordedSelfSource<T>>(
      *target_, *self_drafts_,
      typename DeviceStepRunner<T>::Start{.max_context = context_len_ + kRecordedRoom},
      strategy.draft.levels());
  return {};
}

// The model stays from point to point, the context as long as its length (and a pair's text) does.
// Why there is no such context, or an empty text.
template <class T>
std::string StepRunnerPoint<T>::prepare(const LlmShape& shape, const PointKey& key) {
  source_.reset();
  timed_source_.reset();
  self_drafts_.reset();
  rectifier_.reset();
  recorded_.reset();
  watched_.reset();
  led_.reset();
  const std::string model = model_of(key) + "/" + shape.name;
  if (model_ != model) {
    make_models(shape, key);
    model_ = model;
    context_len_ = 0;
  }
  const std::string text = key.regime + "/" + key.split;
  if (context_len_ == key.context_len && text_ == text) {
    return {};
  }
  context_len_ = 0;
  target_->cache().truncate(0);
  target_->cache().reserve(key.context_len + kRoom);
  if (draft_) {
    draft_->reserve(key.context_len + kRoom);
  }
  if (key.pair.empty()) {
    fill_randomly(key.context_len);
  } else if (std::string reason = prefill_text(key); !reason.empty()) {
    return reason;
  }
  context_len_ = key.context_len;
  text_ = text;
  return {};
}

template <class T>
void StepRunnerPoint<T>::make_models(const LlmShape& shape, const PointKey& key) {
  runner_.reset();
  draft_.reset();
  target_.reset();
  model_.clear();
  if (key.pair.empty()) {
    const DraftShape draft = draft_shape_for(shape);
    target_.emplace(make_synthetic_target<T>(*ops_, shape, draft, plan_.seed));
    draft_.emplace(make_synthetic_draft<T>(*ops_, draft, *target_, plan_.seed + 1));
  } else {
    const DraftCheckpoint* const weights = pair_->draft ? &*pair_->draft : nullptr;
    target_.emplace(make_target(*ops_, pair_->target, shape, weights));
    if (weights != nullptr) {
      draft_.emplace(make_draft(*ops_, *weights, *target_));
    }
  }
  runner_.emplace(*ops_, *target_);
  captured_ =
      kernels::OpsBuffer<T>(*ops_, std::vector<T>(static_cast<std::size_t>(3 * shape.hidden), T{}));
}

template <class T>
void StepRunnerPoint<T>::fill_randomly(std::int64_t context_len) {
  fill_context(*ops_, *target_, context_len, plan_.seed + 2);
  fill_context(*ops_, *draft_, context_len, plan_.seed + 3);
  ops_->synchronize();
  token_ = kToken;
}

// Of a chat the next token is any.
template <class T>
std::string StepRunnerPoint<T>::prefill_text(const PointKey& key) {
  const std::vector<TextWindow> windows = pair_->texts.windows({.regime = key.regime,
                                                                .split = key.split,
                                                                .context_len = key.context_len,
                                                                .continuation_len = kContinuation,
                                                                .count = 1});
  if (windows.empty() || static_cast<std::int64_t>(windows[0].prompt.size()) != key.context_len) {
    return no_text_because(key);
  }
  Prefilled<T> prefilled(*ops_, *target_, head(), nullptr);
  prefilled.prefill(windows[0].prompt);
  if (draft_) {
    ops_->copy_rows({.rows = 1,
                     .width = 3 * target_->shape().hidden,
                     .src = prefilled.last_captured(),
                     .dst = captured_.data(),
                     .term = TrafficTerm::kDraft});
  }
  ops_->synchronize();
  token_ = windows[0].continuation.empty() ? kToken : windows[0].continuation[0];
  return {};
}

template <class T>
void StepRunnerPoint<T>::make_source(const Strategy& strategy, double temperature) {
  if (!strategy.draft.speculates()) {
    source_ = std::make_unique<NoDraft<T>>();
    return;
  }
  const DraftSourceOptions options{
      .choice = strategy.draft,
      .order = strategy.order,
      .temperature = temperature,
      .seed = plan_.seed,
      .sampling = strategy.sampling.value_or(SamplingAlgorithm::kCoupled),
      .scores_by_rank = true,
      .target_vocab = target_->shape().vocab};
  if (strategy.drafts_itself) {
    source_ = std::make_unique<SelfSource<T>>(
        *ops_, *target_, drafting_options(strategy, target_->shape()), options);
    return;
  }
  source_ = std::make_unique<DraftSource<T>>(*ops_, *draft_, options);
}

// One step from the same context each time; what the last one committed is forgotten first.
template <class T>
StepResult StepRunnerPoint<T>::step(TreeSource<T>& source, bool measures_blocks) {
  finish_recorded();
  target_->cache().truncate(context_len_);
  if (draft_) {
    draft_->set_length(context_len_);
  }
  source.observe({.first = context_len_ - 1,
                  .next_token = {token_},
                  .captured = captured_.data(),
                  .rows = {0}});
  StepOptions options = options_;
  options.measures_blocks = measures_blocks;
  return runner_->run(source, token_, options);
}

template <class T>
double StepRunnerPoint<T>::led_verification_ns() {
  const PhaseSeconds seconds = step(timed_source_ ? *timed_source_ : *source_, false).seconds;
  double ns = 0.0;
  for (const StepPhase phase : {StepPhase::kVerify, StepPhase::kAccept, StepPhase::kCommit}) {
    ns += 1e9 * seconds[static_cast<std::size_t>(phase)];
  }
  return ns;
}

template <class T>
void StepRunnerPoint<T>::finish_recorded() {
  while (recorded_ && recorded_->pending() > 0) {
    recorded_->wait();
  }
}

template <class T>
void StepRunnerPoint<T>::begin_recorded() {
  finish_recorded();
  begin(*recorded_);
  recorded_->launch();
}

template <class T>
void StepRunnerPoint<T>::begin(DeviceStepRunner<T>& runner) {
  const std::int64_t period = rectifier_ ? rectifier_->steps_left() : 0;
  runner.begin({.context_len = context_len_,
                .token = token_,
                .captured = captured_.data(),
                .max_context = context_len_ + std::max(kRecordedRoom, period),
                .seed = plan_.seed});
}

// Of a runner that was begun before anybody watches; the few that are watched find room.
template <class T>
void StepRunnerPoint<T>::step_by_launches(DeviceStepRunner<T>& runner) {
  finish_recorded();
  runner.launch();
  runner.wait();
}

// The steady state of generation: one more step is enqueued, then the oldest is waited for. Each
// begins where the last one ended, until the room is used up.
template <class T>
void StepRunnerPoint<T>::recorded_step() {
  if (recorded_->pending() == 0 || !recorded_->can_launch()) {
    begin_recorded();
  }
  recorded_->launch();
  recorded_->wait();
}

// f recorded steps and the pass that ends them, as generation runs them: one step is enqueued while
// another runs, none beyond the pass.
template <class T>
void StepRunnerPoint<T>::period() {
  finish_recorded();
  target_->cache().set_length(context_len_);
  begin(*recorded_);
  for (bool over = false; !over;) {
    const std::int64_t left = rectifier_->steps_left();
    while (recorded_->pending() < std::min<std::int64_t>(2, left)) {
      recorded_->launch();
    }
    const std::int32_t token = recorded_->wait().token[0];
    target_->cache().set_length(recorded_->length());
    over = rectifier_->committed(token);
  }
  ops_->synchronize();
}

// The pass alone, over rows that any token may have left.
template <class T>
void StepRunnerPoint<T>::pass() {
  finish_recorded();
  target_->cache().set_length(context_len_ + rectifier_->steps_left());
  while (!rectifier_->committed(token_)) {
  }
}

template <class T>
PointMeasurement StepRunnerPoint<T>::measure(const PointKey& key) {
  const StepResult first = step(*source_, true);
  VERSIEVE_ASSERT(first.tree.size() == key.num_queries, "a tree scored by rank has all its nodes");
  PointMeasurement point{.key = key};
  add_block_statistics(first, point);
  if (watched_) {
    begin(*watched_);
  }
  RepeatableWork work = work_on<T>(*ops_, 1, [this](std::int64_t) {
    if (rectifier_) {
      pass();
    } else if (watched_) {
      step_by_launches(*watched_);
    } else {
      step(*source_, false);
    }
  });
  work.host_timed = true;
  if (key.workload == WorkloadKind::kStep) {
    detail_.choice =
        block_choice(first, Strategy::parse(key.strategy), target_->shape().num_kv_heads);
    work.on_trace = [this](StepTrace trace) { detail_.trace = std::move(trace); };
    if (led_) {
      work.run_led = [this] {
        begin(*led_);
        step_by_launches(*led_);
      };
    }
  }
  if (recorded_) {
    work.run_timed = [this] { recorded_step(); };
  } else if (timed_source_) {
    work.run_timed = [this] { step(*timed_source_, false); };
  }
  MeasurePlan how = measure_plan(plan_, key);
  if (rectifier_) {
    work.run_timed = [this] { period(); };
    work.timed_runs = Strategy::parse(key.strategy).resa_rectify_every;
    how.timing.stop.min_samples = std::min(how.timing.stop.min_samples, kPeriods);
    how.timing.stop.max_samples = kPeriods;
    how.timing.stop.time_limit_s = std::max(how.timing.stop.time_limit_s, kPeriodsLimit);
  }
  instrument_.measure(work, how, point);
  return point;
}

}  // namespace

template <class T>
std::unique_ptr<StepPointRunner> make_step_runner(const SweepPlan& plan, Instrument& instrument,
                                                  bool on_gpu, int threads,
                                                  const PairSource* pair) {
  return std::make_unique<StepRunnerPoint<T>>(plan, instrument, on_gpu, threads, pair);
}

template std::unique_ptr<StepPointRunner> make_step_runner<float>(const SweepPlan&, Instrument&,
                                                                  bool, int, const PairSource*);
template std::unique_ptr<StepPointRunner> make_step_runner<Bf16>(const SweepPlan&, Instrument&,
                                                                 bool, int, const PairSource*);

}  // namespace versieve::engine
