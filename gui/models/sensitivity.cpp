#include "gui/models/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "model/plan/candidate_prices.h"
#include "model/plan/concurrency.h"
#include "model/plan/memory_need.h"
#include "model/plan/tuple_pricer.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr double kNear = 0.97;  // of the winner's rate: candidates come so near somewhere
// Only each eighth machine of the map is priced with all candidates, those between with the winners
// around them.
constexpr int kCoarse = 8;
static_assert((kMapSide - 1) % kCoarse == 0);
constexpr std::int64_t kShortestContext = 512;  // of an axis of contexts
constexpr int kBisections = 12;                 // of a border between two cells
// Requests of which candidates are looked for where an axis is of them.
constexpr std::int64_t kLookedAt[] = {1, 4, 16, 64, kMostConcurrency};

// Prices a question's candidates on one machine after another.
class Bench {
 public:
  explicit Bench(const SensitivityQuestion& question)
      : question_(question), plan_(*question.plan), fit_(plan_.basis->fit) {
    fit_.acceptance = plan_.chosen_acceptance;
  }

  // The planner's machine, and turned by the question's factors.
  Situation unturned() const {
    const std::vector<ContextBucket>& ranges = plan_.chosen.buckets;
    return {.machine = turned(plan_.machine, Knob::kBandwidth, 1.0),
            .requests = question_.requests,
            .range = ranges.at(static_cast<std::size_t>(question_.bucket)),
            .shortest = std::max(kShortestContext, fit_.shortest_context()),
            .longest = ranges.back().high};
  }
  Situation own() const {
    Situation out = unturned();
    for (int i = 0; i < kKnobCount; ++i) {
      if (const double factor = question_.factors[static_cast<std::size_t>(i)]; factor != 1.0) {
        out.machine = turned(std::move(out.machine), static_cast<Knob>(i), factor);
      }
    }
    return out;
  }
  const std::vector<Strategy>& strategies() const { return strategies_; }

  // Those that lead in some of these situations and are hardly behind the winner of one.
  void find_candidates(const std::vector<Situation>& situations) {
    const std::vector<Strategy> leading = leading_in(situations);
    std::vector<bool> is_near(leading.size(), false);
    for (const Situation& situation : situations) {
      const auto rate_of = rates_in(situation);
      std::vector<double> rates;
      for (const Strategy& strategy : leading) {
        rates.push_back(rate_of(strategy));
      }
      const double best = rates.empty() ? 0.0 : *std::max_element(rates.begin(), rates.end());
      for (std::size_t i = 0; i < rates.size(); ++i) {
        is_near[i] = is_near[i] || (rates[i] > 0.0 && rates[i] >= kNear * best);
      }
    }
    for (std::size_t i = 0; i < leading.size(); ++i) {
      if (is_near[i]) {
        all_.push_back(static_cast<int>(strategies_.size()));
        strategies_.push_back(leading[i]);
      }
    }
  }

  // Of equals the candidate that was found first.
  Winner winner_in(const Situation& situation) const { return winner_among(all_, situation); }
  // REQUIRES: ascending; -1 is none of them.
  Winner winner_among(const std::vector<int>& candidates, const Situation& situation) const {
    const auto rate_of = rates_in(situation);
    Winner best;
    for (const int i : candidates) {
      if (i < 0) {
        continue;
      }
      const double rate = rate_of(strategies_[static_cast<std::size_t>(i)]);
      if (rate > best.rate) {
        best = {i, rate};
      }
    }
    return best;
  }

