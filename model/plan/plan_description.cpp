#include "model/plan/plan_description.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/plan/cell_pricer.h"
#include "model/plan/concurrency.h"
#include "model/plan/system_grid.h"
#include "model/words/formatted.h"

namespace versieve {
namespace {

class Description {
 public:
  Description(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
              const PlanOptions& options, const CellPricer& prices, PlanTable& table)
      : fit_(fit),
        hardware_(hardware),
        target_(target),
        options_(options),
        prices_(prices),
        pricer_(prices.own()),
        table_(table) {}

  void describe() {
    table_.hardware = hardware_.key;
    table_.model = target_.name;
    table_.concurrency = prices_.concurrency();
    table_.aims = options_.aims;
    if (!pricer_.scaled()) {
      table_.energy = fit_.energy;
    }
    table_.fit_device = fit_.device;
    table_.fit_hardware = fit_.hardware_key;
    table_.acceptance_pair = fit_.acceptance.pair;
    table_.acceptance_origin = fit_.acceptance.origin;
    table_.acceptance_note = fit_.acceptance.note;
    table_.requests = options_.requests;
    table_.temperature = fit_.temperature;
    table_.texts_note = text_of(fit_.acceptance.texts);
    table_.sources = sources();
    table_.dtype = name_of(fit_.dtype);
    table_.draft_is_model = options_.draft_model.has_value();
    table_.draft_vocab = options_.draft_model ? options_.draft_model->vocab : pricer_.draft().vocab;
    table_.launch = fit_.conditions.launch == LaunchMode::kStream ? "stream" : "graph";
    table_.form = pricer_.form();
    table_.scaled = pricer_.scaled();
    table_.evidence = table_.scaled ? Provenance::kPredicted : fit_.evidence;
    table_.calibrated = pricer_.calibrated();
    table_.fit_points = fit_.points;
    table_.runs = fit_.runs;
    table_.buckets = options_.buckets;
    table_.classes = options_.classes;
    table_.guard = options_.guard;
    table_.max_loss = options_.loss.most_nats;
    table_.systems = options_.systems;
    table_.provenance_note = origin();
    if (target_.attention == AttentionKind::kDense) {
      describe_dense();
      return;
    }
    table_.provenance_note +=
        std::string("; attention by the ") + name_of(table_.form) + " launches";
    if (table_.form == NsaForm::kVanilla) {
      table_.provenance_note += ", as the fused ones were not measured";
    }
    const std::int64_t tokens = pricer_.draft().vocab;
    if (tokens < target_.vocab) {
      table_.provenance_note += "; the draft proposes " + std::to_string(tokens) + " of " +
                                std::to_string(target_.vocab) + " tokens";
      const bool measured =
          std::any_of(fit_.steps.begin(), fit_.steps.end(), [&](const MeasuredStep& m) {
            return m.geometry == target_.name && m.draft_vocab == tokens;
          });
      table_.provenance_note += measured ? "" : ", which no measured step does";
    }
  }

 private:
  void describe_dense() {
    table_.provenance_note += "; a dense target";
    if (!options_.drafts) {
      table_.provenance_note += " without a draft";
    } else if (options_.draft_model) {
      table_.provenance_note += " whose draft is a model of its own of " +
                                std::to_string(options_.draft_model->layers) +
                                " layers, whose steps are predicted";
    }
  }

  // By hashes alone, so that no plan counts another pair's numbers among the pair's own.
  PlanSources sources() const {
    const std::optional<PairId>& pair = options_.pair;
    const auto is_own = [&pair](const std::string& sha256) {
      return pair && !sha256.empty() && sha256 == pair->sha256;
    };
    const auto from = [&is_own](const std::string& sha256) {
      return is_own(sha256) ? EvidenceFrom::kOwn : EvidenceFrom::kBorrowed;
    };
    const AcceptanceModel& a = fit_.acceptance;
    const bool own_geometry = !pair && fit_.steps_pair.empty() && fit_.steps_of(target_.name) > 0;
    const std::string& timed = own_geometry ? target_.name : fit_.geometry;
    return {
        .pair = pair,
        .acceptance =
            a.origin == AcceptanceOrigin::kAssumed ? EvidenceFrom::kAssumed : from(a.sha256),
        .overlap = a.overlap_of.name.empty() ? EvidenceFrom::kAssumed : from(a.overlap_of.sha256),
        .times = own_geometry ? EvidenceFrom::kOwn : from(fit_.steps_pair),
        .acceptance_sha256 = a.sha256,
        .overlap_of = a.overlap_of,
        .times_of = timed,
        .timed_steps = fit_.steps_of(timed),
        .remark = options_.pair_remark};
  }

