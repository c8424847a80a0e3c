// Why is this step so slow? A measured step, and another one beside it: launches along time, under
// the measured roofs, bytes by term against what was counted, what the tree's queries share.
#pragma once

#include <QWidget>

#include "gui/views/step_pictures.h"

class QComboBox;
class QLabel;
class QStackedWidget;

namespace versieve::gui {

class ElidedText;

class StepPage : public QWidget {
  Q_OBJECT
 public:
  explicit StepPage(Document& document, QWidget* parent = nullptr);

  StepReader& reader() { return *reader_; }
  QComboBox& first() { return *first_; }
  QComboBox& second() { return *second_; }
  StepTimeline& timeline() { return *timeline_; }
  Roofline& roofline() { return *roofline_; }
  TermBars& terms() { return *terms_; }
  ElidedText& said() { return *said_; }
  QLabel& told() { return *told_; }
  void recolor() { update(); }

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* make_answer();
  void list_steps();
  void ask();
  void show_view();
  void follow(int point);
  void tell(int launch);

  Document& document_;
  StepReader* reader_;
  QComboBox* first_;
  QComboBox* second_;  // its first entry: none
  QStackedWidget* stack_;
  QLabel* message_;
  ElidedText* said_;
  QLabel* told_;
  StepTimeline* timeline_;
  Roofline* roofline_;
  TermBars* terms_;
  SharingPlot* sharing_;
};

}  // namespace versieve::gui
