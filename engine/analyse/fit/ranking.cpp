#include "engine/analyse/fit/ranking.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "engine/analyse/fit/context_ranges.h"
#include "engine/analyse/fit/fit_points.h"

namespace versieve::engine {
namespace {

using Group = std::vector<const RankedPoint*>;

std::string group_of(PointKey key) {
  key.strategy.clear();
  key.num_queries = 0;
  return key_text(key);
}

double queries_per_us(const RankedPoint& p, double us) {
  return static_cast<double>(p.key.num_queries) / us;
}

double predicted(const RankedPoint& p) {
  return queries_per_us(p, p.predicted_us);
}
double measured(const RankedPoint& p) {
  return queries_per_us(p, p.measured_us);
}

// -1, 0 or 1: which of two is greater, as far as the tolerance tells.
int order(double a, double b, double tolerance) {
  const double log_ratio = std::log(a / b);
  return std::abs(log_ratio) <= tolerance ? 0 : (log_ratio > 0.0 ? 1 : -1);
}

auto by(double (*of)(const RankedPoint&)) {
  return [of](const RankedPoint* a, const RankedPoint* b) { return of(*a) < of(*b); };
}

// The points that prediction and measurement rank first.
struct FirstChoices {
  const RankedPoint& chosen;
  const RankedPoint& best;

  explicit FirstChoices(const Group& group)
      : chosen(**std::max_element(group.begin(), group.end(), by(predicted))),
        best(**std::max_element(group.begin(), group.end(), by(measured))) {}

  // 1 - measured throughput of the predicted best / greatest measured throughput.
  double regret() const { return 1.0 - measured(chosen) / measured(best); }
  std::string text() const {
    const auto one = [](const RankedPoint& p) {
      char times[64];
      std::snprintf(times, sizeof times, " (%.1f us, predicted %.1f)", p.measured_us,
                    p.predicted_us);
      return p.key.strategy + times;
    };
    return "at " + std::to_string(best.key.context_len) + " tokens, overlap " +
           std::to_string(best.key.overlap.value_or(0.0)).substr(0, 4) + ": " + one(chosen) +
           " for " + one(best);
  }
};

class Ranker {
 public:
  void add(const Group& group) {
    if (group.size() < 2) {
      return;
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t j = i + 1; j < group.size(); ++j) {
        if (group[i]->precision == group[j]->precision) {
          classes_[{context_range_of(group[i]->key.context_len), group[i]->precision}].add(
              *group[i], *group[j]);
        }
      }
    }
    const FirstChoices first(group);
    const double lost = first.regret();
    regret_ += lost;
    groups_ += 1.0;
    if (lost > out_.worst_regret.value_or(-1.0)) {
      out_.worst_regret = lost;
      out_.worst_choice = lost > 0.0 ? first.text() : "";
    }
  }

  Ranking result() {
    PairCounts all;
    for (const auto& [place, pairs] : classes_) {
      RankedClass row{context_range_name(place.first), place.second, pairs, {}};
      if (pairs.told_apart() >= kEnoughPairs) {
        row.tau = pairs.tau_b();
      }
      if (row.tau) {
        out_.least_tau = std::min(out_.least_tau.value_or(1.0), *row.tau);
      }
      all.add(pairs);
      out_.classes.push_back(std::move(row));
    }
    out_.tau = all.tau_b();
    if (groups_ > 0.0) {
      out_.mean_regret = regret_ / groups_;
    }
    return std::move(out_);
  }

 private:
  std::map<std::pair<std::size_t, PrecisionClass>, PairCounts> classes_;
  Ranking out_;
  double regret_ = 0.0, groups_ = 0.0;
};

}  // namespace

void PairCounts::add(const RankedPoint& a, const RankedPoint& b) {
  const double tolerance = std::hypot(std::max(a.log_half_width, kRepeatability),
                                      std::max(b.log_half_width, kRepeatability));
  const int seen = order(engine::measured(a), engine::measured(b), tolerance);
  const int expected = order(engine::predicted(a), engine::predicted(b), tolerance);
  if (seen != 0 && expected != 0) {
    (seen == expected ? agreeing : opposed) += 1;
  } else if (seen != 0) {
    tied_predicted += 1;
  } else if (expected != 0) {
    tied_measured += 1;
  }
}

void PairCounts::add(const PairCounts& other) {
  agreeing += other.agreeing;
  opposed += other.opposed;
  tied_measured += other.tied_measured;
  tied_predicted += other.tied_predicted;
}

std::optional<double> PairCounts::tau_b() const {
  const double ordered = static_cast<double>(agreeing + opposed);
  const double by_measurement = ordered + static_cast<double>(tied_predicted);
  const double by_prediction = ordered + static_cast<double>(tied_measured);
  if (by_measurement <= 0.0 || by_prediction <= 0.0) {
    return {};
  }
  return static_cast<double>(agreeing - opposed) / std::sqrt(by_measurement * by_prediction);
}

Ranking rank(const std::vector<RankedPoint>& points) {
  std::map<std::string, Group> groups;
  for (const RankedPoint& p : points) {
    groups[group_of(p.key)].push_back(&p);
  }
  Ranker ranker;
  for (const auto& [key, group] : groups) {
    ranker.add(group);
  }
  return ranker.result();
}

}  // namespace versieve::engine
