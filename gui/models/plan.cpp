#include "gui/models/plan.h"

#include <algorithm>
#include <iterator>

#include "db/evidence.h"
#include "engine/analyse/fit/acceptance_fit.h"
#include "engine/analyse/fit/stored_fit.h"
#include "engine/analyse/plan/given_schedules.h"
#include "engine/analyse/plan/hardware_file.h"
#include "engine/analyse/plan/prefill_file.h"
#include "engine/io/pair_identity.h"
#include "model/plan/concurrency.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr const char* kGeometries[] = {"nsa-1b", "nsa-8b", "demo"};

// A database without a measured pair is planned with an imported one, else with a rate that the
// page says is assumed.
AcceptanceChoice other_acceptance(const std::vector<PointMeasurement>& points, double temperature) {
  const std::vector<engine::AcceptancePair> pairs = engine::acceptance_pairs(points, temperature);
  return pairs.empty() ? AcceptanceChoice{.pair = {}, .rate = kFirstAssumedRate}
                       : AcceptanceChoice{.pair = pairs.front().name, .rate = {}};
}

AcceptanceModel chosen_acceptance(const std::vector<PointMeasurement>& points,
                                  const AcceptanceChoice& choice, const AcceptanceModel& own,
                                  double temperature) {
  return choice.rate ? engine::assumed_acceptance(*choice.rate, own)
                     : engine::fit_acceptance_of(points, choice.pair, own, temperature);
}

std::shared_ptr<const engine::FitReport> fit(const db::Evidence& evidence, const FittedModel* prior,
                                             FitWatch& watch) {
  const engine::GoesOn goes_on = [&watch](double share) {
    watch.share = share;
    watch.fits = true;
    return !watch.ends;
  };
  const engine::FitInputs inputs{evidence.points, evidence.device,
                                 *hardware_for_device(evidence.device), evidence.runs};
  return std::make_shared<engine::FitReport>(
      engine::stored_or_new_fit(evidence.database, inputs,
                                {.leave_out_regimes = false,
                                 .prior = prior,
                                 .left_out = &evidence.left_out,
                                 .goes_on = &goes_on}));
}

// Classes that cannot be priced are planned too: their cells say why.
PlanOptions all_classes() {
  PlanOptions options;
  options.classes.clear();
  for (int i = 0; i < kPrecisionClassCount; ++i) {
    options.classes.push_back(static_cast<PrecisionClass>(i));
  }
  return options;
}

// `prompts`: what the scope's file says.
PlanOptions options_of(const PlanScope& scope, const LlmShape& target,
                       const std::optional<PromptTimes>& prompts) {
  PlanOptions options = all_classes();
  if (!scope.buckets.empty()) {
    options.buckets = parse_buckets(scope.buckets);
  }
  if (!scope.baseline.empty()) {
    options.baseline = Strategy::parse(scope.baseline).text();
  }
  options.schedules = engine::planned_schedules(scope.schedules, target);
  options.systems = engine::planned_systems(scope.systems);
  options.requests = scope.requests.value_or(options.requests);
  if (!scope.concurrency.empty()) {
    options.concurrency = parse_concurrency(scope.concurrency);
  }
  options.aims = {.objective = scope.objective,
                  .itl_ms = scope.itl_ms,
                  .ttft_ms = scope.ttft_ms,
                  .prompts = prompts};
  return options;
}