 private:
  CandidatePrices& prices_of(const ContextBucket& range) const {
    return prices_.try_emplace({range.low, range.high}, fit_, plan_.target(), plan_.draft, range)
        .first->second;
  }
  // Tokens a second of a strategy, 0 where it does not fit. Outlives neither of the two. What
  // measured steps of many requests say is not a matter of launches alone.
  std::function<double(const Strategy&)> rates_in(const Situation& situation) const {
    if (situation.requests == 1 || fit_.batch.points == 0) {
      CandidatePrices& prices = prices_of(situation.range);
      return
          [this, &prices, &situation,
           machine = prices.on(situation.machine, situation.requests)](const Strategy& strategy) {
            return fits(strategy, situation) ? prices.throughput(strategy, machine) : 0.0;
          };
    }
    return [this, &situation,
            pricer = Pricer(fit_, situation.machine, plan_.target(), plan_.draft, kUsualRequests,
                            situation.requests)](const Strategy& strategy) {
      std::string note;
      return fits(strategy, situation) ? pricer.evaluate(strategy, situation.range, note).throughput
                                       : 0.0;
    };
  }
  // One request is not held to the memory.
  bool fits(const Strategy& strategy, const Situation& situation) const {
    return situation.requests == 1 ||
           memory_need(strategy, plan_.target(), plan_.draft, nullptr, situation.range.high,
                       bytes_of(fit_.dtype), situation.machine)
                   .requests() >= situation.requests;
  }
  // Of the question's class, by the model of steps by parts; a class's baselines may win it too.
  std::vector<Strategy> leading_in(const std::vector<Situation>& situations) const {
    std::map<std::int64_t, std::vector<HardwareSpec>> machines;
    for (const Situation& situation : situations) {
      machines[situation.requests].push_back(situation.machine);
    }
    const PlanBasis& basis = *plan_.basis;
    const LossTerms loss{engine::loss_prices(basis.grounds, fit_.acceptance),
                         plan_.chosen.max_loss};
    std::vector<Strategy> leading;
    for (const auto& [requests, on] : machines) {
      for (const std::size_t range : ranges()) {
        for (const Strategy& strategy :
             basis.replanner->leading_on(on, fit_.acceptance, plan_.draft, loss, range, requests,
                                         decided_by_parts() ? kNear : 0.0)) {
          if (is_asked_for(strategy) &&
              std::find(leading.begin(), leading.end(), strategy) == leading.end()) {
            leading.push_back(strategy);
          }
        }
      }
    }
    return leading;
  }
  // Whether the model of steps by parts says of each situation what the candidates' own prices do.
  bool decided_by_parts() const {
    return ranges().size() == 1 && question_.requests == 1 && question_.x != Knob::kRequests &&
           question_.y != Knob::kRequests;
  }
  // In which candidates are looked for.
  std::vector<std::size_t> ranges() const {
    if (question_.x != Knob::kContext && question_.y != Knob::kContext) {
      return {static_cast<std::size_t>(question_.bucket)};
    }
    std::vector<std::size_t> all(plan_.chosen.buckets.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }
  bool is_asked_for(const Strategy& strategy) const {
    const PrecisionClass precision = strategy.precision();
    if (!question_.precision) {
      return precision < PrecisionClass::kSparseRectified;
    }
    return precision == *question_.precision || is_baseline(strategy);
  }
  // A candidate of every class.
  bool is_baseline(const Strategy& strategy) const {
    return std::any_of(plan_.chosen.baselines.begin(), plan_.chosen.baselines.end(),
                       [&](const PlanBaseline& baseline) {
                         return (baseline.role == "fixed" || baseline.role == "autoregressive") &&
                                baseline.evaluation.strategy == strategy;
                       });
  }

  const SensitivityQuestion& question_;
  const Plan& plan_;
  FittedModel fit_;
  // By the ends of a range of contexts; each composes what it is asked for first.
  mutable std::map<std::pair<std::int64_t, std::int64_t>, CandidatePrices> prices_;
  std::vector<Strategy> strategies_;
  std::vector<int> all_;  // their places
};

Situation with_machine(Situation of, HardwareSpec machine) {
  of.machine = std::move(machine);
  return of;
}

double across_at(int place) {
  return static_cast<double>(place) / (kMapSide - 1);
}

// The machine itself, the ends of all knobs and the corners of the map; where an axis is of
// requests, several numbers of them.
std::vector<Situation> extremes(const SensitivityQuestion& question, const Situation& own) {
  std::vector<Situation> out = {own};
  for (int i = 0; i < kKnobCount; ++i) {
    for (const double factor : {1.0 / kTornadoReach, kTornadoReach}) {
      out.push_back(with_machine(own, turned(own.machine, static_cast<Knob>(i), factor)));
    }
  }
  const auto ends = [](const Situation& of, Knob knob) {
    std::vector<Situation> turned;
    if (knob != Knob::kRequests) {
      return std::vector{placed(of, knob, 0.0), placed(of, knob, 1.0)};
    }
    for (const std::int64_t requests : kLookedAt) {
      turned.push_back(of);
      turned.back().requests = requests;
    }
    return turned;
  };
  for (const Situation& at : ends(own, question.x)) {
    for (const Situation& corner : ends(at, question.y)) {
      out.push_back(corner);
    }
  }
  return out;
}

void fill_tornado(const Bench& bench, Sensitivity& out) {
  const Situation own = bench.own();
  for (int i = 0; i < kKnobCount; ++i) {
    const Knob knob = static_cast<Knob>(i);
    const Situation low = with_machine(own, turned(own.machine, knob, 1.0 / kTornadoReach));
    const Situation high = with_machine(own, turned(own.machine, knob, kTornadoReach));
    out.tornado.push_back({knob, value_of(knob, low), value_of(knob, high), bench.winner_in(low),
                           bench.winner_in(high)});
  }
  const auto width = [](const TornadoRow& row) {
    return std::fabs(std::log(row.high.rate / row.low.rate));
  };
  std::stable_sort(out.tornado.begin(), out.tornado.end(),
                   [&](const TornadoRow& a, const TornadoRow& b) { return width(a) > width(b); });
}

void fill_map(const Bench& bench, Sensitivity& out) {
  const Situation own = bench.own();
  for (int place = 0; place < kMapSide; ++place) {
    out.x.push_back(value_of(out.question.x, placed(own, out.question.x, across_at(place))));
    out.y.push_back(value_of(out.question.y, placed(own, out.question.y, across_at(place))));
  }
  const auto at = [&](int column, int row) {
    return placed(placed(own, out.question.y, across_at(row)), out.question.x, across_at(column));
  };
  out.map.resize(static_cast<std::size_t>(kMapSide * kMapSide));
  const auto cell = [&](int column, int row) -> Winner& {
    return out.map[static_cast<std::size_t>(row * kMapSide + column)];
  };
  for (int row = 0; row < kMapSide; row += kCoarse) {
    for (int column = 0; column < kMapSide; column += kCoarse) {
      cell(column, row) = bench.winner_in(at(column, row));
    }
  }
  for (int row = 0; row < kMapSide; ++row) {
    const Situation in_row = placed(own, out.question.y, across_at(row));
    for (int column = 0; column < kMapSide; ++column) {
      if (row % kCoarse == 0 && column % kCoarse == 0) {
        continue;
      }
      std::set<int> around;  // winners at the corners of the block that the cell lies in
      const int top = row / kCoarse * kCoarse, left = column / kCoarse * kCoarse;
      for (const int y : {top, std::min(top + kCoarse, kMapSide - 1)}) {
        for (const int x : {left, std::min(left + kCoarse, kMapSide - 1)}) {
          around.insert(cell(x, y).strategy);
        }
      }
      cell(column, row) = bench.winner_among({around.begin(), around.end()},
                                             placed(in_row, out.question.x, across_at(column)));
    }
  }
}

// Along one axis of the map, the other at the machine's own value.
void add_borders(const Bench& bench, bool along_x, Sensitivity& out) {
  const Knob knob = along_x ? out.question.x : out.question.y;
  const Knob other = along_x ? out.question.y : out.question.x;
  const int fixed = own_place(other, bench.own());
  const Situation own = placed(bench.own(), other, across_at(fixed));
  const auto winner = [&](int place) {
    return (along_x ? out.at(place, fixed) : out.at(fixed, place)).strategy;
  };
  for (int place = 1; place < kMapSide; ++place) {
    const int below = winner(place - 1);
    const int above = winner(place);
    if (below == above) {
      continue;
    }
    const std::vector<int> both = {std::min(below, above), std::max(below, above)};
    double low = across_at(place - 1);
    double high = across_at(place);
    for (int i = 0; i < kBisections; ++i) {
      const double middle = 0.5 * (low + high);
      const bool is_below = bench.winner_among(both, placed(own, knob, middle)).strategy == below;
      (is_below ? low : high) = middle;
    }
    out.borders.push_back({knob, value_of(knob, placed(own, knob, high)), below, above});
  }
}

// The strategies that win somewhere, those of most cells first; all indices follow.
void keep_winners(const std::vector<Strategy>& candidates, Sensitivity& out) {
  std::map<int, int> cells;
  std::vector<Winner*> winners = {&out.own, &out.unturned};
  for (Winner& winner : out.map) {
    winners.push_back(&winner);
  }
  for (TornadoRow& row : out.tornado) {
    winners.push_back(&row.low);
    winners.push_back(&row.high);
  }
  for (const Winner* winner : winners) {
    cells[winner->strategy] += 1;
  }
  cells.erase(-1);
  std::vector<int> order;
  for (const auto& [strategy, count] : cells) {
    order.push_back(strategy);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cells[a] > cells[b]; });
  std::map<int, int> place = {{-1, -1}};
  for (const int strategy : order) {
    place[strategy] = static_cast<int>(out.strategies.size());
    out.strategies.push_back(candidates[static_cast<std::size_t>(strategy)]);
  }
  for (Winner* winner : winners) {
    winner->strategy = place[winner->strategy];
  }
  for (WinnerBorder& border : out.borders) {
    border.below = place[border.below];
    border.above = place[border.above];
  }
}

}  // namespace

