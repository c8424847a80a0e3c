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
#include <memory>
#include <optional>
#include <vector>

#include "gui/models/document.h"
#include "gui/models/plan.h"
#include "gui/models/plan_command.h"

namespace versieve::gui {

class Planner : public QObject {
  Q_OBJECT
 public:
  explicit Planner(Document& document, QObject* parent = nullptr);
  ~Planner() override;

  // Nothing is read or fitted before the first call for a database.
  void need();
  // A fit of another machine at which those to databases begin; before the first of them.
  // `file`: that it was read from.
  void setPrior(std::shared_ptr<const FittedModel> prior, const QString& file) {
    prior_ = std::move(prior);
    prior_file_ = file;
  }
  // Ends the fit under way: then there is no plan, and fitAgain() begins anew.
  void endFit();
  void fitAgain() { start(); }
  // What is planned for, by ModelChoice::name or the path of a pair's folder; empty: the usual.
  // Whose tokens and which draft are its own then. One that cannot be planned is refused, and the
  // plan stays.
  void setModel(const std::string& name);
  // The folder that is planned for; empty: none.
  std::string modelFolder() const;
  // None: the measured machine. `file`: that it was read from; empty: of the catalogue.
  void setHardware(std::optional<HardwareSpec> machine, const std::string& file = {});
  const HardwareSpec* hardware() const { return request_.hardware ? &*request_.hardware : nullptr; }
  void setBandwidth(std::optional<double> terabytes_per_s);  // none: the machine's own
  const std::optional<double>& bandwidth() const { return request_.bandwidth; }
  void setAcceptance(AcceptanceChoice choice);
  void setDraftVocab(std::optional<std::int64_t> tokens);  // none: the model's own
  // A scope that cannot be planned is refused, and the plan stays.
  void setScope(const PlanScope& scope);
  const PlanScope& scope() const { return request_.scope; }
  void setMaxLoss(std::optional<double> nats);  // of KL a token; none: no limit
  const std::optional<double>& maxLoss() const { return request_.max_loss; }
  void setShown(PrecisionClass precision, bool is_shown);

  // Whether the open file has grown since the plan's points were read.
  bool isBehind() const { return plan_ && planned_from_ != document_.snapshot(); }
  const PlanPtr& plan() const { return plan_; }          // may be null
  const QString& sentence() const { return sentence_; }  // why there is none
  bool isBusy() const { return job_.isRunning(); }
  // Of the fit under way; none before one begins, and without one.
  std::optional<double> share() const;
  // "Fitting the cost model … 45 %"
  QString waitText() const;
  bool wasEnded() const { return !isBusy() && !plan_ && !sentence_.isEmpty() && watch_->ends; }
  bool isShown(PrecisionClass precision) const {
    return shown_[static_cast<std::size_t>(precision)];
  }
  std::vector<PrecisionClass> shownClasses() const;
  // Those of the shown classes that can be priced; all shown ones where none can.
  std::vector<PrecisionClass> exportedClasses() const;
  // The command that plans the same with the same database, its table written to `out`, or why
  // there is none.
  PlanCommand command(const QString& out) const;
  QString commandLine(const QString& out) const { return command(out).line; }
  // Writes the exported classes of the chosen machine's table as JSON, CSV or a C++ header, by the
  // path's ending; what went wrong as a sentence, empty if nothing did.
  QString exportTo(const QString& path) const;
  // Contexts beyond the usual ranges that the measured points reach and the model takes, each twice
  // the one before; none without a plan.
  std::vector<std::int64_t> longerContexts() const;
  // The machine of the knobs before the bandwidth knob; null without a plan or choice.
  const HardwareSpec* machine() const;

 Q_SIGNALS:
  void changed();
  void refused(const QString& sentence);  // a scope or a model
  void progressed();                      // waitText() has news

 private:
  void forget();
  void take_document();
  void start();
  void fail(const QString& sentence);
  void turn();

  Document& document_;
  std::shared_ptr<const FittedModel> prior_;
  QString prior_file_;
  PlanRequest request_, planned_;  // asked for; that the plan is of
  std::array<bool, kPrecisionClassCount> shown_;
  PlanPtr plan_;
  QString sentence_;
  SnapshotPtr planned_from_;
  bool needed_ = false;
  bool turned_ = false;  // a knob, since the work under way began
  Job job_;
  std::shared_ptr<FitWatch> watch_ = std::make_shared<FitWatch>();  // of the work under way
  QTimer ticks_;                                                    // while there is some
};

// By what the table ranks by; of several classes each baseline once.
std::vector<const PlanEntry*> entries_of(const PlanTable& table, std::int64_t bucket,
                                         const std::vector<PrecisionClass>& classes);
// Why the cell has no entries; empty if it has.
QString unavailable_text(const PlanTable& table, std::int64_t bucket, PrecisionClass precision);
// Whether the 90 % intervals of tokens a second on the same texts do.
bool overlaps(const PlanEntry& a, const PlanEntry& b);
// `level` is of the plan's numbers of requests at once (plan_slice.h), which the entry is of.
// Why the knobs, some of which are turned, leave the entry where it was; empty if they move it.
QString unmoved_text(const Plan& plan, const PlanEntry& entry, int level = 0);
// Why nothing of the plan differs from that of the knobs before; empty if something does.
QString nothing_moved_text(const Plan& before, const Plan& plan);
// Against the same strategy in the context range before, where that was planned: what became of
// tokens a step and of the step's time; empty in the first range.
QString before_html(const PlanTable& table, const PlanEntry& entry);
// Goals that the fit misses, "goals missed: …"; empty if none.
QString missed_goals_text(const engine::FitReport& fit);
QString bucket_text(const ContextBucket& bucket);  // "4K – 8K"
// "4.10 tokens in 812.4 µs, 71 % dram-bound": microseconds always, since cells are compared
QString reason_text(const PlanEntry& entry);
// "KL 0.011 nats, 97 % same"
QString price_text(const PlanEntry& entry);
QString probability_text(double probability);  // "0.87"; never certain: "> 0.99"
QString entry_html(const Plan& plan, const PlanEntry& entry, int level = 0);
// What a request needs to be run by the entry's cell; empty if nothing.
QString condition_html(const PlanTable& table, const PlanEntry& entry);
// The entry's step launch by launch, at the middle of its contexts: time, how near it is to moving
// its bytes alone, what bounds it.
QString launches_html(const Plan& plan, const PlanEntry& entry, int level = 0);

}  // namespace versieve::gui