  std::string origin() const {
    if (!table_.scaled) {
      const std::string own = "step times come from a fit to " + std::to_string(fit_.points) +
                              " points " + name_of(fit_.evidence) + " on " + fit_.device;
      return fit_.prior ? own + ", which corrects a fit to " + std::to_string(fit_.prior->points) +
                              " points of " + fit_.prior->device
                        : own;
    }
    const std::string scaled =
        "step times are scaled from a fit on " + fit_.device + " to " + hardware_.name + " by ";
    const auto percent = [](double half_width) {
      return formatted("%.0f %%", 100.0 * std::expm1(half_width));
    };
    std::string further =
        "so intervals reach " + percent(pricer_.transfer_width()) + " further than the fit's";
    if (pricer_.system_transfer_width() != pricer_.transfer_width() && !fit_.systems.empty()) {
      further += " (of other systems " + percent(pricer_.system_transfer_width()) + ")";
    }
    if (!table_.calibrated) {
      return scaled + "bandwidth, clocks and SM count; nothing was measured on it, " + further;
    }
    const RateScale& s = pricer_.scale();
    const std::string rates = formatted(
        "reads %.2f, L2 %.2f, products %.2f, launches %.2f times what its data sheet "
        "lets expect",
        s.read, s.l2, s.products, s.graph_gap);
    return scaled + "rates measured there (" + rates + "); no step was timed on it, " + further;
  }

  const FittedModel& fit_;
  const HardwareSpec& hardware_;
  const LlmShape& target_;
  const PlanOptions& options_;
  const CellPricer& prices_;
  const Pricer& pricer_;
  PlanTable& table_;
};

// Whose numbers of chains the entries rest on.
class ChainDescription {
 public:
  ChainDescription(const FittedModel& fit, const PlanOptions& options, const SystemPricer& systems,
                   PlanTable& table)
      : fit_(fit), options_(options), systems_(systems), table_(table) {}

  void describe() {
    PlanSources& s = *table_.sources;
    s.chosen_share = chains_from(chooses_tokens);
    s.sigmoid_acceptance = chains_from(keeps_by_sigmoid);
    const std::string& lender = fit_.lent_shares.lender;
    s.chosen_share_of = s.chosen_share == EvidenceFrom::kBorrowed ? lender : "";
    s.sigmoid_acceptance_of = s.sigmoid_acceptance == EvidenceFrom::kBorrowed ? lender : "";
    for (const PlanEntry& e : table_.entries) {
      if (!yields_by_method(e.evaluation.strategy)) {
        continue;
      }
      const auto [from, of] = chain_tokens_from(e);
      s.chain_tokens = std::max(s.chain_tokens.value_or(EvidenceFrom::kOwn), from);
      s.chain_tokens_of = s.chain_tokens_of.empty() ? of : s.chain_tokens_of;
    }
  }

 private:
  // And the lender, or nothing.
  std::pair<EvidenceFrom, std::string> chain_tokens_from(const PlanEntry& e) const {
    const ContextBucket& bucket = options_.buckets[static_cast<std::size_t>(e.bucket)];
    if (const auto counted = systems_.yield_of(e.evaluation.strategy, bucket)) {
      const PairId& lender = counted->lender;
      return {lender.name.empty() ? EvidenceFrom::kOwn : EvidenceFrom::kBorrowed, text_of(lender)};
    }
    const AcceptanceModel& a = fit_.acceptance;
    const bool assumed = a.origin == AcceptanceOrigin::kAssumed;
    return {assumed ? EvidenceFrom::kAssumed : EvidenceFrom::kBorrowed,
            assumed ? std::string() : text_of(PairId{a.pair, a.sha256}) + ", verified otherwise"};
  }

  // Whose numbers of chains the entries of that kind rest on; none where there are none.
  template <class Kind>
  std::optional<EvidenceFrom> chains_from(const Kind& is_one) const {
    std::optional<EvidenceFrom> from;
    for (const PlanEntry& e : table_.entries) {
      if (is_one(e.evaluation.strategy)) {
        from = std::max(from.value_or(EvidenceFrom::kOwn), shares_from(e.evaluation.strategy));
      }
    }
    return from;
  }
  EvidenceFrom shares_from(const Strategy& s) const {
    if (systems_.is_of_measured_chain(s)) {
      return EvidenceFrom::kOwn;
    }
    return systems_.is_of_lent_share(s) ? EvidenceFrom::kBorrowed : EvidenceFrom::kAssumed;
  }

  const FittedModel& fit_;
  const PlanOptions& options_;
  const SystemPricer& systems_;
  PlanTable& table_;
};

}  // namespace

void describe_plan(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
                   const PlanOptions& options, const CellPricer& prices, PlanTable& table) {
  Description(fit, hardware, target, options, prices, table).describe();
}

void describe_chains(const FittedModel& fit, const PlanOptions& options,
                     const SystemPricer& systems, PlanTable& table) {
  ChainDescription(fit, options, systems, table).describe();
}

}  // namespace versieve
