// One line over the pages: what went wrong or is new, what can be done about it, and a way to put
// it away. It takes nothing from what is shown.
#pragma once

#include <QFrame>

class QLabel;
class QPushButton;

namespace versieve::gui {

class Banner : public QFrame {
  Q_OBJECT
 public:
  explicit Banner(QWidget* parent = nullptr);

  // `action`: the button's text; empty: there is none.
  void say(const QString& sentence, const QString& action = {});

 Q_SIGNALS:
  void acted();

 private:
  QLabel* text_;
  QPushButton* action_;
};

}  // namespace versieve::gui
