// From how many requests at a time on another kind of draft yields more: the tuples that a plan
// lists at its numbers of requests, priced between them.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "model/plan/cell_pricer.h"
#include "model/plan/concurrency.h"
#include "model/words/normal_law.h"

namespace versieve {
namespace {

constexpr std::size_t kKinds = 3;

double log_spread(const Interval& interval) {
  return std::log(interval.high / interval.low) / (2.0 * kNinety);
}

// Prices by requests at a time, made as they are asked for.
class Prices {
 public:
  using Make = std::function<std::unique_ptr<CellPricer>(std::int64_t)>;
  explicit Prices(Make make) : make_(std::move(make)) {}
  const CellPricer& at(std::int64_t requests) {
    std::unique_ptr<CellPricer>& made = made_[requests];
    if (!made) {
      made = make_(requests);
    }
    return *made;
  }

 private:
  Make make_;
  std::map<std::int64_t, std::unique_ptr<CellPricer>> made_;
};

using Kinds = std::array<std::vector<Strategy>, kKinds>;

void add_kind(const Strategy& s, Kinds& kinds) {
  std::vector<Strategy>& of = kinds[static_cast<std::size_t>(draft_kind_of(s))];
  if (std::find(of.begin(), of.end(), s) == of.end()) {
    of.push_back(s);
  }
}

// What a plan lists of the cell at any number of requests; of class Strict its plain chains too.
Kinds kinds_of(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  Kinds kinds;
  for (const PlanTable* of : by_concurrency(table)) {
    for (const PlanEntry* e : entries_of(*of, bucket, precision)) {
      if (e->baseline.empty() || e->evaluation.strategy.precision() == precision) {
        add_kind(e->evaluation.strategy, kinds);
      }
    }
    for (const PlanBaseline& b : of->baselines) {
      const bool chain = b.role == "chain" && precision == PrecisionClass::kStrict;
      if (b.bucket == bucket && (chain || b.role == "autoregressive")) {
        add_kind(b.evaluation.strategy, kinds);
      }
    }
  }
  return kinds;
}

// One kind, or more, that yields to others.
struct Rivals {
  std::vector<DraftKind> from, to;
};

class Cell {
 public:
  using Yield = std::function<double(const Evaluation&)>;
  Cell(Prices& prices, const ContextBucket& bucket, Kinds kinds, Yield yield)
      : prices_(prices), bucket_(bucket), kinds_(std::move(kinds)), yield_(std::move(yield)) {}

  bool has(const std::vector<DraftKind>& kinds) const {
    return std::any_of(kinds.begin(), kinds.end(),
                       [this](DraftKind kind) { return !of(kind).empty(); });
  }
  const Evaluation& best(const std::vector<DraftKind>& kinds, std::int64_t requests) {
    const Evaluation* out = nullptr;
    for (const DraftKind kind : kinds) {
      if (!of(kind).empty()) {
        const Evaluation& e = best(kind, requests);
        out = out == nullptr || yield_(e) > yield_(*out) ? &e : out;
      }
    }
    return *out;
  }
  // By how many standard deviations the first of them yields more.
  double lead(const Rivals& rivals, std::int64_t requests) {
    const Evaluation& a = best(rivals.from, requests);
    const Evaluation& b = best(rivals.to, requests);
    const double spread =
        std::hypot(log_spread(compared_interval(a)), log_spread(compared_interval(b)));
    return std::log(yield_(a) / yield_(b)) / std::max(1e-9, spread);
  }
  // The fewest requests, to `most`, at which the lead is below that; 0: none.
  std::int64_t first_below(const Rivals& rivals, double bar, std::int64_t most) {
    std::int64_t before = 0, at = 1;
    while (lead(rivals, at) >= bar) {
      if (at == most) {
        return 0;
      }
      before = at;
      at = std::min(most, 2 * at);
    }
    while (at - before > 1) {
      const std::int64_t middle = (before + at) / 2;
      (lead(rivals, middle) >= bar ? before : at) = middle;
    }
    return at;
  }

 private:
  const std::vector<Strategy>& of(DraftKind kind) const {
    return kinds_[static_cast<std::size_t>(kind)];
  }
  const Evaluation& best(DraftKind kind, std::int64_t requests) {
    const auto [at, is_new] = best_.try_emplace({kind, requests});
    if (is_new) {
      std::string note;
      for (const Strategy& s : of(kind)) {
        Evaluation e = prices_.at(requests).evaluate(s, bucket_, note);
        if (!at->second.cost || yield_(e) > yield_(at->second)) {
          at->second = std::move(e);
        }
      }
    }
    return at->second;
  }

  Prices& prices_;
  const ContextBucket& bucket_;
  Kinds kinds_;
  Yield yield_;
  std::map<std::pair<DraftKind, std::int64_t>, Evaluation> best_;
};

// One switch, if there is one that begins with what is best of one request.
void add_switch(const Rivals& rivals, std::int64_t most, Cell& cell, SwitchPoint point,
                std::vector<SwitchPoint>& out) {
  if (!cell.has(rivals.from) || !cell.has(rivals.to) || cell.lead(rivals, 1) <= 0.0) {
    return;
  }
  point.requests = cell.first_below(rivals, 0.0, most);
  if (point.requests == 0) {
    return;
  }
  point.from = cell.best(rivals.from, point.requests).strategy;
  point.to = cell.best(rivals.to, point.requests).strategy;
  point.low = cell.first_below(rivals, kNinety, most);
  point.high = cell.first_below(rivals, -kNinety, most);
  out.push_back(point);
}

void add_switches(SwitchPoint point, std::int64_t most, Cell& cell, std::vector<SwitchPoint>& out) {
  const std::size_t before = out.size();
  add_switch({{DraftKind::kTree}, {DraftKind::kChain, DraftKind::kPlain}}, most, cell, point, out);
  const bool tree_ends = out.size() > before && draft_kind_of(out.back().to) == DraftKind::kPlain;
  if (!tree_ends) {
    add_switch({{DraftKind::kTree, DraftKind::kChain}, {DraftKind::kPlain}}, most, cell, point,
               out);
  }
}

// The most of the planned requests that fit with a draft.
std::int64_t most_requests(const PlanTable& table, std::size_t bucket) {
  const std::int64_t planned = by_concurrency(table).back()->concurrency;
  return bucket < table.memory.size() ? std::min(planned, table.memory[bucket].requests())
                                      : planned;
}

}  // namespace

std::vector<SwitchPoint> switch_points(const FittedModel& fit, const HardwareSpec& hardware,
                                       const LlmShape& target, const PlanOptions& options,
                                       const PlanTable& table) {
  std::vector<SwitchPoint> out;
  if (table.batched.empty()) {
    return out;
  }
  Prices prices([&](std::int64_t requests) {
    return std::make_unique<CellPricer>(fit, hardware, target, options, requests);
  });
  for (std::size_t b = 0; b < table.buckets.size(); ++b) {
    const std::int64_t most = most_requests(table, b);
    for (const PrecisionClass precision : table.classes) {
      const std::int64_t bucket = static_cast<std::int64_t>(b);
      if (most >= 2 && best_of(table, bucket, precision) != nullptr) {
        Cell cell(
            prices, table.buckets[b], kinds_of(table, bucket, precision),
            [&](const Evaluation& e) { return yield_of(options.aims.objective, fit.energy, e); });
        add_switches({.bucket = bucket, .precision = precision}, most, cell, out);
      }
    }
  }
  return out;
}

}  // namespace versieve
