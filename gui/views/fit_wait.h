// In the place of what rests on a fit: how far it is and a way to end it, or why there is none and
// a way to begin it again.
#pragma once

#include <QWidget>

#include "gui/models/planner.h"

class QLabel;
class QProgressBar;
class QPushButton;
class QStackedWidget;

namespace versieve::gui {

class FitWait : public QWidget {
 public:
  FitWait(Planner& planner, const QString& message_name, QWidget* parent = nullptr);

  // `text`: the planner's own words while it works.
  void say(const QString& text);

 private:
  Planner& planner_;
  QLabel* message_;
  QLabel* advice_;  // where there is nothing to fit to
  QProgressBar* bar_;
  QPushButton* end_;
};

// A page that rests on a fit: its choices above, below them the wait or the answer.
void lay_out_with_wait(QWidget& page, QWidget* choices, QStackedWidget& stack, FitWait& wait,
                       QWidget& answer);

}  // namespace versieve::gui
