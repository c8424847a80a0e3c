#include "engine/analyse/fit/sparse_terms.h"

#include <algorithm>
#include <set>

#include "engine/analyse/fit/error_tables.h"
#include "engine/analyse/fit/system_points.h"
#include "model/launches/resa_decode.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kFewestValues = 3;
constexpr TermAxis kAxes[] = {TermAxis::kBlock, TermAxis::kRatio, TermAxis::kPeriod,
                              TermAxis::kContext};

bool is_pass(const FitPoint& p) {
  return p.key.workload == WorkloadKind::kRectify;
}
bool is_period(const FitPoint& p) {
  return p.key.workload == WorkloadKind::kRectifiedStep;
}
bool is_layer_of_step(const FitPoint& p) {
  return p.key.workload == WorkloadKind::kDecode && p.strategy.attention == AttentionMethod::kResa;
}

// Nothing where the axis says nothing of the point.
std::optional<double> value_of(const FitPoint& p, TermAxis axis) {
  const bool passes = is_pass(p) || is_period(p);
  switch (axis) {
    case TermAxis::kBlock:
      return is_pass(p) ? std::nullopt
                        : std::optional(static_cast<double>(p.strategy.resa_key_block));
    case TermAxis::kRatio:
      return is_pass(p) ? std::nullopt : std::optional(p.strategy.resa_active_ratio);
    case TermAxis::kPeriod:
      return passes ? std::optional(static_cast<double>(p.strategy.resa_rectify_every))
                    : std::nullopt;
    case TermAxis::kContext:
      return static_cast<double>(p.key.context_len);
  }
  return {};
}

// Bytes of the whole cache of a layer, of which the terms are shares.
double cache_bytes(const FitPoint& p) {
  return static_cast<double>(p.key.context_len) * token_bytes(p.shape);
}

double scored_share(const FitPoint& p) {
  return 1.0 / static_cast<double>(p.strategy.resa_key_block);
}

// p as equation 4 of Rectified Sparse Attention rounds it, with its least number of blocks.
double attended_share(const FitPoint& p) {
  const std::int64_t b = p.strategy.resa_key_block;
  const double tokens = static_cast<double>(b * resa_active_blocks(p.key.context_len, p.strategy));
  return std::min(1.0, tokens / static_cast<double>(p.key.context_len));
}

}  // namespace

const char* name_of(TermAxis axis) {
  switch (axis) {
    case TermAxis::kBlock:
      return "b";
    case TermAxis::kRatio:
      return "p";
    case TermAxis::kPeriod:
      return "f";
    case TermAxis::kContext:
      return "L";
  }
  return "";
}

bool is_sparse_point(const FitPoint& p) {
  return is_pass(p) || is_period(p) || is_layer_of_step(p);
}

// Of a context all points over a dense cache, ReSA's or not.
bool TermRegime::holds(const FitPoint& p) const {
  const bool over_cache = !p.topk && !p.sampling;
  if (axis == TermAxis::kContext) {
    return over_cache && value_of(p, axis) == value;
  }
  const bool resa = over_cache && p.strategy.attention == AttentionMethod::kResa;
  return resa && value_of(p, axis) == value;
}

std::vector<TermRegime> term_regimes(const std::vector<FitPoint>& points) {
  std::vector<TermRegime> out;
  for (const TermAxis axis : kAxes) {
    std::set<double> values;
    for (const FitPoint& p : points) {
      if (is_pass(p) || (is_layer_of_step(p) && p.shape.dense.vanilla)) {  // of the campaign
        if (const std::optional<double> value = value_of(p, axis)) {
          values.insert(*value);
        }
      }
    }
    if (values.size() < kFewestValues) {
      continue;
    }
    for (const double value : values) {
      out.push_back({axis, value, value == *values.begin() || value == *values.rbegin()});
    }
  }
  return out;
}

const char* SparseTermErrors::name_of(Term term) {
  switch (term) {
    case Term::kScoring:
      return "key scoring";
    case Term::kSelection:
      return "selection";
    case Term::kAttending:
      return "attending";
    case Term::kPass:
      return "pass";
    case Term::kStep:
      return "layer of a step";
    case Term::kPeriod:
      return "step with its pass";
  }
  return "";
}

auto SparseTermErrors::row(Term term, const TermRegime* left_out) -> Row& {
  return rows_[{term, left_out == nullptr ? "" : engine::name_of(left_out->axis),
                left_out != nullptr && left_out->beyond}];
}

void SparseTermErrors::add_range(const FitPoint& p, LaunchKind kind, Term term, double formula,
                                 const KindCosts& kinds, const TermRegime* left_out) {
  for (const RangeObservation& range : p.ranges) {
    if (range.kind != kind) {
      continue;
    }
    const KindCost& cost = kinds[static_cast<std::size_t>(kind)];
    Row& r = row(term, left_out);
    r.latency.add(cost.time_us, range.time_us);
    if (range.dram_bytes.value_or(0.0) >= kLeastJudgedBytes) {
      r.bytes.add(cost.dram_bytes, range.dram_bytes);
      if (formula > 0.0) {
        r.of_formula.push_back(*range.read_bytes / formula);
      }
    }
  }
}

void SparseTermErrors::add(const FitPoint& p, const SystemPrediction& predicted,
                           const KindCosts& kinds, const TermRegime* left_out) {
  if (is_layer_of_step(p) && p.shape.dense.vanilla) {
    const double kv = cache_bytes(p);
    add_range(p, LaunchKind::kResaScore, Term::kScoring, kv * scored_share(p), kinds, left_out);
    add_range(p, LaunchKind::kResaSelect, Term::kSelection, 0.0, kinds, left_out);
    add_range(p, LaunchKind::kResaAttend, Term::kAttending, kv * attended_share(p), kinds,
              left_out);
    return;
  }
  Row& r = row(is_pass(p) ? Term::kPass : (is_period(p) ? Term::kPeriod : Term::kStep), left_out);
  r.latency.add(predicted.time_us, p.time_us);
  const std::optional<double> counted = judged_bytes(p);
  r.bytes.add(predicted.dram_bytes, counted);
  if (counted && !is_period(p)) {
    const double share = is_pass(p) ? 1.0 : scored_share(p) + attended_share(p);
    r.of_formula.push_back(*p.read_bytes / (cache_bytes(p) * share));
  }
}

std::vector<SparseTermError> SparseTermErrors::rows() const {
  std::vector<SparseTermError> out;
  for (const auto& [key, r] : rows_) {
    SparseTermError e{.term = name_of(std::get<0>(key)),
                      .axis = std::get<1>(key),
                      .beyond = std::get<2>(key),
                      .latency = r.latency.summary(),
                      .dram_bytes = r.bytes.summary(),
                      .of_formula = median(r.of_formula)};
    if (!r.of_formula.empty()) {
      const auto [least, most] = std::minmax_element(r.of_formula.begin(), r.of_formula.end());
      e.of_formula_least = *least;
      e.of_formula_most = *most;
    }
    out.push_back(std::move(e));
  }
  return out;
}

}  // namespace versieve::engine
