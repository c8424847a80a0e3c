// What a plan goes over, typed as the command takes it: context ranges, the baseline, schedules as
// text or from files, settings of ReSA and SpecAttn, how many requests intervals are of, the
// temperature of their texts; requests at once and what the plan is after (which the page places);
// and the command that makes the same plan. What cannot be read is said and changes nothing.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/models/plan.h"

class QDoubleSpinBox;
class QLineEdit;
class QMenu;
class QPushButton;
class QSpinBox;
class QToolButton;

namespace versieve::gui {

class ElidedText;
class ObjectiveKnobs;

class ScopeKnobs : public QWidget {
  Q_OBJECT
 public:
  explicit ScopeKnobs(QWidget* parent = nullptr);

  void showScope(const PlanScope& scope);
  // Ranges that may be planned beside the usual ones: to each of these contexts, ascending.
  void offerContexts(const std::vector<std::int64_t>& longest);
  // Empty: `why` stands there.
  void showCommand(const QString& line, const QString& why);

  QLineEdit& buckets() { return *buckets_; }
  QLineEdit& baseline() { return *baseline_; }
  QLineEdit& schedules() { return *schedules_; }
  // In the order of engine::system_options.
  QLineEdit& system(std::size_t option) { return *systems_[option]; }
  QSpinBox& requests() { return *requests_; }
  QLineEdit& concurrency() { return *concurrency_; }   // in no layout of its own
  ObjectiveKnobs& objective() { return *objective_; }  // likewise
  QToolButton& longer() { return *longer_; }
  QDoubleSpinBox& temperature() { return *temperature_; }
  const QString& command() const { return command_line_; }

 Q_SIGNALS:
  void turned(const versieve::gui::PlanScope& scope);
  void refused(const QString& sentence);
  void said(const QString& sentence);

 private:
  QLineEdit* new_line(const QString& name, const QString& object_name, const QString& tip,
                      int chars);
  void take();
  void add_file();
  void write();  // what is shown into the fields
  void fit_concurrency();

  QLineEdit* buckets_;
  QToolButton* longer_;
  QLineEdit* baseline_;
  QLineEdit* schedules_;
  std::vector<QLineEdit*> systems_;  // of engine::system_options
  QSpinBox* requests_;
  QLineEdit* concurrency_;
  ObjectiveKnobs* objective_;
  QDoubleSpinBox* temperature_;
  QPushButton* copy_;
  ElidedText* command_;
  QString command_line_;
  PlanScope shown_;
};

}  // namespace versieve::gui