SensitivityPtr find_sensitivity(const SensitivityQuestion& question) {
  if (question.plan->isDense()) {
    throw Error(ExitCode::kAnswerNo,
                question.plan->target().name +
                    " is a dense target, of which one machine at a time is planned: turn the "
                    "planner's knobs, or choose a sparse target there");
  }
  Bench bench(question);
  std::vector<Situation> looked_at = extremes(question, bench.own());
  looked_at.push_back(bench.unturned());
  bench.find_candidates(looked_at);
  if (bench.strategies().empty()) {
    throw Error(ExitCode::kAnswerNo, "no strategy of that class can be priced in that range");
  }
  if (bench.winner_in(bench.own()).strategy < 0) {
    throw Error(ExitCode::kAnswerNo, std::to_string(question.requests) +
                                         " requests of that range do not fit into the memory of " +
                                         question.plan->machine.key);
  }
  std::shared_ptr<Sensitivity> out = std::make_shared<Sensitivity>();
  out->question = question;
  out->situation = bench.own();
  out->own = bench.winner_in(out->situation);
  out->unturned = bench.winner_in(bench.unturned());
  fill_tornado(bench, *out);
  fill_map(bench, *out);
  add_borders(bench, true, *out);
  if (question.x != question.y) {
    add_borders(bench, false, *out);
  }
  keep_winners(bench.strategies(), *out);
  return out;
}

