#include "engine/analyse/fit/acceptance_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/fit/context_ranges.h"
#include "engine/analyse/fit/positional_fit.h"
#include "engine/analyse/fit/sibling_law.h"
#include "engine/analyse/fit/text_spread_fit.h"
#include "engine/io/formatted.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

constexpr double kDefaultOverlap = 0.6;
constexpr double kLoneLogError = 0.05;  // of a single comparison (an assumption)
// What the positional form misses on the measured pair is 0.020 to 0.027, by range.
constexpr double kFormLogError = 0.03;

// Of one pair from another: siblings as the measured pairs differ, the others assumptions.
PriorSpread between_pairs() {
  return {.first = 0.3, .siblings = distance_between_pairs(kSiblingLaw), .decay = 0.05};
}

// How far a rate that is assumed may be off (an assumption): a guess is seldom better than 0.05,
// and stays a probability.
constexpr double kAssumedSpread = 0.05;
constexpr double kAssumedFall = 0.01;  // a level, of the same rate (an assumption too)

double rate_spread(double rate) {
  return std::min({kAssumedSpread, 0.5 * rate, 0.5 * (1.0 - rate)});
}

// Mean over the overlaps of a range of contexts, if there are any.
std::optional<double> overlap_in(const AcceptanceEvidence& evidence, std::size_t range) {
  double sum = 0.0;
  double count = 0.0;
  for (const AcceptanceEvidence::Overlap& o : evidence.overlaps) {
    if (context_range_of(o.context_len) == range) {
      sum += o.value;
      count += 1.0;
    }
  }
  return count == 0.0 ? std::optional<double>() : sum / count;
}

using OrderSharings = std::array<AcceptanceModel::OrderSharing, 2>;

// Mean over what was measured along an order in a range of contexts, part by part: of trees whose
// groups were counted, where there are any.
AcceptanceModel::OrderSharing sharing_in(const AcceptanceEvidence& evidence, std::size_t range,
                                         Traversal order) {
  std::vector<AcceptanceEvidence::Sharing> found;
  for (const AcceptanceEvidence::Sharing& s : evidence.sharing) {
    if (s.order == order && context_range_of(s.context_len) == range) {
      found.push_back(s);
    }
  }
  const auto keep_if_any = [&found](const auto& wanted) {
    if (std::any_of(found.begin(), found.end(), wanted)) {
      std::erase_if(found, [&wanted](const auto& s) { return !wanted(s); });
    }
  };
  keep_if_any([](const AcceptanceEvidence::Sharing& s) { return s.value.group[0] > 0.0; });
  if (!found.empty() && found.front().value.group[0] > 0.0) {
    keep_if_any([](const AcceptanceEvidence::Sharing& s) { return s.of_tree; });
  }
  AcceptanceModel::OrderSharing out{.measured = !found.empty(), .overlap = kDefaultOverlap};
  const auto mean = [&found](const auto& value) {
    double sum = 0.0;
    double count = 0.0;
    for (const AcceptanceEvidence::Sharing& s : found) {
      sum += value(s);
      count += value(s) > 0.0 ? 1.0 : 0.0;
    }
    return count > 0.0 ? sum / count : 0.0;
  };
  if (out.measured) {
    out.overlap = mean([](const AcceptanceEvidence::Sharing& s) { return s.value.overlap; });
    for (std::size_t i = 0; i < out.group.size(); ++i) {
      out.group[i] = mean([i](const AcceptanceEvidence::Sharing& s) { return s.value.group[i]; });
    }
  }
  return out;
}

OrderSharings orders_in(const AcceptanceEvidence& evidence, std::size_t range) {
  return {sharing_in(evidence, range, Traversal::kBfs),
          sharing_in(evidence, range, Traversal::kDfs)};
}

// Comparisons of one tree at one context with and without a schedule or groups.
class VariantSum {
 public:
  void add(double log_ratio) {
    count_ += 1.0;
    sum_ += log_ratio;
    squares_ += log_ratio * log_ratio;
  }

  void finish(AcceptanceModel::Variant& out) const {
    out.log_ratio = sum_ / count_;
    const double variance =
        count_ > 1.0 ? std::max(0.0, squares_ - sum_ * out.log_ratio) / (count_ - 1.0) : 0.0;
    out.log_error = std::max(count_ > 1.0 ? kLeastLogError : kLoneLogError, std::sqrt(variance));
    out.comparisons = static_cast<std::int64_t>(count_);
  }