// The pairs whose steps were timed most, then the others, then the geometries; the first is what a
// plan is for where nobody chooses.
std::vector<ModelChoice> model_choices(const db::Store& store,
                                       const std::vector<engine::KeptPair>& kept) {
  std::vector<std::string> timed;
  for (const db::TimedPair& pair : db::timed_pairs(store, "")) {
    timed.push_back(pair.pair);
  }
  const std::string usual = engine::usual_model(timed, kept);
  const auto place = [&](const engine::KeptPair& pair) {
    return std::find(timed.begin(), timed.end(), pair.id.sha256);
  };
  std::vector<engine::KeptPair> pairs = kept;
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  std::vector<ModelChoice> choices;
  for (const engine::KeptPair& pair : pairs) {
    const bool shares_name = std::count_if(pairs.begin(), pairs.end(), [&](const auto& other) {
                               return other.id.name == pair.id.name;
                             }) > 1;
    choices.push_back({pair.id.sha256, shares_name ? text_of(pair.id) : pair.id.name, true});
  }
  for (const char* geometry : kGeometries) {
    choices.push_back({geometry, geometry + std::string(" (geometry)"), false});
  }
  std::stable_partition(choices.begin(), choices.end(),
                        [&](const ModelChoice& choice) { return choice.name == usual; });
  return choices;
}

std::shared_ptr<Plan> read_plan(const Snapshot& snapshot, const FittedModel* prior,
                                FitWatch& watch) {
  std::shared_ptr<Plan> plan = std::make_shared<Plan>();
  const db::Store store = db::Store::open(snapshot.path.toStdString(), db::OpenMode::kReadOnly);
  const db::Evidence evidence = db::evidence_of(store, db::fitted_device(store, "", ""));
  std::vector<PointMeasurement> acceptance;
  std::copy_if(
      evidence.points.begin(), evidence.points.end(), std::back_inserter(acceptance),
      [](const PointMeasurement& m) { return m.key.workload == WorkloadKind::kAcceptance; });
  plan->pairs = engine::acceptance_pairs(acceptance);
  plan->acceptance = std::make_shared<const std::vector<PointMeasurement>>(std::move(acceptance));
  plan->kept = engine::kept_pairs(db::run_configurations(store));
  plan->models = model_choices(store, plan->kept);
  plan->fit = fit(evidence, prior, watch);
  return plan;
}

engine::PlanGrounds grounds_of(const db::Store& store, const engine::PairShape& shape,
                               const std::string& device) {
  engine::PlanGrounds grounds{.shape = shape,
                              .known = {},
                              .borrowed = {},
                              .quality = db::quality_points(store),
                              .dense = {},
                              .calibrated = {},
                              .chains = db::chain_points(store)};
  if (!shape.is_pair()) {
    grounds.known.lent_shares = engine::lent_shares_of("", db::kept_quality(store), store.path());
    return grounds;
  }
  grounds.known = engine::identified(shape);
  if (const std::string hash = grounds.known.id->sha256; !hash.empty()) {
    grounds.known =
        engine::known_of(db::evidence_of_pair(store, *grounds.known.id, device), store.path());
    grounds.dense = engine::dense_model_of(hash, db::quality_configurations(store));
    grounds.calibrated = engine::calibrated_on(hash, db::kept_calibrations(store), store.path());
  }
  return grounds;
}

engine::ChosenOptions chosen_in(const PlanScope& scope) {
  return {.buckets = !scope.buckets.empty(),
          .classes = true,
          .schedules = !scope.schedules.empty(),
          .baseline = !scope.baseline.empty()};
}

// Throws Error(kBadInput) where the file says nothing of prompts, Error(kUsage) for a bound without
// one.
std::optional<PromptTimes> prompts_of(const PlanScope& scope,
                                      const std::optional<RunRecord>& newest) {
  if (scope.prefill.empty()) {
    if (scope.ttft_ms) {
      throw Error(ExitCode::kUsage,
                  "a bound to the first token needs how long prompts take: a file of bench prefill "
                  "--out");
    }
    return std::nullopt;
  }
  PromptTimes prompts = engine::read_prompt_times(scope.prefill);
  engine::date_against(newest, prompts);
  return prompts;
}

// Of a dense target. `fit`: with the tokens a step that count.
PlanOptions options_with(const PlanBasis& basis, const FittedModel& fit, const DraftShape& draft,
                         const std::optional<double>& max_loss) {
  engine::PlanGrounds grounds = basis.grounds;
  grounds.shape.draft = draft;
  PlanOptions options = options_of(basis.scope, grounds.shape.target, basis.prompts);
  options.loss.most_nats = max_loss;
  return engine::follow_pair(grounds, fit, chosen_in(basis.scope), std::move(options));
}

