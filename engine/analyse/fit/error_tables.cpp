#include "engine/analyse/fit/error_tables.h"

#include <map>
#include <tuple>

#include "engine/analyse/fit/context_ranges.h"
#include "engine/analyse/fit/cost_search.h"

namespace versieve::engine {
namespace {

std::string query_class(std::int64_t queries) {
  if (queries <= 1) {
    return "1";
  }
  return queries <= 16 ? "2-16" : (queries <= 64 ? "17-64" : "65-256");
}

}  // namespace

std::optional<double> judged_bytes(const FitPoint& p) {
  return p.dram_bytes.value_or(0.0) >= kLeastJudgedBytes ? p.dram_bytes : std::nullopt;
}

std::vector<RegimeError> errors_by_regime(const std::vector<const FitPoint*>& points,
                                          const HardwareSpec& hardware,
                                          const Calibration& calibration) {
  std::vector<RegimeError> out;
  std::map<std::tuple<std::string, std::size_t, std::int64_t>, std::pair<Errors, Errors>> cells;
  std::map<std::tuple<std::string, std::size_t, std::int64_t>, std::string> queries;
  for (const FitPoint* p : points) {
    const std::string name = query_class(p->key.num_queries);
    const std::int64_t order = name == "1" ? 0 : (name == "2-16" ? 1 : (name == "17-64" ? 2 : 3));
    const std::tuple key{std::string(name_of(p->key.workload)),
                         context_range_of(p->key.context_len), order};
    const Prediction predicted = predict(*p, hardware, calibration);
    cells[key].first.add(predicted.time_us, p->time_us);
    cells[key].second.add(predicted.dram_bytes, judged_bytes(*p));
    queries[key] = name;
  }
  for (const auto& [key, errors] : cells) {
    out.push_back({std::get<0>(key), context_range_name(std::get<1>(key)), queries[key],
                   errors.first.summary(), errors.second.summary()});
  }
  return out;
}

std::vector<TermError> errors_by_launch(const std::vector<const FitPoint*>& points,
                                        const HardwareSpec& hardware,
                                        const Calibration& calibration) {
  std::vector<TermError> out;
  std::array<TermError, kLaunchKindCount> rows;
  std::array<Errors, kLaunchKindCount> bytes;
  std::array<Errors, kLaunchKindCount> times;
  for (const FitPoint* p : points) {
    const PointWork work = planned_work(*p, calibration);
    const KindCosts kinds =
        cost_by_kind(work.observed, hardware, calibration.values, p->conditions);
    for (const RangeObservation& range : p->ranges) {
      const std::size_t k = static_cast<std::size_t>(range.kind);
      times[k].add(kinds[k].time_us, range.time_us);
      bytes[k].add(kinds[k].dram_bytes, range.dram_bytes);
      if (range.dram_bytes) {
        rows[k].predicted_bytes += kinds[k].dram_bytes;
        rows[k].measured_bytes += *range.dram_bytes;
        for (std::size_t t = 0; t < kTrafficTermCount; ++t) {
          rows[k].predicted_by_term[t] += kinds[k].term_bytes[t];
        }
      }
    }
  }
  for (std::size_t k = 0; k < kLaunchKindCount; ++k) {
    rows[k].launch = name_of(static_cast<LaunchKind>(k));
    rows[k].dram_bytes = bytes[k].summary();
    rows[k].latency = times[k].summary();
    if (rows[k].dram_bytes.points + rows[k].latency.points > 0) {
      out.push_back(rows[k]);
    }
  }
  return out;
}

}  // namespace versieve::engine
