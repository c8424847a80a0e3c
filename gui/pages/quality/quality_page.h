// What does quality cost? Tokens a second against the measured loss, the front of what nothing
// beats in both, and a limit of losses that ranks anew as it is dragged: the planner's own.
#pragma once

#include <QWidget>

#include "gui/models/plan_entries.h"
#include "gui/views/front_plot.h"

class QComboBox;
class QLabel;
class QPushButton;
class QStackedWidget;
class QTableView;

namespace versieve::gui {

class ElidedText;
class FitWait;
class NumberKnob;

class QualityPage : public QWidget {
  Q_OBJECT
 public:
  explicit QualityPage(Planner& planner, QWidget* parent = nullptr);

  FrontPlot& plot() { return *plot_; }
  PlanEntries& entries() { return *entries_; }
  QComboBox& bucket() { return *bucket_; }
  NumberKnob& limit() { return *limit_; }
  ElidedText& said() { return *said_; }

 Q_SIGNALS:
  void cellRequested(int bucket, PrecisionClass precision);
  void exportRequested();

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* make_choices();
  QWidget* make_answer();
  void show_plan();
  void open_point(int point);

  Planner& planner_;
  QComboBox* bucket_;
  NumberKnob* limit_;
  QPushButton* export_;
  QLabel* busy_;
  QStackedWidget* stack_;
  FitWait* wait_;
  FrontPlot* plot_;
  ElidedText* said_;
  PlanEntries* entries_;
  QTableView* table_;
  QLabel* point_;
};

}  // namespace versieve::gui
