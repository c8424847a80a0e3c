#include "engine/analyse/fit/goals.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "model/words/range_text.h"

namespace versieve::engine {
namespace {

// Shares, as the project set them before it measured.
struct ErrorGoal {
  double median;
  double p90;
};
constexpr ErrorGoal kBytes{0.03, 0.10};
constexpr ErrorGoal kLatency{0.04, 0.12};
constexpr ErrorGoal kLeftOutLatency{0.08, 0.20};
constexpr double kLeastCovered = 0.85;
constexpr double kMostCovered = 0.95;
constexpr double kLeastTau = 0.9;
constexpr double kMeanRegret = 0.02;
constexpr double kWorstRegret = 0.06;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * share);
  return text;
}

std::string two(double a, double b) {
  return percent(a) + " / " + percent(b);
}

std::string counted(std::string text, std::int64_t count) {
  return std::move(text) + " (" + std::to_string(count) + ")";
}

bool covers(double share) {
  return share >= kLeastCovered && share <= kMostCovered;
}

class Goals {
 public:
  void errors(const std::string& what, const ErrorGoal& goal, const ErrorSummary& e) {
    if (e.points > 0) {
      add(what, two(goal.median, goal.p90), counted(two(*e.median_ape, *e.p90_ape), e.points),
          *e.median_ape <= goal.median && *e.p90_ape <= goal.p90);
    }
  }

  void coverage(const FitReport& r) {
    const std::string wanted = percent(kLeastCovered) + " to " + percent(kMostCovered);
    if (r.unseen_coverage_90) {
      add("90 % intervals hold", wanted, percent(*r.unseen_coverage_90),
          covers(*r.unseen_coverage_90));
    }
    if (r.batch_coverage_90) {
      add("- of steps of many requests", wanted, percent(*r.batch_coverage_90),
          covers(*r.batch_coverage_90));
    }
    each("- of each number of requests", wanted, r.batches);
    std::vector<double> ranges;  // of few points a share says nothing: one more or less is 5 %
    for (const CoverageRow& row : r.coverage) {
      if (row.points >= static_cast<std::int64_t>(kEnoughForRange)) {
        ranges.push_back(row.covered);
      }
    }
    if (ranges.empty()) {
      return;
    }
    const auto [least, most] = std::minmax_element(ranges.begin(), ranges.end());
    add("- in each context range", wanted,
        range_text(percent(*least), percent(*most)) + " (" + std::to_string(ranges.size()) +
            (ranges.size() == 1 ? " range)" : " ranges)"),
        covers(*least) && covers(*most));
  }

  // Of the numbers of requests between the least and the most that have enough points.
  void each(const std::string& what, const std::string& wanted,
            const std::vector<LeftOutError>& left_out) {
    std::vector<double> held;
    for (const LeftOutError& one : left_out) {
      if (!one.beyond && one.interval_coverage_90 &&
          one.latency.points >= static_cast<std::int64_t>(kEnoughForRange)) {
        held.push_back(*one.interval_coverage_90);
      }
    }
    if (!held.empty()) {
      const auto [least, most] = std::minmax_element(held.begin(), held.end());
      add(what, wanted,
          counted(range_text(percent(*least), percent(*most)), std::ssize(held)),
          covers(*least) && covers(*most));
    }
  }

  void ranking(const FitReport& r) {
    if (r.least_kendall_tau) {
      const std::int64_t classes = std::count_if(
          r.ranked.begin(), r.ranked.end(), [](const RankedClass& c) { return c.tau.has_value(); });
      char measured[96];
      std::snprintf(measured, sizeof measured, "%.3f at least (%d)", *r.least_kendall_tau,
                    static_cast<int>(classes));
      add("Kendall's tau, each range and class", "0.900", measured,
          *r.least_kendall_tau >= kLeastTau);
    }
    if (r.top1_regret && r.worst_regret) {
      add("regret of the first choice, mean / worst", two(kMeanRegret, kWorstRegret),
          two(*r.top1_regret, *r.worst_regret),
          *r.top1_regret <= kMeanRegret && *r.worst_regret <= kWorstRegret);
    }
  }

  std::vector<Goal> rows;

 private:
  void add(std::string what, std::string wanted, std::string measured, bool met) {
    rows.push_back({std::move(what), std::move(wanted), std::move(measured), met});
  }
};

}  // namespace

std::vector<Goal> goals_of(const FitReport& r) {
  Goals goals;
  goals.errors("DRAM bytes, held out", kBytes, r.dram_bytes);
  goals.errors("- of them the fused form", kBytes, r.dram_fused);
  goals.errors("- of them the vanilla form", kBytes, r.dram_vanilla);
  goals.errors("DRAM bytes, other systems", kBytes, r.system_dram);
  goals.errors("latency, held out", kLatency, r.latency);
  goals.errors("latency, regime left out", kLeftOutLatency, r.left_out_latency);
  goals.errors("latency, other systems", kLatency, r.system_latency);
  for (const SparseTermError& e : r.sparse_terms) {
    if (!e.beyond) {
      const std::string what = e.term + (e.axis.empty() ? "" : ", a whole " + e.axis + " left out");
      goals.errors("DRAM bytes, " + what, kBytes, e.dram_bytes);
      goals.errors("latency, " + what, e.axis.empty() ? kLatency : kLeftOutLatency, e.latency);
    }
  }
  goals.errors("DRAM bytes, a whole number of requests left out", kBytes, r.batch_dram);
  goals.errors("latency, a whole number of requests left out", kLeftOutLatency, r.batch_latency);
  goals.coverage(r);
  goals.ranking(r);
  return std::move(goals.rows);
}

}  // namespace versieve::engine
