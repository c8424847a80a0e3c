// Why is this step so slow? A measured step, and another one beside it: its trace, launch by
// launch, where one is stored, else its launches by kind; under the measured roofs; bytes by term
// against what was counted; phases and their differences; which node of the tree chose which block,
// and what queries share.
#pragma once

#include <QWidget>

#include "gui/views/choice_plot.h"
#include "gui/views/phase_bars.h"
#include "gui/views/step_pictures.h"
#include "gui/views/trace_timeline.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QStackedWidget;
class QTabWidget;

namespace versieve::gui {

class ElidedText;

class StepPage : public QWidget {
  Q_OBJECT
 public:
  explicit StepPage(Document& document, QWidget* parent = nullptr);

  StepReader& reader() { return *reader_; }
  QComboBox& first() { return *first_; }
  QComboBox& second() { return *second_; }
  QComboBox& aligned() { return *aligned_; }
  QCheckBox& tracedOnly() { return *traced_only_; }
  QTabWidget& parts() { return *parts_; }
  TraceTimeline& trace() { return *trace_; }
  PhaseBars& phases() { return *phases_; }
  ChoicePlot& choice() { return *choice_; }
  QLabel& missing() { return *missing_; }
  StepTimeline& timeline() { return *timeline_; }
  Roofline& roofline() { return *roofline_; }
  TermBars& terms() { return *terms_; }
  ElidedText& said() { return *said_; }
  QLabel& told() { return *told_; }

 protected:
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  QWidget* make_answer();
  void share_line();
  QTabWidget* make_parts();
  void list_steps(const QVariant& first, const QVariant& second);
  void add_step(QComboBox& box, int point);
  void ask();
  void show_view();
  void follow(int point);
  void show_traces();
  void list_alignments();
  void tell(int kind);
  void tell_traced(int step, int launch);

  Document& document_;
  StepReader* reader_;
  QComboBox* first_;
  QComboBox* second_;   // its first entry: none
  QComboBox* aligned_;  // its first entry: the steps' starts
  QCheckBox* traced_only_;
  QStackedWidget* stack_;
  QLabel* message_;
  ElidedText* said_;
  QLabel* told_;
  QLabel* missing_;  // what is said in the place of a trace
  TraceTimeline* trace_;
  StepTimeline* timeline_;
  QTabWidget* parts_;
  PhaseBars* phases_;
  ChoicePlot* choice_;
  Roofline* roofline_;
  TermBars* terms_;
  SharingPlot* sharing_;
};

}  // namespace versieve::gui
