#include "model/cost/accepted_tokens.h"

#include <algorithm>
#include <cmath>

#include "model/cost/adapted_chain.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

constexpr const char* kAllRefresh = "F*";
// Of tokens that approximate groups of the other order yield, beside those of this one (an
// assumption: of the one pair measured both ways they differ by 0.005).
constexpr double kOrderLogError = 0.03;

bool deeper_than_measured(const AcceptanceModel& model, std::int64_t depth) {
  return !model.measured.empty() &&
         std::all_of(model.measured.begin(), model.measured.end(),
                     [depth](const AcceptanceModel::Measured& m) { return m.draft.depth < depth; });
}

const AcceptanceModel::Variant* variant_of(const AcceptanceModel& model, const Strategy& strategy,
                                           Traversal order) {
  const std::int64_t group = approximate_group(strategy);
  for (const AcceptanceModel::Variant& v : model.variants) {
    if (v.schedule == strategy.schedule && v.approximate_group == group &&
        (group == 1 || v.order == order)) {
      return &v;
    }
  }
  return nullptr;
}

}  // namespace

const AcceptanceModel::Positional* nearest_range(const AcceptanceModel& model, std::int64_t low,
                                                 std::int64_t high) {
  const std::int64_t middle = (low + high) / 2;
  const AcceptanceModel::Positional* best = nullptr;
  std::int64_t best_distance = 0;
  for (const AcceptanceModel::Positional& p : model.positional) {
    const std::int64_t distance =
        std::max<std::int64_t>({0, p.context_low - middle, middle - p.context_high});
    if (best == nullptr || distance < best_distance) {
      best = &p;
      best_distance = distance;
    }
  }
  return best;
}

AcceptedTokens TokensInRange::of(const Strategy& strategy) {
  AcceptedTokens out;
  if (!strategy.draft.speculates()) {
    out.source = Provenance::kMeasured;  // one token a step, by definition
    return out;
  }
  if (strategy.adapts_length) {
    return adapted_tokens(model_, strategy, low_, high_);
  }
  out = mean_tokens(strategy);
  add_texts(strategy.draft, out);
  return out;
}

// Mean over the measured contexts of the range; steps weigh nothing, as regimes and prompts do not.
// The order counts only where a group's rows share one choice.
bool TokensInRange::measured_mean(const DraftChoice& draft, Traversal order,
                                  const std::string& schedule, std::int64_t group,
                                  AcceptedTokens& out) const {
  double sum = 0.0;
  double variance = 0.0;
  double count = 0.0;
  for (const AcceptanceModel::Measured& m : model_.measured) {
    if (!m.at_least && m.draft == draft && m.approximate_group == group &&
        (group == 1 || m.order == order) && in_range(m.context_len, low_, high_) &&
        m.schedule == schedule) {
      sum += m.mean;
      variance += m.standard_error * m.standard_error;
      count += 1.0;
    }
  }
  if (count == 0.0) {
    return false;
  }
  out.mean = sum / count;
  out.log_error = std::sqrt(variance) / sum;
  out.source =
      model_.origin == AcceptanceOrigin::kImported ? Provenance::kImported : Provenance::kMeasured;
  return true;
}

const TokensInRange::OfDraft& TokensInRange::of_draft(const DraftChoice& draft) {
  const auto [found, is_new] = drafts_.try_emplace({draft.depth, draft.width, draft.nodes});
  if (is_new) {
    found->second.plain = plain_tokens(draft);
    if (range_ != nullptr && model_.texts.rate != 0.0) {
      found->second.per_rate = log_tokens_per_rate(*range_, draft);
    }
  }
  return found->second;
}

AcceptedTokens TokensInRange::plain_tokens(const DraftChoice& draft) const {
  AcceptedTokens out;
  if (measured_mean(draft, Traversal::kBfs, kAllRefresh, 1, out)) {
    out.source = Provenance::kPredicted;
    return out;
  }
  VERSIEVE_ASSERT(range_ != nullptr, "the planner asks only a model with evidence");
  out.mean = positional_accepted(*range_, draft);
  out.log_error = positional_log_error(*range_, draft);
  out.source = Provenance::kPredicted;
  out.deeper = deeper_than_measured(model_, draft.depth);
  out.outside_data =
      range_->other_context || range_->context_low > low_ || range_->context_high < high_;
  return out;
}

// What was measured of the schedule and groups with the rows in that order: of this tree, else of
// others.
bool TokensInRange::measured_in(Traversal order, const Strategy& strategy, AcceptedTokens& out) {
  if (measured_mean(strategy.draft, order, strategy.schedule, approximate_group(strategy), out)) {
    return true;
  }
  const AcceptanceModel::Variant* variant = variant_of(model_, strategy, order);
  if (variant == nullptr) {
    return false;
  }
  out = of_draft(strategy.draft).plain;
  out.mean = std::max(1.0, out.mean * std::exp(variant->log_ratio));
  out.log_error = std::hypot(out.log_error, variant->log_error);
  out.other_tree = true;
  return true;
}

// Tokens a step, and how sure their mean is on the texts that were measured.
AcceptedTokens TokensInRange::mean_tokens(const Strategy& strategy) {
  AcceptedTokens out;
  if (measured_in(strategy.order, strategy, out)) {
    return out;
  }
  const std::int64_t group = approximate_group(strategy);
  if (group > 1 && measured_in(other(strategy.order), strategy, out)) {
    out.source = Provenance::kPredicted;
    out.log_error = std::hypot(out.log_error, kOrderLogError);
    out.other_order = true;
    return out;
  }
  // Evidence of the nearest kind: the same blocks reused, then none reused, without sharing.
  if (group > 1 && measured_mean(strategy.draft, strategy.order, strategy.schedule, 1, out)) {
    out.source = Provenance::kPredicted;
  } else {
    out = of_draft(strategy.draft).plain;
    out.other_schedule = strategy.schedule != kAllRefresh;
  }
  out.other_group = group > 1;
  return out;
}

// Texts' rates of best children differ, and a tuple's tokens follow them.
void TokensInRange::add_texts(const DraftChoice& draft, AcceptedTokens& out) {
  const TextSpread& texts = model_.texts;
  if (range_ == nullptr || texts.rate == 0.0) {
    return;
  }
  const double factor = texts.evidence == TextEvidence::kLaw ? 1.0 : few_texts_factor(texts.texts);
  out.text_log_error = factor * of_draft(draft).per_rate * texts.rate;
  if (texts.texts > 0) {
    const double of_mean =
        out.text_log_error * out.text_log_error / static_cast<double>(texts.texts);
    const double known = out.source == Provenance::kPredicted ? 0.0 : out.log_error;
    out.few_texts_log_error = std::sqrt(std::max(0.0, of_mean - known * known));
  }
}

AcceptedTokens accepted_tokens(const AcceptanceModel& model, const Strategy& strategy,
                               std::int64_t context_low, std::int64_t context_high) {
  return TokensInRange(model, context_low, context_high).of(strategy);
}

}  // namespace versieve
