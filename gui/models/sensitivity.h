// What if the machine were another? Of one context range and class: how tokens a second and the
// winning strategy follow each knob of the hardware alone, and the winner over two knobs together,
// with the values at which it changes. Priced by the plan's fit, pair, draft, limit of losses and
// bound between tokens, around the machine that the planner's knobs describe; on a worker, the
// newest question answered.
//
// Candidates lead, or nearly do, at the end of a knob or in a corner of the map; machines of the
// map then price these alone.
#pragma once

#include <QObject>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "gui/models/planner.h"

namespace versieve::gui {

// Those of the hardware, how many requests run at once, and their context.
enum class Knob {
  kBandwidth,
  kL2Size,
  kSms,
  kClock,
  kTensorRate,
  kL2Rate,     // against what the fit found
  kLaunchGap,  // likewise
  kRequests,
  kContext
};
inline constexpr int kKnobCount = 7;  // of the hardware
inline constexpr int kMapKnobCount = kKnobCount + 2;
QString name_of(Knob knob);  // "Memory bandwidth"
QString unit_of(Knob knob);  // "TB/s"; empty of a count
// A machine and what it serves.
struct Situation {
  HardwareSpec machine;
  std::int64_t requests = 1;
  ContextBucket range;                     // of their contexts
  std::int64_t shortest = 1, longest = 1;  // that an axis of contexts reaches
};
// REQUIRES of a machine alone: a knob of the hardware. Of contexts the middle of the range.
double value_of(Knob knob, const HardwareSpec& machine);
double value_of(Knob knob, const Situation& situation);
// The same machine with that figure `factor` times as large, and nothing measured taken for it.
// More SMs, or a faster clock, bring their tensor rate along.
HardwareSpec turned(HardwareSpec machine, Knob knob, double factor);

// Knobs go from a quarter to four times the machine's value, requests from one to the most that can
// be planned; the tornado shows half and twice.
inline constexpr double kMapReach = 4.0;
inline constexpr double kTornadoReach = 2.0;
inline constexpr int kMapSide = 65;  // cells; odd, so that the machine itself is one
// Of the map's column or row: that knob of the situation at `across`, 0 to 1, of its reach.
Situation placed(Situation situation, Knob knob, double across);
// The column or row that the situation itself is, or lies next to.
int own_place(Knob knob, const Situation& situation);

inline constexpr std::array<double, kKnobCount> kUnturned = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};

struct SensitivityQuestion {
  PlanPtr plan;
  int bucket = 0;
  std::optional<PrecisionClass> precision;  // none: the best of the target's own
  Knob x = Knob::kBandwidth;
  Knob y = Knob::kL2Size;
  std::int64_t requests = 1;  // at once, where no axis is of them
  // By which the planner's machine is turned, knob by knob.
  std::array<double, kKnobCount> factors = kUnturned;

  bool isTurned() const { return factors != kUnturned; }
};

// A machine's best candidate. Of several requests those alone that fit into its memory, and those
// alone that keep the plan's bound between tokens.
struct Winner {
  int strategy = -1;  // index into Sensitivity::strategies; -1: none fits or keeps the bound
  double rate = 0.0;  // tokens a second
  Interval interval;  // 90 %, of the plan's number of requests
};

struct TornadoRow {
  Knob knob = Knob::kBandwidth;
  double low_value = 0.0, high_value = 0.0;
  Winner low, high;
};

// Where the winner changes as one of the map's knobs turns alone.
struct WinnerBorder {
  Knob knob = Knob::kBandwidth;
  double value = 0.0;
  int below = -1, above = -1;  // strategies
};

struct Sensitivity {
  SensitivityQuestion question;
  std::vector<Strategy> strategies;  // those that win somewhere, most cells first
  Situation situation;               // the planner's machine, turned by the factors
  Winner own;                        // in it, as if nothing had been timed there
  Winner unturned;                   // on the planner's machine
  std::vector<TornadoRow> tornado;   // the widest first
  std::vector<double> x, y;          // values of the map's columns and rows, ascending
  std::vector<Winner> map;           // [y, x]
  std::vector<WinnerBorder> borders;

  // That ratios are to: where nothing keeps the bound on the turned machine the planner's.
  double base() const { return own.strategy < 0 ? unturned.rate : own.rate; }
  const Winner& at(int column, int row) const {
    return map[static_cast<std::size_t>(row) * x.size() + static_cast<std::size_t>(column)];
  }
};
using SensitivityPtr = std::shared_ptr<const Sensitivity>;

// Throws Error(kAnswerNo) where the class has no strategies in that range, or none keeps the bound
// on the planner's machine or the turned one.
SensitivityPtr find_sensitivity(const SensitivityQuestion& question);
// Why there is no winner: "nothing keeps 5 ms between tokens".
QString no_winner_text(const Sensitivity& sensitivity);
// "Memory bandwidth 2.4 TB/s, L2 100 MiB: nsa/… 4 868 tokens/s, × 1.02 of this machine's"
QString cell_text(const Sensitivity& sensitivity, int column, int row);
QString borders_text(const Sensitivity& sensitivity);
// What the turned machine does beside the planner's; empty where none is turned.
QString turned_text(const Sensitivity& sensitivity);
QString knob_text(Knob knob, double value);  // "2.4 TB/s"

class SensitivityModel : public QObject {
  Q_OBJECT
 public:
  explicit SensitivityModel(Planner& planner, QObject* parent = nullptr);

  // Nothing is computed before the first call.
  void need();
  void ask(int bucket, std::optional<PrecisionClass> precision, Knob x, Knob y,
           std::int64_t requests = 1, const std::array<double, kKnobCount>& factors = kUnturned);

  const SensitivityPtr& answer() const { return answer_; }  // may be null
  const QString& sentence() const { return sentence_; }     // why there is none
  bool isBusy() const { return job_.isRunning(); }
  Planner& planner() { return planner_; }

 Q_SIGNALS:
  void changed();

 private:
  void follow_plan();
  void start();
  void go_on();  // after an answer

  Planner& planner_;
  SensitivityQuestion question_;
  SensitivityPtr answer_;
  QString sentence_;
  bool needed_ = false;
  bool asked_again_ = false;  // since the work under way began
  Job job_;
};

}  // namespace versieve::gui
