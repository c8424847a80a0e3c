#include "engine/analyse/fit/coverage.h"

#include <map>
#include <utility>

#include "engine/analyse/fit/context_ranges.h"
#include "engine/analyse/fit/error_summary.h"
#include "engine/analyse/fit/statistics.h"

namespace versieve::engine {
namespace {

std::size_t range_of(const Unseen& u) {
  return context_range_of(u.point->key.context_len);
}

// Half widths by fold and range, each worked out once.
class Widths {
 public:
  explicit Widths(const std::vector<Unseen>& folds) : folds_(folds) {}

  std::optional<double> of(const Unseen& u) {
    const std::pair place{u.fold, range_of(u)};
    const auto found = known_.find(place);
    return found != known_.end() ? found->second
                                 : known_.emplace(place, width(place)).first->second;
  }

 private:
  std::optional<double> width(const std::pair<int, std::size_t>& place) const {
    std::vector<double> own;
    std::vector<double> all;
    for (const Unseen& u : folds_) {
      const std::optional<double> error = u.log_latency_error();
      if (!error || u.fold == place.first) {
        continue;
      }
      all.push_back(*error);
      if (range_of(u) == place.second) {
        own.push_back(*error);
      }
    }
    return conformal_quantile(own.size() >= kEnoughForRange ? own : all, 0.9);
  }

  const std::vector<Unseen>& folds_;
  std::map<std::pair<int, std::size_t>, std::optional<double>> known_;
};

}  // namespace

CoverageTable coverage_by_range(const std::vector<Unseen>& folds,
                                const std::vector<Unseen>& held_out) {
  Widths widths(folds);
  std::map<std::size_t, Coverage> by_range;
  Coverage all;
  for (const std::vector<Unseen>* points : {&folds, &held_out}) {
    for (const Unseen& u : *points) {
      const std::optional<double> width = widths.of(u);
      by_range[range_of(u)].add(u.log_latency_error(), width);
      all.add(u.log_latency_error(), width);
    }
  }
  CoverageTable table{.all = all.share()};
  Coverage pooled;
  std::string names;
  for (const auto& [range, coverage] : by_range) {
    if (coverage.judged() >= static_cast<std::int64_t>(kEnoughForRange)) {
      table.rows.push_back({context_range_name(range), coverage.judged(), *coverage.share()});
    } else if (coverage.judged() > 0) {
      pooled.add(coverage);
      names += (names.empty() ? "pooled: " : ", ") + context_range_name(range);
    }
  }
  if (pooled.judged() > 0) {
    table.rows.push_back({names, pooled.judged(), *pooled.share()});
  }
  return table;
}

}  // namespace versieve::engine
