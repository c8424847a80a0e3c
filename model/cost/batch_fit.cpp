#include "model/cost/batch_fit.h"

#include <algorithm>
#include <cmath>

#include "model/words/assert.h"

namespace versieve {
namespace {

// Where a search begins: what an H100's steps of many requests showed before any was fitted
// (engine/measure/bench, Many requests).
constexpr std::array<BatchTermInfo, kBatchTermCount> kTerms = {{
    // At most what an H100's tensor cores can give over the 432 Tflop/s of its fit.
    {"batch.products", "of the fit's", 0.1, 2.3, 1.0},
    {"batch.attention", "of the composed", 0.2, 10.0, 1.0},
    {"batch.dense_attention", "of the composed", 0.2, 20.0, 1.5},
    {"batch.launch", "us", 0.01, 20.0, 3.0},
    {"batch.layer", "us", 0.01, 50.0, 5.0},
    {"batch.trip", "us", 0.1, 500.0, 20.0},
    {"batch.request", "us", 0.01, 500.0, 5.0},
}};

constexpr int kSparseBatches = 70;  // families of residuals
constexpr int kDenseBatches = 71;
constexpr int kBatchKinds = 200;  // one a kind of launch

double value(const BatchTerms& terms, BatchTerm term) {
  return terms[static_cast<std::size_t>(term)];
}

// What groups save by what their queries share, in log of blocks; 0 of groups of one.
double saved_by_groups(const StepShape& s) {
  const double group = static_cast<double>(std::min(s.group_size, s.num_queries));
  const bool dense = s.target.attention == AttentionKind::kDense;
  const double overlap = s.group_overlap > 0.0 ? s.group_overlap : s.overlap;
  return dense || group <= 1.0 ? 0.0 : std::log(group / (1.0 + (group - 1.0) * (1.0 - overlap)));
}

double fours(double x) {
  return std::log(std::max(1.0, x)) / std::log(4.0);
}

}  // namespace

std::span<const BatchTermInfo, kBatchTermCount> batch_term_table() {
  return kTerms;
}

BatchTerms BatchFit::values() const {
  VERSIEVE_ASSERT(terms.size() == kBatchTermCount, "one estimate a term");
  BatchTerms out{};
  std::transform(terms.begin(), terms.end(), out.begin(),
                 [](const BatchTermEstimate& e) { return e.value; });
  return out;
}

double BatchFit::width_of(std::int64_t requests) const {
  double below = 0.0, above = 0.0;
  for (const BatchWidth& width : widths) {
    if (width.requests <= requests) {
      below = width.log_latency;
    }
    if (width.requests >= requests && above == 0.0) {
      above = width.log_latency;
    }
  }
  return widths.empty() ? log_latency : std::max(below, above);
}

void apply_batch_kinds(const ResidualField& kinds, const StepShape& s, StepWork& work) {
  const Regime regime = batch_regime(s);
  for (std::size_t i = 0; i < work.count; ++i) {
    LaunchWork& launch = work.work[i];
    if (is_batch_kind(launch.kind)) {
      launch.time_factor *= std::exp(kinds.at(batch_kind_regime(regime, launch.kind)));
    }
  }
}

void apply_batch_terms(const BatchTerms& terms, const StepShape& s, StepWork& work) {
  const bool dense = s.target.attention == AttentionKind::kDense;
  const bool drafts = s.drafts && s.tree.speculates();
  double launches = 1.0;  // the forward's graph, and the draft's
  for (std::size_t i = 0; i < work.count; ++i) {
    LaunchWork& launch = work.work[i];
    // A launch over many trees is long, and what begins under its end no longer than of one.
    launch.dependent = launch.dependent && (launch.streams || !drafts || s.requests == 1);
    launch.product_rate *=
        launch.kind == LaunchKind::kLinear ? value(terms, BatchTerm::kProducts) : 1.0;
    if (launch.layer != LayerKind::kNone) {
      launch.time_factor *=
          value(terms, dense ? BatchTerm::kDenseAttention : BatchTerm::kAttention);
    }
    launches += launch.phase == Phase::kDraft ? launch.launches : 0.0;
  }
  const double requests = static_cast<double>(s.requests);
  // A step that drafts nothing is prepared while the device runs the one before.
  const double prepared = drafts ? requests : 0.0;
  work.enqueue_us =
      launches * value(terms, BatchTerm::kLaunch) +
      prepared * static_cast<double>(s.target.layers) * value(terms, BatchTerm::kLayer);
  work.host_us = work.host_trips * value(terms, BatchTerm::kTrip) +
                 prepared * value(terms, BatchTerm::kRequest);
  work.host_trips = 0.0;  // they are in host_us
  work.led_by_host = false;
}

void apply_batch(const BatchTerms& terms, const ResidualField& kinds, const StepShape& s,
                 StepWork& work) {
  apply_batch_kinds(kinds, s, work);
  apply_batch_terms(terms, s, work);
}

bool is_batch_kind(LaunchKind kind) {
  return kind == LaunchKind::kLinear || kind == LaunchKind::kNsaRoute ||
         kind == LaunchKind::kNsaAttend || kind == LaunchKind::kNsaReuse ||
         kind == LaunchKind::kFlashDecode || kind == LaunchKind::kFlashRows;
}

Regime batch_kind_regime(const Regime& step, LaunchKind kind) {
  Regime regime = step;
  regime.family = kBatchKinds + static_cast<int>(kind);
  if (kind == LaunchKind::kLinear) {
    // Of rows, whoever's they are, of the target and of the draft's levels.
    regime.at[0] += regime.at[1];
    regime.at[1] = regime.at[7];
    regime.at[2] = regime.at[4] = regime.at[5] = regime.at[6] = regime.at[7] = 0.0;
  }
  return regime;
}

// Mixed contexts and what groups save lie on one axis, in opposite directions: what the composed
// launches make of sharing is more than batches showed of it.
Regime batch_regime(const StepShape& s) {
  const double layers = static_cast<double>(std::max<std::int64_t>(1, s.target.layers));
  return {s.target.attention == AttentionKind::kDense ? kDenseBatches : kSparseBatches,
          {fours(static_cast<double>(s.requests)), fours(static_cast<double>(s.num_queries)),
           fours(static_cast<double>(s.context_len)), fours(static_cast<double>(s.target.hidden)),
           (s.contexts.empty() ? 0.0 : 0.5) - saved_by_groups(s),
           static_cast<double>(s.reuse_layers) / layers,
           fours(static_cast<double>(std::min(s.group_size, s.num_queries))),
           fours(1.0 + static_cast<double>(s.tree.depth))}};
}

}  // namespace versieve
