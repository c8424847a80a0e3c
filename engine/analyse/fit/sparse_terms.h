// The terms of a sparse step, KV(L) (1/b + p + 1/f), held against counters one by one: scoring of
// block keys, selection, attending, the pass that rectifies, and steps with and without it. Points
// of ReSA's vanilla form tell the first three apart; predictions are of fits that had not seen the
// point, or no point of its block size, ratio, period or context.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/cost_search.h"
#include "engine/analyse/fit/system_predictor.h"

namespace versieve::engine {

enum class TermAxis { kBlock, kRatio, kPeriod, kContext };
const char* name_of(TermAxis axis);  // "b", "p", "f", "L"

// A value of an axis to be left out of a fit.
struct TermRegime {
  TermAxis axis = TermAxis::kBlock;
  double value = 0.0;
  bool beyond = false;  // the least or the greatest

  bool holds(const FitPoint& point) const;
};

// A layer or a whole period of ReSA.
bool is_sparse_point(const FitPoint& point);
// Those of axes that were measured at three values or more beside one another.
std::vector<TermRegime> term_regimes(const std::vector<FitPoint>& points);

class SparseTermErrors {
 public:
  // `kinds`: what is predicted of the point's ranges. `left_out` null: a fit that had not seen the
  // point.
  void add(const FitPoint& point, const SystemPrediction& predicted, const KindCosts& kinds,
           const TermRegime* left_out);
  std::vector<SparseTermError> rows() const;

 private:
  enum class Term { kScoring, kSelection, kAttending, kPass, kStep, kPeriod };
  struct Row {
    Errors latency, bytes;
    std::vector<double> of_formula;
  };
  static const char* name_of(Term term);
  void add_range(const FitPoint& point, LaunchKind kind, Term term, double formula,
                 const KindCosts& kinds, const TermRegime* left_out);
  Row& row(Term term, const TermRegime* left_out);

  std::map<std::tuple<Term, std::string, bool>, Row> rows_;
};

}  // namespace versieve::engine
