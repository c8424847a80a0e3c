#include "engine/analyse/sim/validation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "engine/io/formatted.h"
#include "model/words/range_counters.h"

namespace versieve::engine {
namespace {

constexpr const char* kWholePoint = "all";
constexpr const char* kFewBytes = "below 1 MB";  // kLeastJudgedBytes

struct Totals {
  double read = 0.0, written = 0.0, requests = 0.0, hits = 0.0;

  double hit_rate() const { return requests > 0.0 ? hits / requests : 0.0; }
  Totals& operator+=(const Totals& other) {
    read += other.read;
    written += other.written;
    requests += other.requests;
    hits += other.hits;
    return *this;
  }
};

std::optional<Totals> totals_of(const RangeMeasurement& range) {
  const std::optional<DramBytes> bytes = dram_bytes(range);
  const std::optional<double> requests = counter_of(range, "lts__t_requests.sum");
  const std::optional<double> hits = counter_of(range, "lts__t_requests_lookup_hit.sum");
  if (!bytes || !requests || !hits) {
    return std::nullopt;
  }
  return Totals{bytes->read, bytes->written, *requests, *hits};
}

Comparison compared(const std::string& path, const PointKey& key, const Totals& counted,
                    const Totals& simulated) {
  return {.path = path,
          .key = key,
          .counted_bytes = counted.read + counted.written,
          .simulated_bytes = simulated.read + simulated.written,
          .counted_read = counted.read,
          .simulated_read = simulated.read,
          .counted_requests = counted.requests,
          .simulated_requests = simulated.requests,
          .counted_hit_rate = counted.hit_rate(),
          .simulated_hit_rate = simulated.hit_rate()};
}

// Of what was counted, or of a noise floor where next to nothing moved: other units of the chip
// read and write some ten kilobytes while a range is open.
double relative(double simulated, double counted) {
  return std::abs(simulated - counted) / std::max(counted, kFloorBytes);
}

// By rank, no interpolation: `share` of the values are at most that.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

SimulationErrors summary_of(const std::string& what,
                            const std::vector<const Comparison*>& members) {
  const auto errors = [&](double (Comparison::*error)() const) {
    std::vector<double> values;
    for (const Comparison* member : members) {
      values.push_back((member->*error)());
    }
    return values;
  };
  const std::vector<double> bytes = errors(&Comparison::bytes_error);
  const std::vector<double> read = errors(&Comparison::read_error);
  const std::vector<double> hits = errors(&Comparison::hit_rate_error);
  return {.what = what,
          .count = static_cast<std::int64_t>(members.size()),
          .bytes_median = quantile(bytes, 0.5),
          .bytes_p90 = quantile(bytes, 0.9),
          .read_median = quantile(read, 0.5),
          .read_p90 = quantile(read, 0.9),
          .hit_rate_median = quantile(hits, 0.5),
          .hit_rate_p90 = quantile(hits, 0.9)};
}

// "decode resa:b16p0.1f32", "topk:gvr": the workload and the part of the text that names the
// method.
std::string system_of(const PointKey& key) {
  const std::string method = key.strategy.substr(0, key.strategy.find('/'));
  const bool named = key.workload == WorkloadKind::kTopk ||
                     key.workload == WorkloadKind::kSampling ||
                     key.workload == WorkloadKind::kMachine;
  return named ? method : name_of(key.workload) + (" " + method);
}

}  // namespace

double Comparison::bytes_error() const {
  return relative(simulated_bytes, counted_bytes);
}
double Comparison::read_error() const {
  return relative(simulated_read, counted_read);
}
double Comparison::hit_rate_error() const {
  return std::abs(simulated_hit_rate - counted_hit_rate);
}

std::vector<Comparison> compare(const PointMeasurement& counted,
                                const PointMeasurement& simulated) {
  std::vector<Comparison> comparisons;
  Totals all_counted;
  Totals all_simulated;
  for (const RangeMeasurement& range : counted.ranges) {
    const auto twin =
        std::find_if(simulated.ranges.begin(), simulated.ranges.end(),
                     [&](const RangeMeasurement& other) { return other.path == range.path; });
    const std::optional<Totals> real = totals_of(range);
    if (twin == simulated.ranges.end() || !real) {
      continue;
    }
    const Totals computed = *totals_of(*twin);
    comparisons.push_back(compared(range.path, counted.key, *real, computed));
    all_counted += *real;
    all_simulated += computed;
  }
  if (!comparisons.empty()) {
    comparisons.push_back(compared(kWholePoint, counted.key, all_counted, all_simulated));
  }
  return comparisons;
}

std::vector<SimulationErrors> summarize(const std::vector<Comparison>& comparisons) {
  using Name = std::function<std::string(const Comparison&)>;
  const auto judged = [](const Comparison& c) { return c.counted_bytes >= kLeastJudgedBytes; };
  const auto whole = [&](const Comparison& c, const std::string& name) {
    return c.path == kWholePoint && judged(c) ? name : std::string();
  };
  const Name names[] = {
      [&](const Comparison& c) { return whole(c, kWholePoint); },
      [&](const Comparison& c) {
        return whole(c,
                     c.key.workload == WorkloadKind::kAttention ? std::string() : system_of(c.key));
      },
      [&](const Comparison& c) { return c.path != kWholePoint ? c.path : std::string(); },
      [&](const Comparison& c) { return whole(c, "L " + std::to_string(c.key.context_len)); },
      [&](const Comparison& c) { return whole(c, "N " + std::to_string(c.key.num_queries)); },
      [&](const Comparison& c) { return whole(c, name_of(c.key.cache_state)); },
      [&](const Comparison& c) {
        return c.path == kWholePoint && !judged(c) ? kFewBytes : std::string();
      }};
  std::vector<SimulationErrors> summaries;
  for (const Name& name : names) {
    std::map<std::string, std::vector<const Comparison*>> groups;
    std::vector<std::string> order;
    for (const Comparison& comparison : comparisons) {
      const std::string group = name(comparison);
      if (!group.empty()) {
        if (groups.find(group) == groups.end()) {
          order.push_back(group);
        }
        groups[group].push_back(&comparison);
      }
    }
    for (const std::string& group : order) {
      summaries.push_back(summary_of(group, groups[group]));
    }
  }
  return summaries;
}

std::string summary_text(const std::vector<SimulationErrors>& summaries) {
  std::string text =
      "                      points   DRAM bytes        of them read      L2 hit rate, points\n"
      "                               median     p90    median     p90    median     p90\n";
  for (const SimulationErrors& s : summaries) {
    text += formatted("%-22s %6lld   %5.1f %%  %5.1f %%   %5.1f %%  %5.1f %%   %5.1f    %5.1f\n",
                      s.what.c_str(), static_cast<long long>(s.count), 100.0 * s.bytes_median,
                      100.0 * s.bytes_p90, 100.0 * s.read_median, 100.0 * s.read_p90,
                      100.0 * s.hit_rate_median, 100.0 * s.hit_rate_p90);
  }
  return text;
}

}  // namespace versieve::engine
