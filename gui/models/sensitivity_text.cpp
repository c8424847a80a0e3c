// What the sensitivity page's knobs are, and its answers as readable text.
#include <algorithm>
#include <cmath>
#include <optional>

#include "gui/models/numbers.h"
#include "gui/models/plain_words.h"
#include "gui/models/sensitivity.h"
#include "model/plan/concurrency.h"

namespace versieve::gui {
namespace {

constexpr double kRangeShare = 0.125;  // of a context, that its range reaches to either side

double& field(HardwareSpec& machine, HardwareField which) {
  return machine.fields[static_cast<std::size_t>(which)].value;
}

QString strategy_name(const Sensitivity& sensitivity, int strategy) {
  return strategy < 0 ? no_winner_text(sensitivity)
                      : compact(QString::fromStdString(
                            sensitivity.strategies[static_cast<std::size_t>(strategy)].text()));
}

QString rate_text(const Winner& winner) {
  return QObject::tr("%1 tokens/s (90 %: %2 – %3)")
      .arg(fixed(winner.rate, 0), fixed(winner.interval.low, 0), fixed(winner.interval.high, 0));
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
    case Knob::kL2Rate:
      return QObject::tr("L2 rate");
    case Knob::kLaunchGap:
      return QObject::tr("Launch gap");
    case Knob::kRequests:
      return QObject::tr("Requests at once");
    case Knob::kContext:
      return QObject::tr("Context");
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
    case Knob::kRequests:
      return {};
    case Knob::kClock:
      return "MHz";
    case Knob::kTensorRate:
      return "Tflop/s";
    case Knob::kL2Rate:
    case Knob::kLaunchGap:
      return QObject::tr("of the fit's");
    case Knob::kContext:
      return QObject::tr("tokens");
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
    case Knob::kL2Rate:
      return machine.scale.l2;
    case Knob::kLaunchGap:
      return machine.scale.graph_gap;
    case Knob::kRequests:
    case Knob::kContext:
      break;
  }
  return 0.0;
}

double value_of(Knob knob, const Situation& situation) {
  if (knob == Knob::kContext) {
    return 0.5 * static_cast<double>(situation.range.low + situation.range.high);
  }
  return knob == Knob::kRequests ? static_cast<double>(situation.requests)
                                 : value_of(knob, situation.machine);
}

Situation placed(Situation situation, Knob knob, double across) {
  if (knob == Knob::kRequests) {
    situation.requests = std::llround(std::pow(static_cast<double>(kMostConcurrency), across));
  } else if (knob == Knob::kContext) {
    const double shortest = static_cast<double>(situation.shortest);
    const double context =
        shortest * std::pow(static_cast<double>(situation.longest) / shortest, across);
    situation.range = {std::llround(context * (1.0 - kRangeShare)),
                       std::llround(context * (1.0 + kRangeShare))};
  } else {
    situation.machine =
        turned(std::move(situation.machine), knob, std::pow(kMapReach, 2.0 * across - 1.0));
  }
  return situation;
}

int own_place(Knob knob, const Situation& situation) {
  double across = 0.5;
  if (knob == Knob::kRequests) {
    across = std::log(static_cast<double>(situation.requests)) /
             std::log(static_cast<double>(kMostConcurrency));
  } else if (knob == Knob::kContext) {
    const double shortest = static_cast<double>(situation.shortest);
    across = std::log(std::max(shortest, value_of(knob, situation)) / shortest) /
             std::log(static_cast<double>(situation.longest) / shortest);
  }
  return static_cast<int>(std::lround(across * (kMapSide - 1)));
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
    case Knob::kL2Rate:
      machine.scale.l2 *= factor;
      break;
    case Knob::kLaunchGap:
      machine.scale.graph_gap *= factor;
      machine.scale.stream_gap *= factor;
      break;
    case Knob::kRequests:
    case Knob::kContext:
      return machine;
  }
  machine.key += " turned";  // no machine that was measured
  machine.measured.clear();
  return machine;
}

QString knob_text(Knob knob, double value) {
  const bool is_count = knob == Knob::kSms || knob == Knob::kRequests || knob == Knob::kContext;
  const QString number = fixed(value, is_count || value >= 100.0 ? 0 : value < 10.0 ? 2 : 1);
  return unit_of(knob).isEmpty() ? number : number + " " + unit_of(knob);
}

QString no_winner_text(const Sensitivity& s) {
  const std::optional<double>& bound = s.question.plan->chosen.aims.itl_ms;
  const bool several =
      s.question.requests > 1 || s.question.x == Knob::kRequests || s.question.y == Knob::kRequests;
  return !bound ? QObject::tr("so many requests do not fit into memory")
         : several
             ? QObject::tr("nothing fits into memory and keeps %1 ms between tokens").arg(*bound)
             : QObject::tr("nothing keeps %1 ms between tokens").arg(*bound);
}

QString cell_text(const Sensitivity& s, int column, int row) {
  const Winner& winner = s.at(column, row);
  const QString at =
      QObject::tr("%1 %2, %3 %4: ")
          .arg(name_of(s.question.x),
               knob_text(s.question.x, s.x[static_cast<std::size_t>(column)]),
               name_of(s.question.y), knob_text(s.question.y, s.y[static_cast<std::size_t>(row)]));
  return winner.strategy < 0
             ? at + no_winner_text(s)
             : at + QObject::tr("%1, %2, × %3 of %4")
                        .arg(strategy_name(s, winner.strategy), rate_text(winner),
                             fixed(winner.rate / s.base(), 2),
                             s.own.strategy < 0 ? QObject::tr("the planner's machine")
                                                : QObject::tr("this machine's"));
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
                      ? QObject::tr("%1 alone, from %2 to %3: %4.")
                            .arg(name_of(knob), knob_text(knob, values.front()),
                                 knob_text(knob, values.back()),
                                 s.own.strategy < 0 ? no_winner_text(s)
                                                    : QObject::tr("%1 wins everywhere")
                                                          .arg(strategy_name(s, s.own.strategy)))
                      : QObject::tr("%1 alone: the winner changes %2.")
                            .arg(name_of(knob), changes.join("; ")));
  }
  sentences.removeDuplicates();
  return sentences.join(" ");
}

QString turned_text(const Sensitivity& s) {
  if (!s.question.isTurned()) {
    return {};
  }
  if (s.own.strategy < 0) {
    return QObject::tr("Turned: %1.").arg(no_winner_text(s));
  }
  if (s.unturned.strategy < 0) {
    return QObject::tr("Turned: %1 by %2; on the planner's machine %3.")
        .arg(rate_text(s.own), strategy_name(s, s.own.strategy), no_winner_text(s));
  }
  const bool is_same = s.own.strategy == s.unturned.strategy;
  return QObject::tr("Turned: %1, × %2 of the planner's machine, %3")
      .arg(rate_text(s.own), fixed(s.own.rate / s.unturned.rate, 2),
           is_same
               ? QObject::tr("by the same strategy.")
               : QObject::tr("by %1 in the place of %2.")
                     .arg(strategy_name(s, s.own.strategy), strategy_name(s, s.unturned.strategy)));
}

}  // namespace versieve::gui