 private:
  double count_ = 0.0, sum_ = 0.0, squares_ = 0.0;
};

bool is_plain(const AcceptanceModel::Measured& m) {
  return m.schedule == "F*" && m.approximate_group == 1;
}

// What the tuple keeps of the plain one's tokens: along the same texts where both walked along
// them, since generated texts differ and a few steps of them are luck.
double log_kept(const AcceptanceEvidence& evidence, std::size_t tuple, std::size_t plain) {
  const std::optional<double>& along = evidence.along[tuple];
  const std::optional<double>& plain_along = evidence.along[plain];
  return along && plain_along ? std::log(*along / *plain_along)
                              : std::log(evidence.tuples[tuple].mean / evidence.tuples[plain].mean);
}

std::vector<AcceptanceModel::Variant> variants_of(const AcceptanceEvidence& evidence) {
  const std::vector<AcceptanceModel::Measured>& measured = evidence.tuples;
  std::map<std::tuple<std::string, std::int64_t, Traversal>, VariantSum> sums;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const AcceptanceModel::Measured& m = measured[i];
    const auto plain = std::find_if(measured.begin(), measured.end(), [&](const auto& other) {
      return is_plain(other) && other.draft == m.draft && other.context_len == m.context_len;
    });
    if (!is_plain(m) && plain != measured.end()) {
      sums[{m.schedule, m.approximate_group, m.order}].add(
          log_kept(evidence, i, static_cast<std::size_t>(plain - measured.begin())));
    }
  }
  std::vector<AcceptanceModel::Variant> out;
  for (const auto& [key, sum] : sums) {
    AcceptanceModel::Variant variant{.schedule = std::get<0>(key),
                                     .approximate_group = std::get<1>(key),
                                     .order = std::get<2>(key)};
    sum.finish(variant);
    out.push_back(variant);
  }
  return out;
}

using TuplesByRange = std::map<std::size_t, Tuples>;

TuplesByRange plain_by_range(const std::vector<AcceptanceModel::Measured>& tuples) {
  TuplesByRange ranges;
  for (const AcceptanceModel::Measured& m : tuples) {
    if (is_plain(m)) {
      ranges[context_range_of(m.context_len)].push_back(&m);
    }
  }
  return ranges;
}

void place(std::size_t range, AcceptanceModel::Positional& model) {
  model.context_low = kContextRanges[range].low;
  model.context_high = kContextRanges[range].high;
}

AcceptanceModel fit_measured(const AcceptanceEvidence& evidence) {
  AcceptanceModel out{.pair = evidence.pair.name, .sha256 = evidence.pair.sha256};
  if (!evidence.overlaps.empty()) {
    out.overlap_of = evidence.pair.id();
  }
  const TuplesByRange ranges = plain_by_range(evidence.tuples);
  Tuples all;
  for (const auto& [range, tuples] : ranges) {
    all.insert(all.end(), tuples.begin(), tuples.end());
  }
  if (all.empty()) {
    return out;
  }
  const AcceptanceModel::Positional pooled = fit_positional(all, {});
  for (const auto& [range, tuples] : ranges) {
    AcceptanceModel::Positional model = fit_positional(tuples, pooled);
    model.log_error = tuples.size() > 3 ? model.log_error : pooled.log_error;
    place(range, model);
    model.overlap = overlap_in(evidence, range).value_or(kDefaultOverlap);
    model.orders = orders_in(evidence, range);
    out.positional.push_back(model);
  }
  out.measured = evidence.tuples;
  out.variants = variants_of(evidence);
  out.texts = fit_text_spread(evidence, out.positional);
  return out;
}

// The lender's at that range or the one next to it; the form's first guess without a lender.
AcceptanceModel::Positional lent(const AcceptanceModel& lender, std::size_t range) {
  const std::int64_t low = kContextRanges[range].low;
  AcceptanceModel::Positional best;
  best.overlap = kDefaultOverlap;
  std::int64_t best_distance = -1;
  for (const AcceptanceModel::Positional& p : lender.positional) {
    const std::int64_t distance = std::abs(p.context_low - low);
    if (best_distance < 0 || distance < best_distance) {
      best = p;
      best_distance = distance;
    }
  }
  return best;
}

