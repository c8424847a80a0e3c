// A ring in the choice, slider or number that has the focus, which the style draws too faintly to
// be found. One object for the whole application.
#pragma once

#include <QPointer>
#include <QWidget>

namespace versieve::gui {

class FocusRing : public QObject {
 public:
  explicit FocusRing(QObject* parent);

  // Whether that kind of widget gets one; others show their focus themselves.
  static bool rings(const QWidget* widget);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void follow(QWidget* widget);

  QPointer<QWidget> around_;
  QPointer<QWidget> ring_;  // its child, gone with it
};

}  // namespace versieve::gui
