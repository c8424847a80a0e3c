// Figure 7: how long a verification takes by draft length, dense and sparse.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "engine/analyse/figures/figure.h"

namespace versieve::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kOverlap = 0.8;  // of synthetic queries, where several were measured
constexpr const char* kSweep = "versieve profile --sweep paper-figures";

struct Series {
  const char* name;
  std::function<bool(const TimedPoint&)> holds;
};

bool is_sparse(const TimedPoint& p, std::int64_t group, const char* schedule) {
  const Strategy& s = p.strategy;
  return p.model == "nsa-1b" && s.attention == AttentionMethod::kNsa && s.form == NsaForm::kFused &&
         s.schedule == schedule && s.order == Traversal::kBfs &&
         (!s.draft.speculates() ? group == 1 : s.group_size == group) &&
         s.group_mode == GroupMode::kExact;
}

bool is_dense(const TimedPoint& p) {
  return p.model == "dense-1b" && p.strategy.attention == AttentionMethod::kDense;
}

bool is_layer(const TimedPoint& p, WorkloadKind workload) {
  return p.workload == workload && p.cache_state == "cold_rotate" && p.launch == "graph" &&
         (!p.overlap || std::abs(*p.overlap - kOverlap) < 1e-9);
}

std::vector<Series> layer_series() {
  const auto sparse = [](std::int64_t group, const char* schedule) {
    return [group, schedule](const TimedPoint& p) {
      return is_layer(p, WorkloadKind::kAttention) && is_sparse(p, group, schedule);
    };
  };
  return {{"dense",
           [](const TimedPoint& p) { return is_layer(p, WorkloadKind::kDecode) && is_dense(p); }},
          {"sparse, refresh c1", sparse(1, "F*")},
          {"refresh c8e", sparse(8, "F*")},
          {"reuse c1", sparse(1, "(FR)*")},
          {"reuse c8e", sparse(8, "(FR)*")}};
}

std::vector<Series> step_series() {
  const auto sparse = [](std::int64_t group, const char* schedule) {
    return [group, schedule](const TimedPoint& p) {
      return p.workload == WorkloadKind::kStep && p.launch == "graph" &&
             is_sparse(p, group, schedule);
    };
  };
  return {{"dense",
           [](const TimedPoint& p) {
             return p.workload == WorkloadKind::kStep && p.launch == "graph" && is_dense(p);
           }},
          {"sparse, F* c1", sparse(1, "F*")},
          {"F* c8e", sparse(8, "F*")},
          {"(FR)* c1", sparse(1, "(FR)*")},
          {"(FR)* c8e", sparse(8, "(FR)*")}};
}

// Rows of a context: by queries of a layer, by draft of a step, so that a step's draft is the same.
struct Key {
  std::int64_t context_len;
  std::int64_t num_queries;
  std::string draft;  // of steps

  auto operator<=>(const Key&) const = default;
};

std::string draft_of(const Strategy& s) {
  return !s.draft.speculates()
             ? std::string("plain")
             : "d" + std::to_string(s.draft.depth) + "k" + std::to_string(s.draft.width) + "n" +
                   std::to_string(s.draft.nodes);
}

std::vector<FigureTable> tables_of(const FiguresInput& input, const std::vector<Series>& series,
                                   bool steps) {
  std::map<Key, std::vector<std::vector<double>>> cells;  // [series] of times
  for (const TimedPoint& p : input.timed) {
    for (std::size_t i = 0; i < series.size(); ++i) {
      if (series[i].holds(p)) {
        auto& row = cells[{p.context_len, p.num_queries, steps ? draft_of(p.strategy) : ""}];
        row.resize(series.size());
        row[i].push_back(p.median_us);
      }
    }
  }
  std::map<std::int64_t, std::set<std::size_t>> known;  // series of a context
  for (const auto& [key, row] : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!row[i].empty()) {
        known[key.context_len].insert(i);
      }
    }
  }
  std::vector<FigureTable> tables;
  std::int64_t context = -1;
  for (const auto& [key, row] : cells) {
    if (known[key.context_len].count(0) == 0 || known[key.context_len].size() < 2) {
      continue;  // nothing stands beside it
    }
    if (key.context_len != context) {
      context = key.context_len;
      FigureTable& table = tables.emplace_back();
      table.caption = std::string(steps ? "whole step of dense-1b and nsa-1b, us; the draft is the "
                                          "same in a row"
                                        : "one layer's attention, us, cold cache") +
                      "; context " + std::to_string(context) + ", " + input.device;
      table.columns = {{steps ? "draft" : "queries", 0}};
      for (const Series& each : series) {
        table.columns.push_back({each.name, 1});
      }
    }
    std::vector<Json> line = {steps ? Json(key.draft) : Json(key.num_queries)};
    for (const std::vector<double>& times : row) {
      double sum = 0.0;
      for (const double us : times) {
        sum += us;
      }
      line.push_back(times.empty() ? Json() : Json(sum / static_cast<double>(times.size())));
    }
    tables.back().rows.push_back(std::move(line));
  }
  return tables;
}

bool has_dense_drafts(const FiguresInput& input, WorkloadKind workload) {
  return std::any_of(input.timed.begin(), input.timed.end(), [workload](const TimedPoint& p) {
    return p.workload == workload && is_dense(p) && p.num_queries > 1;
  });
}

}  // namespace

Figure figure_7(const FiguresInput& input) {
  Figure figure{.name = "figure 7",
                .asks = "dense against sparse verification by draft length",
                .paper =
                    "full attention and its variants show different trends of forward latency "
                    "as the draft grows (Section 6); a plot without numbers",
                .papers = {},
                .tables = tables_of(input, layer_series(), false),
                .missing = {}};
  if (!has_dense_drafts(input, WorkloadKind::kDecode)) {
    figure.missing.push_back(
        "no dense layer was timed with several queries: " + std::string(kSweep) + " does on a GPU");
  }
  if (has_dense_drafts(input, WorkloadKind::kStep)) {
    for (FigureTable& table : tables_of(input, step_series(), true)) {
      figure.tables.push_back(std::move(table));
    }
  } else {
    figure.missing.push_back("no whole step of a dense target with a draft was timed: " +
                             std::string(kSweep) + " does on a GPU");
  }
  return figure;
}

}  // namespace versieve::engine
