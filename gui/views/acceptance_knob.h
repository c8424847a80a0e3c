// The knob that says whose tokens a step a plan counts on: the pairs of the database, and a rate
// that nobody measured.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/models/planner.h"
#include "gui/views/number_knob.h"

class QComboBox;
class QSlider;

namespace versieve::gui {

class AcceptanceKnob : public QWidget {
  Q_OBJECT
 public:
  explicit AcceptanceKnob(QWidget* parent = nullptr);

  // The pairs that can be chosen, the plan's own first; null: nothing can be.
  void showPlan(const PlanPtr& plan);
  void reset();  // to the plan's own pair; says nothing
  QComboBox& pairs() { return *pairs_; }
  QSlider& rate() { return *rate_; }
  NumberKnob& typedRate() { return *typed_rate_; }

 Q_SIGNALS:
  void turned(const versieve::gui::AcceptanceChoice& choice);

 private:
  void choose();
  void turn_rate(double rate);

  QComboBox* pairs_;
  QSlider* rate_;
  NumberKnob* typed_rate_;
  std::vector<std::string> names_;  // of the choice's entries between the first and the last
  QString own_;                     // the first entry's text
};

}  // namespace versieve::gui