AcceptanceModel::Positional fit_imported(const Tuples& tuples,
                                         const AcceptanceModel::Positional& prior) {
  AcceptanceModel::Positional model = fit_positional(tuples, prior, between_pairs());
  model.log_error = std::max(kFormLogError, model.log_error);
  model.covariance = covariance_of(tuples, model, between_pairs());
  return model;
}

// Ranges without a tuple take the nearest one's parameters, and the lender's overlap.
void add_lenders_ranges(const AcceptanceModel& lender, AcceptanceModel& out) {
  const std::vector<AcceptanceModel::Positional> fitted = out.positional;
  for (const AcceptanceModel::Positional& theirs : lender.positional) {
    const auto nearer = [&](const auto& a, const auto& b) {
      return std::abs(a.context_low - theirs.context_low) <
             std::abs(b.context_low - theirs.context_low);
    };
    AcceptanceModel::Positional model = *std::min_element(fitted.begin(), fitted.end(), nearer);
    if (model.context_low != theirs.context_low) {
      model.context_low = theirs.context_low;
      model.context_high = theirs.context_high;
      model.overlap = theirs.overlap;
      model.orders = theirs.orders;
      model.other_context = true;
      out.positional.push_back(model);
    }
  }
  std::sort(out.positional.begin(), out.positional.end(),
            [](const auto& a, const auto& b) { return a.context_low < b.context_low; });
}

std::string as_of(const AcceptanceModel& lender) {
  return lender.pair.empty() ? std::string(" a guess") : " as of " + lender.pair;
}

std::string imported_note(const AcceptanceEvidence& evidence, const AcceptanceModel& lender) {
  std::string note = "measured by another program in " + std::to_string(evidence.pair.points) +
                     (evidence.pair.points == 1 ? " point" : " points");
  if (std::none_of(evidence.tuples.begin(), evidence.tuples.end(),
                   [](const AcceptanceModel::Measured& m) { return m.draft.width > 1; })) {
    note += "; no tree was measured, so how siblings help is" + as_of(lender);
  }
  if (evidence.overlaps.empty()) {
    note += "; overlap of selected blocks is" + as_of(lender);
  }
  for (const std::string& remark : evidence.remarks) {
    note += "; " + remark;
  }
  return note;
}

AcceptanceModel fit_imported(const AcceptanceEvidence& evidence, const AcceptanceModel& lender) {
  AcceptanceModel out{
      .pair = evidence.pair.name,
      .sha256 = evidence.pair.sha256,
      .overlap_of = evidence.overlaps.empty() ? lender.overlap_of : evidence.pair.id(),
      .origin = AcceptanceOrigin::kImported,
      .note = imported_note(evidence, lender)};
  TuplesByRange ranges = plain_by_range(evidence.tuples);
  if (ranges.empty()) {
    throw Error(ExitCode::kAnswerNo,
                "the points of '" + out.pair +
                    "' hold no draft whose queries choose their own blocks in all layers (c1 or "
                    "exact groups, F*), so its other tuples cannot be predicted from them");
  }
  for (const auto& [range, tuples] : plain_by_range(evidence.cut_chains)) {
    Tuples& members = ranges[range];
    members.insert(members.end(), tuples.begin(), tuples.end());
  }
  for (const auto& [range, tuples] : ranges) {
    const AcceptanceModel::Positional prior = lent(lender, range);
    AcceptanceModel::Positional model = fit_imported(tuples, prior);
    place(range, model);
    model.overlap = overlap_in(evidence, range).value_or(prior.overlap);
    model.orders = overlap_in(evidence, range) ? orders_in(evidence, range) : prior.orders;
    out.positional.push_back(model);
  }
  add_lenders_ranges(lender, out);
  out.measured = evidence.tuples;
  out.variants = variants_of(evidence);
  out.texts = fit_text_spread(evidence, out.positional);
  return out;
}

}  // namespace