FittedModel with_tokens_of(FittedModel fit, const AcceptanceModel& acceptance) {
  fit.acceptance = acceptance;
  return fit;
}

PlanTable dense_plan(const PlanBasis& basis, const HardwareSpec& machine,
                     const AcceptanceModel& acceptance, const DraftShape& draft,
                     const std::optional<double>& max_loss) {
  const FittedModel fit = with_tokens_of(basis.fit, acceptance);
  return plan(fit, machine, basis.grounds.shape.target, options_with(basis, fit, draft, max_loss));
}

std::shared_ptr<const PlanBasis> basis_of(const Snapshot& snapshot, const Plan& plan,
                                          const std::string& model, const PlanScope& scope,
                                          bool names_acceptance) {
  const db::Store store = db::Store::open(snapshot.path.toStdString(), db::OpenMode::kReadOnly);
  std::shared_ptr<PlanBasis> basis = std::make_shared<PlanBasis>();
  basis->model = model;
  basis->scope = scope;
  basis->fit = plan.fit->model;
  basis->fit.temperature = scope.temperature;
  basis->prompts = prompts_of(scope, db::newest_run(store, basis->fit.device));
  const engine::PairShape shape = engine::pair_shape(model, {}, plan.kept, store.path());
  basis->grounds = grounds_of(store, shape, basis->fit.device);
  basis->grounds.unused =
      engine::use_pair(basis->grounds.known, basis->grounds.shape, basis->grounds.borrowed,
                       names_acceptance, basis->fit, scope.temperature);
  if (scope.temperature > 0.0 && !shape.is_pair() && !names_acceptance) {
    engine::use_sampled(*plan.acceptance, store.path(), scope.temperature, basis->fit);
  }
  if (basis->fit.acceptance.positional.empty()) {
    basis->fallback = other_acceptance(*plan.acceptance, scope.temperature);
    basis->fit.acceptance =
        chosen_acceptance(*plan.acceptance, basis->fallback, {}, scope.temperature);
  }
  engine::ChosenOptions chosen = chosen_in(scope);
  chosen.classes = false;
  const PlanOptions options = options_of(scope, basis->grounds.shape.target, basis->prompts);
  basis->classes = engine::follow_pair(basis->grounds, basis->fit, chosen, options).classes;
  const HardwareSpec& machine = hardware_by_key(basis->fit.hardware_key);
  if (shape.target.attention == AttentionKind::kDense) {
    basis->own = dense_plan(*basis, machine, basis->fit.acceptance, basis->grounds.shape.draft, {});
    return basis;
  }
  basis->replanner = std::make_unique<const Replanner>(
      basis->fit, basis->grounds.shape.target,
      engine::follow_pair(basis->grounds, basis->fit, chosen_in(scope), options));
  basis->own = basis->replanner->plan_on(machine, *basis->terms);
  return basis;
}

// A folder that was planned for can be chosen again.
void add_folder(const std::string& model, std::vector<ModelChoice>& models) {
  if (std::none_of(models.begin(), models.end(),
                   [&](const ModelChoice& choice) { return choice.name == model; })) {
    models.push_back({model, engine::pair_name(model) + " (" + model + ")", true});
  }
}

AcceptanceModel acceptance_of(const Plan& plan, const AcceptanceChoice& choice) {
  const AcceptanceModel& own = plan.basis->fit.acceptance;
  return choice.isOwn()
             ? own
             : chosen_acceptance(*plan.acceptance, choice, own, plan.basis->scope.temperature);
}

bool has_own_draft(const Plan& plan) {
  return plan.draft.vocab == plan.own_draft().vocab;
}

