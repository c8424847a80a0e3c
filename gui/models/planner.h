// The planner's answer for the open database: the cost model is fitted once to the device with the
// most points, or found where the fit to these very points is kept (engine/analyse/fit/
// stored_fit.h), then planned for its own machine and for the one that the knobs describe. Both on
// a worker; while one plan is made only the last turn of a knob waits, so that a drag shows plans
// as it goes. A fit says how far it is and can be ended.
#pragma once

#include <QObject>
#include <QStringList>
#include <QTimer>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/fit/cost_fit.h"
#include "gui/models/document.h"
#include "model/plan/planner.h"
#include "model/plan/replanner.h"
#include "model/words/hardware.h"

namespace versieve::gui {

// Whose tokens a step a plan counts on; neither: the fit's own pair's.
struct AcceptanceChoice {
  std::string pair;            // of the database, by its name or its hash
  std::optional<double> rate;  // assumed: the draft's best child is right, at every depth
};
// Assumed where the database knows no pair's tokens at all.
inline constexpr double kFirstAssumedRate = 0.7;

struct Plan {
  std::shared_ptr<const engine::FitReport> fit;
  std::shared_ptr<const std::vector<PointMeasurement>> acceptance;  // points of every pair
  std::vector<engine::AcceptancePair> pairs;                        // that they are of
  std::shared_ptr<const Replanner> replanner;                       // of the fit
  std::shared_ptr<const std::vector<QualityPoint>> quality;         // what strategies cost them
  PlanTable own;         // of the machine that was measured and the fit's own pair
  PlanTable chosen;      // of what the knobs describe
  HardwareSpec machine;  // that `chosen` is of
  DraftShape draft;      // that it is priced with

  LlmShape target() const { return named_llm_shape(fit->model.geometry); }
  // Whether the knobs describe anything else.
  bool isTurned() const {
    return own.hardware != chosen.hardware || acceptance_pair(own) != acceptance_pair(chosen) ||
           own.acceptance_origin != chosen.acceptance_origin || own.max_loss != chosen.max_loss ||
           draft.vocab != usual_draft(target()).vocab;
  }
};
using PlanPtr = std::shared_ptr<const Plan>;

// Of the work under way, between it and the window.
struct FitWatch {
  std::atomic<bool> fits = false;  // a fit is made, not a kept one found or a plan made
  std::atomic<double> share = 0.0;
  std::atomic<bool> ends = false;  // nobody waits for it any more
};

class Planner : public QObject {
  Q_OBJECT
 public:
  explicit Planner(Document& document, QObject* parent = nullptr);
  ~Planner() override;

  // Nothing is read or fitted before the first call for a database.
  void need();
  // A fit of another machine at which those to databases begin; before the first of them.
  void setPrior(std::shared_ptr<const FittedModel> prior) { prior_ = std::move(prior); }
  // Ends the fit under way: then there is no plan, and fitAgain() begins anew.
  void endFit();
  void fitAgain() { start(); }
  void setHardware(std::optional<HardwareSpec> machine);     // none: the measured machine
  void setBandwidth(std::optional<double> terabytes_per_s);  // none: the machine's own
  void setAcceptance(AcceptanceChoice choice);
  void setDraftVocab(std::optional<std::int64_t> tokens);  // none: all of the target's
  void setMaxLoss(std::optional<double> nats);             // of KL a token; none: no limit
  void setShown(PrecisionClass precision, bool is_shown);

  const PlanPtr& plan() const { return plan_; }          // may be null
  const QString& sentence() const { return sentence_; }  // why there is none
  bool isBusy() const { return job_.isRunning(); }
  // "Fitting the cost model … 45 %"
  QString waitText() const;
  bool wasEnded() const { return !isBusy() && !plan_ && !sentence_.isEmpty() && watch_->ends; }
  bool isShown(PrecisionClass precision) const {
    return shown_[static_cast<std::size_t>(precision)];
  }
  std::vector<PrecisionClass> shownClasses() const;
  // Writes the shown classes of the chosen machine's table as JSON, CSV or a C++ header, by the
  // path's ending; what went wrong as a sentence, empty if nothing did.
  QString exportTo(const QString& path) const;
  // The machine of the knobs before the bandwidth knob; null without a plan or choice.
  const HardwareSpec* machine() const;

 Q_SIGNALS:
  void changed();
  void progressed();  // waitText() has news

 private:
  void forget();
  void start();
  void turn();

  Document& document_;
  std::shared_ptr<const FittedModel> prior_;
  std::optional<HardwareSpec> hardware_;
  std::optional<double> bandwidth_;
  AcceptanceChoice acceptance_;
  std::optional<std::int64_t> draft_vocab_;
  std::optional<double> max_loss_;
  std::array<bool, kPrecisionClassCount> shown_;
  PlanPtr plan_;
  QString sentence_;
  bool needed_ = false;
  bool turned_ = false;  // a knob, since the work under way began
  Job job_;
  std::shared_ptr<FitWatch> watch_ = std::make_shared<FitWatch>();  // of the work under way
  QTimer ticks_;                                                    // while there is some
};

// First of a class, the baselines among its candidates or left out; null if there is none.
const PlanEntry* best_entry(const PlanTable& table, std::int64_t bucket, PrecisionClass precision);
const PlanEntry* best_of_its_own(const PlanTable& table, std::int64_t bucket,
                                 PrecisionClass precision);
// By throughput; of several classes each baseline once.
std::vector<const PlanEntry*> entries_of(const PlanTable& table, std::int64_t bucket,
                                         const std::vector<PrecisionClass>& classes);
// Why the cell has no entries; empty if it has.
QString unavailable_text(const PlanTable& table, std::int64_t bucket, PrecisionClass precision);
QString bucket_text(const ContextBucket& bucket);  // "4K – 8K"
// "4.10 tokens in 812.40 µs, 71 % dram-bound"
QString reason_text(const PlanEntry& entry);
// "KL 0.011 nats, 97 % same"
QString price_text(const PlanEntry& entry);
QString probability_text(double probability);  // "0.87"; never certain: "> 0.99"
QString entry_html(const PlanEntry& entry);
// What a request needs to be run by the entry's cell; empty if nothing.
QString condition_html(const PlanTable& table, const PlanEntry& entry);
// The entry's step launch by launch, at the middle of its contexts: time, how near it is to moving
// its bytes alone, what bounds it.
QString launches_html(const Plan& plan, const PlanEntry& entry);

}  // namespace versieve::gui