SensitivityModel::SensitivityModel(Planner& planner, QObject* parent)
    : QObject(parent), planner_(planner) {
  connect(&planner, &Planner::changed, this, &SensitivityModel::follow_plan);
}

void SensitivityModel::need() {
  needed_ = true;
  planner_.need();
  follow_plan();
}

void SensitivityModel::ask(int bucket, std::optional<PrecisionClass> precision, Knob x, Knob y,
                           std::int64_t requests, const std::array<double, kKnobCount>& factors) {
  question_.bucket = bucket;
  question_.precision = precision;
  question_.x = x;
  question_.y = y;
  question_.requests = requests;
  question_.factors = factors;
  if (needed_ && question_.plan) {
    start();
  }
}

void SensitivityModel::follow_plan() {
  if (!needed_) {
    return;
  }
  const PlanPtr& plan = planner_.plan();
  if (!plan) {
    question_.plan.reset();
    answer_.reset();
    sentence_ = planner_.sentence();
  } else if (plan != question_.plan) {
    question_.plan = plan;
    question_.bucket =
        std::clamp(question_.bucket, 0, static_cast<int>(plan->chosen.buckets.size()) - 1);
    start();
    return;
  }
  Q_EMIT changed();
}

void SensitivityModel::go_on() {
  if (asked_again_ && question_.plan) {
    start();
  } else {
    Q_EMIT changed();
  }
}

// While one question is answered only the last one waits.
void SensitivityModel::start() {
  asked_again_ = job_.isRunning();
  if (asked_again_) {
    return;
  }
  job_.start<SensitivityPtr>([question = question_] { return find_sensitivity(question); },
                             [this](const SensitivityPtr& answer) {
                               answer_ = answer;
                               sentence_.clear();
                               go_on();
                             },
                             [this](const QString& sentence) {
                               answer_.reset();
                               sentence_ = sentence;
                               go_on();
                             });
  Q_EMIT changed();
}

}  // namespace versieve::gui
