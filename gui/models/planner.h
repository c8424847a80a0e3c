// The planner's answer for the open database: the cost model is fitted once to the device with the
// most points, then planned for its own machine and for the one that the knobs describe. Both on a
// worker; a turned knob supersedes what is still under way.
#pragma once

#include <QObject>
#include <QStringList>
#include <memory>
#include <optional>

#include "engine/fit/cost_fit.h"
#include "gui/models/document.h"
#include "model/hardware.h"
#include "model/planner.h"

namespace versieve::gui {

struct Plan {
  std::shared_ptr<const engine::FitReport> fit;
  PlanTable own;     // of the machine that was measured
  PlanTable chosen;  // of the machine that the knobs describe
};
using PlanPtr = std::shared_ptr<const Plan>;

class Planner : public QObject {
  Q_OBJECT
 public:
  explicit Planner(Document& document, QObject* parent = nullptr);

  // Nothing is read or fitted before the first call for a database.
  void need();
  void setHardware(std::optional<HardwareSpec> machine);     // none: the measured machine
  void setBandwidth(std::optional<double> terabytes_per_s);  // none: the machine's own

  const PlanPtr& plan() const { return plan_; }          // may be null
  const QString& sentence() const { return sentence_; }  // why there is none
  bool isBusy() const { return job_.isRunning(); }
  // The machine of the knobs before the bandwidth knob; null without a plan or choice.
  const HardwareSpec* machine() const;

 Q_SIGNALS:
  void changed();

 private:
  void forget();
  void start();

  Document& document_;
  std::optional<HardwareSpec> hardware_;
  std::optional<double> bandwidth_;
  PlanPtr plan_;
  QString sentence_;
  bool needed_ = false;
  Job job_;
};

const PlanEntry* best_entry(const PlanTable& table, std::int64_t bucket, PrecisionClass precision);
std::vector<const PlanEntry*> entries_of(const PlanTable& table, std::int64_t bucket,
                                         PrecisionClass precision);
// Why the cell has no entries; empty if it has.
QString unavailable_text(const PlanTable& table, std::int64_t bucket, PrecisionClass precision);
QString bucket_text(const ContextBucket& bucket);  // "4K – 8K"
// "4.10 tokens in 812.40 µs, 71 % dram-bound"
QString reason_text(const PlanEntry& entry);
QString entry_html(const PlanEntry& entry);

}  // namespace versieve::gui