// Those of the basis, of the plan before, or new ones.
std::shared_ptr<Replanner::PairTerms> terms_of(const Plan& plan, const Plan* earlier) {
  if (plan.choice.isOwn() && has_own_draft(plan)) {
    return plan.basis->terms;
  }
  const bool is_same = earlier != nullptr && earlier->basis == plan.basis &&
                       earlier->choice == plan.choice && earlier->draft.vocab == plan.draft.vocab;
  return is_same ? earlier->terms : std::make_shared<Replanner::PairTerms>();
}

PlanTable plan_with(const Plan& plan, const std::optional<double>& max_loss) {
  const PlanBasis& basis = *plan.basis;
  if (plan.isDense()) {
    return dense_plan(basis, plan.machine, plan.chosen_acceptance, plan.draft, max_loss);
  }
  if (!plan.choice.isOwn() || !has_own_draft(plan) || max_loss) {
    return basis.replanner->plan_on(
        plan.machine, plan.chosen_acceptance, plan.draft,
        {engine::loss_prices(basis.grounds, plan.chosen_acceptance), max_loss}, *plan.terms);
  }
  return plan.machine.key == basis.own.hardware
             ? basis.own
             : basis.replanner->plan_on(plan.machine, *plan.terms);
}

// A limit that moves leaves the plan without one as it is.
PlanTable plan_of_any_loss(const Plan& plan, const Plan* earlier) {
  if (!plan.chosen.max_loss) {
    return plan.chosen;
  }
  const bool is_same = earlier != nullptr && earlier->basis == plan.basis &&
                       earlier->any_loss.hardware == plan.machine.key &&
                       earlier->any_loss.acceptance_origin == plan.chosen.acceptance_origin &&
                       acceptance_pair(earlier->any_loss) == acceptance_pair(plan.chosen) &&
                       earlier->draft.vocab == plan.draft.vocab;
  return is_same ? earlier->any_loss : plan_with(plan, std::nullopt);
}

}  // namespace

PlanOptions dense_options(const Plan& plan) {
  return options_with(*plan.basis, with_tokens_of(plan.basis->fit, plan.chosen_acceptance),
                      plan.draft, plan.chosen.max_loss);
}

PlanTable table_on(const Plan& plan, const HardwareSpec& machine) {
  const PlanBasis& basis = *plan.basis;
  if (plan.isDense()) {
    return dense_plan(basis, machine, plan.chosen_acceptance, plan.draft, plan.chosen.max_loss);
  }
  return basis.replanner->plan_on(
      machine, plan.chosen_acceptance, plan.draft,
      {engine::loss_prices(basis.grounds, plan.chosen_acceptance), plan.chosen.max_loss});
}

PlanPtr make_plan(const Snapshot& snapshot, const FittedModel* prior, const PlanPtr& earlier,
                  const PlanRequest& request, FitWatch& watch) {
  const std::shared_ptr<Plan> result =
      earlier ? std::make_shared<Plan>(*earlier) : read_plan(snapshot, prior, watch);
  const std::string model = request.model.empty() ? result->models.front().name : request.model;
  if (!result->basis || result->basis->model != model || result->basis->scope != request.scope) {
    result->basis = basis_of(snapshot, *result, model, request.scope, !request.acceptance.isOwn());
    result->own = result->basis->own;
  }
  HardwareSpec chosen = request.hardware.value_or(hardware_by_key(result->basis->fit.hardware_key));
  if (request.bandwidth) {
    chosen = engine::with_bandwidth(chosen, *request.bandwidth);
  }
  if (result->basis->prompts) {
    engine::require_prompts_of(*result->basis->prompts, result->target(), chosen.key);
  }
  add_folder(model, result->models);
  result->machine = chosen;
  result->draft = result->own_draft();
  result->draft.vocab =
      std::min(request.draft_vocab.value_or(result->draft.vocab), result->target().vocab);
  result->chosen_acceptance = acceptance_of(*result, request.acceptance);
  result->choice = request.acceptance;
  result->terms = terms_of(*result, earlier.get());
  result->chosen = plan_with(*result, request.max_loss);
  result->any_loss = plan_of_any_loss(*result, earlier.get());
  return result;
}

}  // namespace versieve::gui
