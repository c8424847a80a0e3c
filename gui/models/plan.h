// What a worker plans from the open database: what it rests on (the fit, the pair or geometry that
// is planned for, its evidence), the plan of the measured machine, and that of what the knobs
// describe. By default the plan that `versieve plan --db` makes without flags.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/plan/given_systems.h"
#include "engine/analyse/plan/pair_plan.h"
#include "gui/models/snapshot.h"
#include "model/plan/planner.h"
#include "model/plan/replanner.h"
#include "model/words/hardware.h"

namespace versieve::gui {

// Whose tokens a step a plan counts on; neither: those of the pair that is planned for, else of the
// measured pair.
struct AcceptanceChoice {
  std::string pair;            // of the database, by its name or its hash
  std::optional<double> rate;  // assumed: the draft's best child is right, at every depth

  bool isOwn() const { return !rate && pair.empty(); }
  bool operator==(const AcceptanceChoice&) const = default;
};
// Assumed where the database knows no pair's tokens at all.
inline constexpr double kFirstAssumedRate = 0.7;

// What a plan goes over, each as the command takes it; empty: what follows from the model.
struct PlanScope {
  std::string buckets;                   // "0-4096,4096-8192"
  std::string baseline;                  // a strategy
  std::vector<std::string> schedules;    // texts, or files of `versieve calibrate`
  engine::GivenSystems systems;          // settings of ReSA and SpecAttn
  std::optional<std::int64_t> requests;  // that intervals are of
  double temperature = 0.0;              // of the texts; 0: greedily
  std::string concurrency;               // "1,4,16,64": requests at once; empty: one
  Objective objective = Objective::kTokens;
  std::optional<double> itl_ms, ttft_ms;  // bounds between tokens and to the first; none: no bound
  std::string prefill;                    // how long prompts take: a file of bench prefill --out

  bool operator==(const PlanScope&) const = default;
};

// What the knobs describe.
struct PlanRequest {
  std::string model;                     // as --model takes it; empty: the usual
  std::optional<HardwareSpec> hardware;  // none: the measured machine
  std::string hardware_file;             // that it was read from; empty: of the catalogue
  std::optional<double> bandwidth;       // TB/s; none: the machine's own
  AcceptanceChoice acceptance;
  std::optional<std::int64_t> draft_vocab;  // none: the model's own
  std::optional<double> max_loss;           // of KL in nats a token; none: no limit
  PlanScope scope;
};

// A pair of the database, a geometry, or a pair's folder.
struct ModelChoice {
  std::string name;  // as --model takes it
  std::string text;  // for people
  bool is_pair = false;
};

// One model planned for by one fit.
struct PlanBasis {
  std::string model;  // ModelChoice::name
  PlanScope scope;
  AcceptanceChoice fallback;  // where the fit knows no pair's tokens a step
  engine::PlanGrounds grounds;
  std::optional<PromptTimes> prompts;   // of the scope's file
  FittedModel fit;                      // with the pair's own steps and tokens
  std::vector<PrecisionClass> classes;  // that the command plans where nobody chooses
  // None of a dense target, whose tuples are few: all are priced anew.
  std::unique_ptr<const Replanner> replanner;
  PlanTable own;  // of the machine that was measured
  // Of the fit's own tokens and draft. One worker at a time makes plans, and asks them.
  std::shared_ptr<Replanner::PairTerms> terms = std::make_shared<Replanner::PairTerms>();
};

struct Plan {
  std::shared_ptr<const engine::FitReport> fit;
  std::shared_ptr<const std::vector<PointMeasurement>> acceptance;  // points of every pair
  std::vector<engine::AcceptancePair> pairs;                        // that they are of
  std::vector<engine::KeptPair> kept;                               // whose shapes are known
  std::vector<ModelChoice> models;                                  // pairs first; the usual first
  std::shared_ptr<const PlanBasis> basis;
  PlanTable own;                                // the basis's
  PlanTable chosen;                             // of what the knobs describe
  PlanTable any_loss;                           // the same without a limit of losses
  HardwareSpec machine;                         // that `chosen` is of
  DraftShape draft;                             // that it is priced with
  AcceptanceModel chosen_acceptance;            // and whose tokens a step
  AcceptanceChoice choice;                      // by which these were chosen
  std::shared_ptr<Replanner::PairTerms> terms;  // of these tokens and this draft

  const LlmShape& target() const { return basis->grounds.shape.target; }
  bool isDense() const { return target().attention == AttentionKind::kDense; }
  // Whether the draft is a head, whose tokens can be chosen.
  bool hasDraftHead() const {
    return basis->grounds.shape.drafts && !basis->grounds.shape.draft_model;
  }
  const DraftShape& own_draft() const { return basis->grounds.shape.draft; }
  // Whether the knobs describe anything else.
  bool isTurned() const {
    return own.hardware != chosen.hardware || acceptance_pair(own) != acceptance_pair(chosen) ||
           own.acceptance_origin != chosen.acceptance_origin || own.max_loss != chosen.max_loss ||
           draft.vocab != own_draft().vocab;
  }
};
using PlanPtr = std::shared_ptr<const Plan>;

// Of the work under way, between it and the window.
struct FitWatch {
  std::atomic<bool> fits = false;  // a fit is made, not a kept one found or a plan made
  std::atomic<double> share = 0.0;
  std::atomic<bool> ends = false;  // nobody waits for it any more
};

// Fits where there is no earlier plan of this snapshot, and sets the model up where it is another
// than the earlier plan's. `prior`: a fit that the one to the database begins at, or null. Throws
// Error with the reason why there is no plan.
PlanPtr make_plan(const Snapshot& snapshot, const FittedModel* prior, const PlanPtr& earlier,
                  const PlanRequest& request, FitWatch& watch);

// What the plan of a dense target goes over. REQUIRES: it is of one.
PlanOptions dense_options(const Plan& plan);
// The plan's table with another machine in the place of its own, also beside a worker that plans.
PlanTable table_on(const Plan& plan, const HardwareSpec& machine);

}  // namespace versieve::gui
