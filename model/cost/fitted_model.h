// What a fit leaves behind and the planner takes: parameters with intervals, the spread of held-out
// errors, measured step times, acceptance; with the machine and the evidence it came from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cost/acceptance.h"
#include "model/cost/batch_fit.h"
#include "model/cost/cost_model.h"
#include "model/cost/energy_law.h"
#include "model/cost/residual_field.h"
#include "model/words/chain_share.h"
#include "model/words/machine_rates.h"
#include "model/words/strategy.h"

namespace versieve {

struct ParameterEstimate {
  double value = 0.0;
  double low = 0.0;  // 90 %
  double high = 0.0;
  bool informed = false;  // false: no measurement moves it, the value is where the fit began
  bool at_bound = false;
};

// |log(predicted / measured)| that 90 % of held-out points stay under, by context range.
struct ErrorQuantile {
  std::int64_t context_low = 0, context_high = 0;
  double log_latency = 0.0;
  double log_dram = 0.0;
  std::int64_t points = 0;
  // The same where a whole context length or query count was left out of the fit; at least the
  // above.
  double log_latency_left_out = 0.0;
};

// Where points were measured: a context length and a query count of one geometry.
struct MeasuredRegime {
  std::string workload;  // attention, step
  std::string geometry;
  std::int64_t context_len = 0;
  std::int64_t num_queries = 0;
  std::int64_t points = 0;

  std::string text() const;  // "step of nsa-1b at L 4096, N 16 (3 points)"
};

// A measured step of one target: plans for that target prefer it to a prediction.
struct MeasuredStep {
  Strategy strategy;
  std::int64_t context_len = 0;
  double time_us = 0.0;
  double log_error = 0.0;                     // standard deviation of log(time), from its samples
  double predicted_us = 0.0;                  // by the fit, at the same context
  Provenance source = Provenance::kMeasured;  // or simulated
  std::int64_t draft_vocab = 0;               // tokens that its draft proposes; 0: all
  std::string geometry;                       // its target: "nsa-8b", "dense-1b"
  double overlap = 0.6;                       // of its queries' blocks, as it was predicted
  double temperature = 0.0;                   // that its tokens were drawn at; 0: greedily
};

// |log(predicted / measured)| that 90 % of the points of another system stay under, each predicted
// by a fit that had not seen it.
struct SystemQuantile {
  std::string name;  // "decode resa", "step dense", "topk radix", "sampling exact chain"
  double log_latency = 0.0;
  std::int64_t points = 0;
  std::int64_t longest = 0;  // context, scores or logits that were measured
};

// The fit that one began at: of another machine, or of another one of the same kind.
struct PriorFit {
  std::string device;
  std::int64_t points = 0;
  std::vector<std::string> runs;  // that it knows: its points', and those of the fit it began at
  RateScale scale;  // what this machine gives of its data sheet against what the machine gave that
                    // the parameters are of: that one, or the one at which its own fit began
};

struct FittedModel {
  std::string device;        // as the runs say: "NVIDIA H200"
  std::string hardware_key;  // its catalogue entry
  std::string geometry;      // of most step points' target: "nsa-1b"
  // PairId::sha256 of the trained pair that `steps` are of; empty: of geometries with synthetic
  // weights.
  std::string steps_pair;
  Dtype dtype = Dtype::kBf16;
  RunConditions conditions;                     // of the step points
  Provenance evidence = Provenance::kMeasured;  // or simulated
  std::int64_t points = 0;
  std::vector<std::string> runs;             // their uuids
  std::vector<ParameterEstimate> estimates;  // [kParameterCount]
  ResidualField attention_time;  // log of measured / closed form, of a layer's attention
  ResidualField step_time;       // of a step whose attention is corrected
  std::vector<ErrorQuantile> errors;
  std::vector<MeasuredRegime> regimes;
  std::vector<MeasuredStep> steps;
  // Nodes of the largest tree whose steps were measured of a small pair
  // (model/launches/draft_levels.h).
  std::int64_t small_pair_nodes = 0;
  AcceptanceModel acceptance;
  ResidualField system_time;  // of attention over a dense cache and steps with it, top-k, samplers
  std::vector<SystemQuantile> systems;
  BatchFit batch;         // steps of many requests at once
  EnergyLaw energy;       // of such steps whose power was sampled
  MachineShares machine;  // what the sweep calibrate measured on the fit's machine
  std::optional<PriorFit> prior;
  // Of the pair that is planned for; no part of a fit's file.
  std::vector<ChainShare> chain_shares;
  // Of another pair, in the place of what those do not say of SpecAttn; no part of it either.
  LentShares lent_shares;
  // Of the texts whose steps are asked about, by which they choose tokens; no part of it either.
  double temperature = 0.0;

  // Measured steps of that target.
  std::int64_t steps_of(std::string_view target) const;
  CostParameters parameters() const;
  // The machine to price on: with its own rates, where it was measured, in the place of the
  // sheet's.
  HardwareSpec priced_on(const HardwareSpec& hardware) const;
  // What that machine adds to the half-width of log latency of NSA's launches: nothing if the fit
  // is of it, little (measured) if it has the same SMs and another memory, much (assumed) if its
  // chip is another; less where its rates were measured.
  double carried_half_width(const HardwareSpec& hardware) const;
  // The same of the other systems' launches and of steps of many requests, which fewer points
  // judged.
  double carried_system_half_width(const HardwareSpec& hardware) const;
  double carried_batch_half_width(const HardwareSpec& hardware) const;
  // Why a step of the geometry lies outside the measured contexts or query counts, with the nearest
  // measured regimes named; empty inside. Of a geometry without steps: its attention's regimes.
  std::string outside_because(std::int64_t context_len, std::int64_t num_queries) const;
  std::int64_t shortest_context() const;  // measured; 1 if none
  // Half-width of log latency that 90 % stay within, between contexts low and high: wider where no
  // context in between was measured, and widest of all, doubled, beyond them.
  double half_width(std::int64_t low, std::int64_t high) const;
  // Has a measured launch of that kind moved one of its parameters?
  bool informs(LaunchKind kind) const;
  // Null where no point of that name was measured.
  const SystemQuantile* system(std::string_view name) const;
  // Whether that strategy's steps run their layers in one launch here: so the engine does, and such
  // steps were measured.
  bool prices_one_launch(const Strategy& strategy, const LlmShape& target,
                         std::int64_t context_len) const;
  // The form whose launches were all measured: fused if it can be, else vanilla.
  NsaForm priced_form() const;
};

}  // namespace versieve
