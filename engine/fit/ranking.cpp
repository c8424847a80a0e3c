#include "engine/fit/ranking.h"

#include <algorithm>
#include <map>
#include <string>

#include "engine/fit/fit_points.h"
#include "engine/fit/statistics.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kEnoughForTau = 5;

std::string group_of(PointKey key) {
  key.strategy.clear();
  key.num_queries = 0;
  return key_text(key);
}

// 1 - measured throughput of the predicted best / greatest measured throughput.
double regret_of(const std::vector<double>& predicted, const std::vector<double>& measured) {
  const auto top = std::max_element(predicted.begin(), predicted.end()) - predicted.begin();
  return 1.0 - measured[static_cast<std::size_t>(top)] /
                   *std::max_element(measured.begin(), measured.end());
}

}  // namespace

Ranking rank(const std::vector<RankedPoint>& points) {
  std::map<std::string, std::vector<const RankedPoint*>> groups;
  for (const RankedPoint& p : points) {
    groups[group_of(p.key)].push_back(&p);
  }
  Ranking out;
  double tau = 0.0;
  double regret = 0.0;
  double count = 0.0;
  for (const auto& [key, group] : groups) {
    std::vector<double> predicted;
    std::vector<double> measured;
    for (const RankedPoint* p : group) {
      const double queries = static_cast<double>(p->key.num_queries);
      predicted.push_back(queries / p->predicted_us);
      measured.push_back(queries / p->measured_us);
    }
    const std::optional<double> agreement = kendall_tau(predicted, measured);
    if (!agreement) {
      continue;
    }
    const double lost = regret_of(predicted, measured);
    tau += *agreement;
    regret += lost;
    count += 1.0;
    out.worst_regret = std::max(out.worst_regret.value_or(0.0), lost);
    if (group.size() >= kEnoughForTau) {
      out.least_tau = std::min(out.least_tau.value_or(1.0), *agreement);
    }
  }
  if (count > 0.0) {
    out.mean_tau = tau / count;
    out.mean_regret = regret / count;
  }
  return out;
}

}  // namespace versieve::engine
