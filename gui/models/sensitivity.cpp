#include "gui/models/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "model/plan/tuple_pricer.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr double kNear = 0.97;  // of the winner's rate: candidates come so near somewhere
// Only each fourth machine of the map is priced with all candidates, those between with the winners
// around them.
constexpr int kCoarse = 4;
static_assert((kMapSide - 1) % kCoarse == 0);
constexpr int kBisections = 12;  // of a border between two cells

double& field(HardwareSpec& machine, HardwareField which) {
  return machine.fields[static_cast<std::size_t>(which)].value;
}

// Prices a question's candidates on one machine after another.
class Bench {
 public:
  explicit Bench(const SensitivityQuestion& question)
      : question_(question), plan_(*question.plan), fit_(plan_.basis->fit) {
    fit_.acceptance = plan_.chosen_acceptance;
    bucket_ = plan_.chosen.buckets.at(static_cast<std::size_t>(question.bucket));
  }

  HardwareSpec own() const { return turned(plan_.machine, Knob::kBandwidth, 1.0); }
  const std::vector<Strategy>& strategies() const { return strategies_; }

  // Those that lead on some of these machines and are hardly behind the winner of one.
  void find_candidates(const std::vector<HardwareSpec>& machines) {
    const PlanBasis& basis = *plan_.basis;
    std::vector<Strategy> leading = basis.replanner->leading_on(
        machines, fit_.acceptance, plan_.draft,
        {engine::loss_prices(basis.grounds, fit_.acceptance), plan_.chosen.max_loss},
        static_cast<std::size_t>(question_.bucket));
    // A class's baselines may win it too.
    std::erase_if(leading, [&](const Strategy& strategy) {
      const PrecisionClass precision = strategy.precision();
      return question_.precision
                 ? precision != *question_.precision && precision != PrecisionClass::kStrict
                 : precision >= PrecisionClass::kSparseRectified;
    });
    if (question_.precision && *question_.precision != PrecisionClass::kStrict) {
      std::erase_if(leading, [&](const Strategy& strategy) {
        return strategy.precision() == PrecisionClass::kStrict && !is_baseline(strategy);
      });
    }
    std::vector<bool> is_near(leading.size(), false);
    std::string note;
    for (const HardwareSpec& machine : machines) {
      const Pricer pricer(fit_, machine, plan_.target(), plan_.draft);
      std::vector<double> rates;
      for (const Strategy& strategy : leading) {
        rates.push_back(pricer.evaluate(strategy, bucket_, note).throughput);
      }
      const double best = rates.empty() ? 0.0 : *std::max_element(rates.begin(), rates.end());
      for (std::size_t i = 0; i < rates.size(); ++i) {
        is_near[i] = is_near[i] || rates[i] >= kNear * best;
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
  Winner winner_on(const HardwareSpec& machine) const { return winner_among(all_, machine); }
  // REQUIRES: ascending.
  Winner winner_among(const std::vector<int>& candidates, const HardwareSpec& machine) const {
    const Pricer pricer(fit_, machine, plan_.target(), plan_.draft);
    Winner best;
    std::string note;
    for (const int i : candidates) {
      const double rate =
          pricer.evaluate(strategies_[static_cast<std::size_t>(i)], bucket_, note).throughput;
      if (rate > best.rate) {
        best = {i, rate};
      }
    }
    return best;
  }

 private:
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
  ContextBucket bucket_;
  std::vector<Strategy> strategies_;
  std::vector<int> all_;  // their places
};

// Of the map's columns or rows.
double factor_at(int place) {
  const double across = 2.0 * place / (kMapSide - 1) - 1.0;  // -1 to 1
  return std::pow(kMapReach, across);
}

// The machine itself, the ends of all knobs and the corners of the map.
std::vector<HardwareSpec> extremes(const SensitivityQuestion& question, const HardwareSpec& own) {
  std::vector<HardwareSpec> machines = {own};
  for (int i = 0; i < kKnobCount; ++i) {
    for (const double factor : {1.0 / kTornadoReach, kTornadoReach}) {
      machines.push_back(turned(own, static_cast<Knob>(i), factor));
    }
  }
  for (const double x : {1.0 / kMapReach, kMapReach}) {
    for (const double y : {1.0 / kMapReach, kMapReach}) {
      machines.push_back(turned(turned(own, question.x, x), question.y, y));
    }
  }
  return machines;
}

void fill_tornado(const Bench& bench, Sensitivity& out) {
  const HardwareSpec own = bench.own();
  for (int i = 0; i < kKnobCount; ++i) {
    const Knob knob = static_cast<Knob>(i);
    const HardwareSpec low = turned(own, knob, 1.0 / kTornadoReach);
    const HardwareSpec high = turned(own, knob, kTornadoReach);
    out.tornado.push_back({knob, value_of(knob, low), value_of(knob, high), bench.winner_on(low),
                           bench.winner_on(high)});
  }
  const auto width = [](const TornadoRow& row) {
    return std::fabs(std::log(row.high.rate / row.low.rate));
  };
  std::stable_sort(out.tornado.begin(), out.tornado.end(),
                   [&](const TornadoRow& a, const TornadoRow& b) { return width(a) > width(b); });
}

void fill_map(const Bench& bench, Sensitivity& out) {
  const HardwareSpec own = bench.own();
  for (int place = 0; place < kMapSide; ++place) {
    out.x.push_back(value_of(out.question.x, turned(own, out.question.x, factor_at(place))));
    out.y.push_back(value_of(out.question.y, turned(own, out.question.y, factor_at(place))));
  }
  const auto machine_at = [&](int column, int row) {
    return turned(turned(own, out.question.y, factor_at(row)), out.question.x, factor_at(column));
  };
  out.map.resize(static_cast<std::size_t>(kMapSide * kMapSide));
  const auto cell = [&](int column, int row) -> Winner& {
    return out.map[static_cast<std::size_t>(row * kMapSide + column)];
  };
  for (int row = 0; row < kMapSide; row += kCoarse) {
    for (int column = 0; column < kMapSide; column += kCoarse) {
      cell(column, row) = bench.winner_on(machine_at(column, row));
    }
  }
  for (int row = 0; row < kMapSide; ++row) {
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
      cell(column, row) =
          bench.winner_among({around.begin(), around.end()}, machine_at(column, row));
    }
  }
}

// Along one axis of the map, the other at the machine's own value.
void add_borders(const Bench& bench, bool along_x, Sensitivity& out) {
  const HardwareSpec own = bench.own();
  const Knob knob = along_x ? out.question.x : out.question.y;
  const int middle_of_map = kMapSide / 2;
  const auto winner = [&](int place) {
    return (along_x ? out.at(place, middle_of_map) : out.at(middle_of_map, place)).strategy;
  };
  for (int place = 1; place < kMapSide; ++place) {
    const int below = winner(place - 1);
    const int above = winner(place);
    if (below == above) {
      continue;
    }
    const std::vector<int> both = {std::min(below, above), std::max(below, above)};
    double low = std::log(factor_at(place - 1));
    double high = std::log(factor_at(place));
    for (int i = 0; i < kBisections; ++i) {
      const double middle = 0.5 * (low + high);
      const bool is_below =
          bench.winner_among(both, turned(own, knob, std::exp(middle))).strategy == below;
      (is_below ? low : high) = middle;
    }
    out.borders.push_back({knob, value_of(knob, turned(own, knob, std::exp(high))), below, above});
  }
}

// The strategies that win somewhere, those of most cells first; all indices follow.
void keep_winners(const std::vector<Strategy>& candidates, Sensitivity& out) {
  std::map<int, int> cells;
  std::vector<Winner*> winners = {&out.own};
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
  for (const WinnerBorder& border : out.borders) {
    cells[border.below] += 0;
    cells[border.above] += 0;
  }
  std::vector<int> order;
  for (const auto& [strategy, count] : cells) {
    order.push_back(strategy);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cells[a] > cells[b]; });
  std::map<int, int> place;
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

QString strategy_name(const Sensitivity& sensitivity, int strategy) {
  return compact(
      QString::fromStdString(sensitivity.strategies[static_cast<std::size_t>(strategy)].text()));
}

}  // namespace

QString name_of(Knob knob) {
  switch (knob) {
    case Knob::kBandwidth:
      return QObject::tr("Memory bandwidth");
    case Knob::kL2Size:
      return QObject::tr("L2 size");
    case Knob::kSms:
      return QObject::tr("SMs");
    case Knob::kClock:
      return QObject::tr("Clock");
    case Knob::kTensorRate:
      return QObject::tr("Tensor rate");
  }
  return {};
}

QString unit_of(Knob knob) {
  switch (knob) {
    case Knob::kBandwidth:
      return "TB/s";
    case Knob::kL2Size:
      return "MiB";
    case Knob::kSms:
      return {};
    case Knob::kClock:
      return "MHz";
    case Knob::kTensorRate:
      return "Tflop/s";
  }
  return {};
}

double value_of(Knob knob, const HardwareSpec& machine) {
  switch (knob) {
    case Knob::kBandwidth:
      return machine[HardwareField::kRawBandwidthGbps] * 1e-3;
    case Knob::kL2Size:
      return machine[HardwareField::kL2Mib];
    case Knob::kSms:
      return machine[HardwareField::kSmCount];
    case Knob::kClock:
      return machine[HardwareField::kMaxClockMhz];
    case Knob::kTensorRate:
      return machine[HardwareField::kBf16Tflops];
  }
  return 0.0;
}

HardwareSpec turned(HardwareSpec machine, Knob knob, double factor) {
  switch (knob) {
    case Knob::kBandwidth:
      field(machine, HardwareField::kRawBandwidthGbps) *= factor;
      break;
    case Knob::kL2Size:
      field(machine, HardwareField::kL2Mib) *= factor;
      break;
    case Knob::kSms:
      field(machine, HardwareField::kSmCount) *= factor;
      field(machine, HardwareField::kBf16Tflops) *= factor;
      field(machine, HardwareField::kFp32Tflops) *= factor;
      break;
    case Knob::kClock:
      field(machine, HardwareField::kMaxClockMhz) *= factor;
      field(machine, HardwareField::kBf16Tflops) *= factor;
      field(machine, HardwareField::kFp32Tflops) *= factor;
      break;
    case Knob::kTensorRate:
      field(machine, HardwareField::kBf16Tflops) *= factor;
      break;
  }
  machine.key += " turned";  // no machine that was measured
  machine.measured.clear();
  return machine;
}

SensitivityPtr find_sensitivity(const SensitivityQuestion& question) {
  Bench bench(question);
  bench.find_candidates(extremes(question, bench.own()));
  if (bench.strategies().empty()) {
    throw Error(ExitCode::kAnswerNo, "no strategy of that class can be priced in that range");
  }
  std::shared_ptr<Sensitivity> out = std::make_shared<Sensitivity>();
  out->question = question;
  out->own = bench.winner_on(bench.own());
  fill_tornado(bench, *out);
  fill_map(bench, *out);
  add_borders(bench, true, *out);
  if (question.x != question.y) {
    add_borders(bench, false, *out);
  }
  keep_winners(bench.strategies(), *out);
  return out;
}

QString knob_text(Knob knob, double value) {
  const QString number = fixed(value, knob == Knob::kSms || value >= 100.0 ? 0
                                      : value < 10.0                       ? 2
                                                                           : 1);
  return unit_of(knob).isEmpty() ? number : number + " " + unit_of(knob);
}

QString cell_text(const Sensitivity& s, int column, int row) {
  const Winner& winner = s.at(column, row);
  return QObject::tr("%1 %2, %3 %4: %5, %6 tokens/s, × %7 of this machine's")
      .arg(name_of(s.question.x), knob_text(s.question.x, s.x[static_cast<std::size_t>(column)]),
           name_of(s.question.y), knob_text(s.question.y, s.y[static_cast<std::size_t>(row)]),
           strategy_name(s, winner.strategy), fixed(winner.rate, 0),
           fixed(winner.rate / s.own.rate, 2));
}

QString borders_text(const Sensitivity& s) {
  QStringList sentences;
  for (const Knob knob : {s.question.x, s.question.y}) {
    const std::vector<double>& values = knob == s.question.x ? s.x : s.y;
    QStringList changes;
    for (const WinnerBorder& border : s.borders) {
      if (border.knob == knob) {
        changes << QObject::tr("at %1 from %2 to %3")
                       .arg(knob_text(knob, border.value), strategy_name(s, border.below),
                            strategy_name(s, border.above));
      }
    }
    sentences << (changes.isEmpty()
                      ? QObject::tr("%1 alone, from %2 to %3: %4 wins everywhere.")
                            .arg(name_of(knob), knob_text(knob, values.front()),
                                 knob_text(knob, values.back()), strategy_name(s, s.own.strategy))
                      : QObject::tr("%1 alone: the winner changes %2.")
                            .arg(name_of(knob), changes.join("; ")));
  }
  sentences.removeDuplicates();
  return sentences.join(" ");
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

void SensitivityModel::ask(int bucket, std::optional<PrecisionClass> precision, Knob x, Knob y) {
  question_.bucket = bucket;
  question_.precision = precision;
  question_.x = x;
  question_.y = y;
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

void SensitivityModel::start() {
  job_.start<SensitivityPtr>([question = question_] { return find_sensitivity(question); },
                             [this](const SensitivityPtr& answer) {
                               answer_ = answer;
                               sentence_.clear();
                               Q_EMIT changed();
                             },
                             [this](const QString& sentence) {
                               answer_.reset();
                               sentence_ = sentence;
                               Q_EMIT changed();
                             });
  Q_EMIT changed();
}

}  // namespace versieve::gui
