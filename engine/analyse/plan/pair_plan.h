// What a plan or a prediction for a pair may count on: the points of that very pair, and by leave
// another's. What is read where is the caller's (db/evidence.h); the command and the app follow
// from it the same plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/plan/pair_shape.h"
#include "engine/measure/sweep/pair_quality.h"
#include "model/cost/fitted_model.h"
#include "model/plan/loss_prices.h"
#include "model/plan/planner.h"
#include "model/words/chain_share.h"
#include "model/words/pair_evidence.h"

namespace versieve::engine {

// Which evidence may be another's where the pair has none of its own, as --borrow says.
struct Borrowed {
  bool times = true;
  bool acceptance = true;
  bool quality = true;
};
// Of "times", "acceptance", "quality" and "none"; of no words all may be. Throws Error(kUsage) for
// other words, and for "none" beside one of them.
Borrowed parse_borrowed(const std::vector<std::string>& words);

// The pair as the database knows it: nothing of a geometry, of a folder without weights or without
// a database.
struct KnownPair {
  std::optional<PairId> id;  // none: a geometry by its name
  PairEvidence evidence;
  std::string remark;  // why there is none, a sentence; or empty
  std::vector<ChainShare> chain_shares;
  LentShares lent_shares;  // of a geometry too
};
// Which pair it is; of a folder without weights why nothing can be known of it. REQUIRES: a pair.
KnownPair identified(const PairShape& shape);
// What `database` holds of the pair. Throws Error(kBadInput), naming it, where that cannot be read.
KnownPair known_of(PairEvidence evidence, const std::string& database);

// All that a plan of one pair or geometry rests on beside the machine's fit.
struct PlanGrounds {
  PairShape shape;
  KnownPair known;
  Borrowed borrowed;
  std::vector<QualityPoint> quality;           // of any pair, in the database
  std::string dense;                           // hash of the pair's dense model; empty: none
  std::vector<CalibratedSchedule> calibrated;  // on the pair
  // Of any pair: acceptance of chains that choose tokens, or that a target drafts for itself.
  std::vector<PointMeasurement> chains;
  std::string unused;  // what use_pair returned
};

// The pair's timed steps, its own tokens a step and what its chains take in the place of the fit's,
// as far as there are any, and by leave of `quality` what another's chains take;
// `names_acceptance`: somebody says whose tokens the plan counts on. Tokens at that temperature:
// greedy ones never stand for sampled ones. Throws Error(kAnswerNo) where something is missing that
// may not be borrowed. Returns which of its steps cannot be used, a sentence, or an empty text. Of
// a geometry by its name: what the fit's own steps of it say.
std::string use_pair(const KnownPair& pair, const PairShape& shape, const Borrowed& borrowed,
                     bool names_acceptance, FittedModel& fit, double temperature = 0.0);
// Of a geometry, whose fit counts on greedy texts: the tokens of the database's pair with most
// points at that temperature in their place. Throws Error(kAnswerNo) where it holds none.
void use_sampled(const std::vector<PointMeasurement>& acceptance, const std::string& database,
                 double temperature, FittedModel& fit);
// What the quality runs of the pair, and of its dense model, say of chains: each chain's newest
// row, of texts before one of questions. Throws Error(kBadInput), naming the database, where one
// cannot be read.
std::vector<ChainShare> chain_shares_of(const std::string& pair_sha256,
                                        const std::vector<KeptQuality>& kept,
                                        const std::string& database);
// What the newest other pair says of chains of which a quality run holds rows, one that has rows of
// what SpecAttn chooses before others. Throws as chain_shares_of does.
LentShares lent_shares_of(const std::string& pair_sha256, const std::vector<KeptQuality>& kept,
                          const std::string& database);
// Tokens a step of such chains at that temperature, text by text: the pair's and its dense model's
// own, and by leave of `acceptance` others'.
std::vector<ChainYield> chain_yields(const PlanGrounds& grounds, double temperature);
// What strategies cost the pair, by the rows of that very pair; where it has none, by leave of the
// pair whose acceptance is planned with, else of another.
LossPrices loss_prices(const PlanGrounds& grounds, const AcceptanceModel& acceptance);

// Hash of the dense model of that pair, of which the newest of these runs that names the pair holds
// rows; empty: there is none. `quality_runs`: configurations, the oldest run's first.
std::string dense_model_of(const std::string& pair_sha256,
                           const std::vector<std::string>& quality_runs);

// The newest calibration of that pair; none where there is none. Throws Error(kBadInput), naming
// the database, where it cannot be read.
std::vector<CalibratedSchedule> calibrated_on(const std::string& pair_sha256,
                                              const std::vector<KeptCalibration>& kept,
                                              const std::string& database);
// KeptCalibration::found. Throws as calibrated_on does.
std::vector<CalibratedSchedule> calibrated_schedules_in(const std::string& found,
                                                        const std::string& database);
// "FRFF within 0.02 nats a token, ..."; empty of none.
std::string calibrated_text(const std::vector<CalibratedSchedule>& calibrated);
// Which of the schedules that a plan goes over were calibrated on the pair, a sentence; or nothing.
std::string calibrated_remark(const PlanGrounds& grounds,
                              const std::vector<std::string>& schedules);

// Which of a plan's options somebody chose; the others follow from the pair.
struct ChosenOptions {
  bool buckets = false;
  bool classes = false;
  bool schedules = false;
  bool baseline = false;
};
// `fit`: with the pair (use_pair) and the acceptance that is planned with. Draft, pair and prices
// always follow.
PlanOptions follow_pair(const PlanGrounds& grounds, const FittedModel& fit,
                        const ChosenOptions& chosen, PlanOptions options);

}  // namespace versieve::engine