AcceptanceModel fit_acceptance(const std::vector<PointMeasurement>& measured, double temperature) {
  const std::vector<AcceptancePair> pairs = acceptance_pairs(measured, temperature);
  if (pairs.empty() || pairs.front().origin != AcceptanceOrigin::kMeasured) {
    return {};
  }
  return fit_measured(acceptance_evidence(measured, pairs.front(), temperature));
}

AcceptanceModel fit_acceptance_of(const std::vector<PointMeasurement>& measured,
                                  const std::string& pair, const AcceptanceModel& lender,
                                  double temperature) {
  const std::vector<AcceptancePair> pairs = acceptance_pairs(measured, temperature);
  const auto is_asked = [&pair](const AcceptancePair& p) {
    return names_pair(pair, {p.name, p.sha256});
  };
  const auto found = std::find_if(pairs.begin(), pairs.end(), is_asked);
  if (found == pairs.end()) {
    const std::string sampled =
        temperature > 0.0 ? formatted(" at temperature %g", temperature) : std::string();
    throw Error(ExitCode::kAnswerNo, "there is no acceptance of a pair '" + pair + "'" + sampled +
                                         ": the points hold " + listed(pairs));
  }
  const auto other = std::find_if(found + 1, pairs.end(), is_asked);
  if (other != pairs.end() && other->origin == found->origin) {
    throw Error(ExitCode::kUsage,
                "several pairs are called '" + pair +
                    "', of other weights: name one by its hash; the points hold " + listed(pairs));
  }
  const AcceptanceEvidence evidence = acceptance_evidence(measured, *found, temperature);
  return found->origin == AcceptanceOrigin::kImported ? fit_imported(evidence, lender)
                                                      : fit_measured(evidence);
}

void assume_overlap(double overlap, AcceptanceModel& model) {
  if (!(overlap >= 0.0 && overlap <= 1.0)) {
    throw Error(ExitCode::kUsage, "--assume-overlap is a share between 0 and 1");
  }
  for (AcceptanceModel::Positional& range : model.positional) {
    range.overlap = overlap;
    range.orders.fill({.measured = true, .overlap = overlap});
  }
  model.overlap_of = {};
  model.note +=
      (model.note.empty() ? "" : "; ") +
      formatted("neighbours' selected blocks have %g in common, which nobody measured", overlap);
}

AcceptanceModel assumed_acceptance(double rate, const AcceptanceModel& lender) {
  if (!(rate >= 0.0 && rate <= 1.0)) {
    throw Error(ExitCode::kUsage, "an assumed acceptance rate is a probability between 0 and 1");
  }
  AcceptanceModel out{.pair = formatted("assumed %g", rate),
                      .overlap_of = lender.overlap_of,
                      .origin = AcceptanceOrigin::kAssumed};
  out.note = formatted("the draft's best child is right with probability %g at every depth", rate) +
             formatted(
                 ", which nobody measured; siblings help as in the %lld pairs whose trees were "
                 "measured (%.2f, from pair to pair %.2f more or less",
                 static_cast<long long>(kSiblingLaw.pairs), kSiblingLaw.siblings,
                 kSiblingLaw.between_pairs) +
             (rate >= kSiblingLaw.least_rate && rate <= kSiblingLaw.most_rate
                  ? std::string(")")
                  : formatted("; at rates from %.2f to %.2f)", kSiblingLaw.least_rate,
                              kSiblingLaw.most_rate)) +
             "; overlap of selected blocks is" + as_of(lender) +
             formatted(
                 "; intervals allow the rate %.2g more or less and a fall by %.2g a level, "
                 "assumptions like it",
                 rate_spread(rate), kAssumedFall);
  out.positional = lender.positional;
  out.texts = assumed_text_spread(rate);
  if (out.positional.empty()) {
    out.positional.emplace_back().context_high = kContextRanges.back().high;
  }
  for (AcceptanceModel::Positional& p : out.positional) {
    p.first = rate;
    p.siblings = kSiblingLaw.siblings;
    p.decay = 1.0;
    p.log_error = 0.0;
    p.covariance = {};
    p.covariance[0] = rate_spread(rate) * rate_spread(rate);
    p.covariance[4] = std::pow(distance_from_law(kSiblingLaw), 2);
    p.covariance[8] = kAssumedFall * kAssumedFall;
  }
  return out;
}

}  // namespace versieve::engine
