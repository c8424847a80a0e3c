#include "gui/models/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "gui/models/machine_bench.h"
#include "model/plan/concurrency.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

// Only each eighth machine of the map is priced with all candidates, those between with the winners
// around them.
constexpr int kCoarse = 8;
static_assert((kMapSide - 1) % kCoarse == 0);
constexpr int kBisections = 12;  // of a border between two cells
// Requests of which candidates are looked for where an axis is of them.
constexpr std::int64_t kLookedAt[] = {1, 4, 16, 64, kMostConcurrency};

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

void fill_tornado(const MachineBench& bench, Sensitivity& out) {
  const Situation own = bench.own();
  for (int i = 0; i < kKnobCount; ++i) {
    const Knob knob = static_cast<Knob>(i);
    const Situation low = with_machine(own, turned(own.machine, knob, 1.0 / kTornadoReach));
    const Situation high = with_machine(own, turned(own.machine, knob, kTornadoReach));
    out.tornado.push_back({knob, value_of(knob, low), value_of(knob, high), bench.winner_in(low),
                           bench.winner_in(high)});
  }
  const auto width = [](const TornadoRow& row) {
    const bool is_low = row.low.strategy >= 0, is_high = row.high.strategy >= 0;
    return is_low && is_high   ? std::fabs(std::log(row.high.rate / row.low.rate))
           : is_low || is_high ? INFINITY
                               : 0.0;
  };
  std::stable_sort(out.tornado.begin(), out.tornado.end(),
                   [&](const TornadoRow& a, const TornadoRow& b) { return width(a) > width(b); });
}

void fill_map(const MachineBench& bench, Sensitivity& out) {
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
      const Situation in_cell = placed(in_row, out.question.x, across_at(column));
      // Between corners that differ another one may be the best that keeps the bound.
      cell(column, row) = bench.isBounded() && around.size() > 1
                              ? bench.winner_in(in_cell)
                              : bench.winner_among({around.begin(), around.end()}, in_cell, true);
    }
  }
}

// Along one axis of the map, the other at the machine's own value.
void add_borders(const MachineBench& bench, bool along_x, Sensitivity& out) {
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

std::string nothing_wins_text(const SensitivityQuestion& question) {
  const std::string& machine = question.plan->machine.key;
  const std::string requests = std::to_string(question.requests);
  const std::optional<double>& bound = question.plan->chosen.aims.itl_ms;
  char text[64] = "";
  std::snprintf(text, sizeof text, "%g", bound.value_or(0.0));
  return bound ? "no strategy of that range keeps " + std::string(text) + " ms between tokens on " +
                     machine + " with " + requests + " at a time; the bound is the planner's"
               : requests + " requests of that range do not fit into the memory of " + machine;
}

}  // namespace

SensitivityPtr find_sensitivity(const SensitivityQuestion& question) {
  MachineBench bench(question);
  std::vector<Situation> looked_at = extremes(question, bench.own());
  looked_at.push_back(bench.unturned());
  bench.find_candidates(looked_at);
  if (bench.strategies().empty()) {
    throw Error(ExitCode::kAnswerNo, "no strategy of that class can be priced in that range");
  }
  const Winner own = bench.winner_in(bench.own());
  const Winner unturned = bench.winner_in(bench.unturned());
  if (own.strategy < 0 && unturned.strategy < 0) {
    throw Error(ExitCode::kAnswerNo, nothing_wins_text(question));
  }
  std::shared_ptr<Sensitivity> out = std::make_shared<Sensitivity>();
  out->question = question;
  out->situation = bench.own();
  out->own = own;
  out->unturned = unturned;
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
