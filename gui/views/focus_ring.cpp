#include "gui/views/focus_ring.h"

#include <QAbstractScrollArea>
#include <QAbstractSlider>
#include <QAbstractSpinBox>
#include <QApplication>
#include <QComboBox>
#include <QPainter>
#include <QScrollBar>

#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr double kWidth = 1.8;

class Ring : public QWidget {
 public:
  explicit Ring(QWidget* around) : QWidget(around) {
    setObjectName("focusRing");
    setAttribute(Qt::WA_TransparentForMouseEvents);
    setGeometry(around->rect());
    raise();
    show();
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(theme::colors().accent, kWidth));
    painter.drawRoundedRect(QRectF(rect()).adjusted(1, 1, -1, -1), 3, 3);
  }
};

}  // namespace

FocusRing::FocusRing(QObject* parent) : QObject(parent) {
  connect(qApp, &QApplication::focusChanged, this,
          [this](QWidget*, QWidget* now) { follow(rings(now) ? now : nullptr); });
}

bool FocusRing::rings(const QWidget* widget) {
  return qobject_cast<const QComboBox*>(widget) != nullptr ||
         qobject_cast<const QAbstractScrollArea*>(widget) != nullptr ||
         qobject_cast<const QAbstractSpinBox*>(widget) != nullptr ||
         (qobject_cast<const QAbstractSlider*>(widget) != nullptr &&
          qobject_cast<const QScrollBar*>(widget) == nullptr);
}

void FocusRing::follow(QWidget* widget) {
  if (around_) {
    around_->removeEventFilter(this);
    delete ring_;
  }
  around_ = widget;
  if (widget != nullptr) {
    widget->installEventFilter(this);
    ring_ = new Ring(widget);
  }
}

bool FocusRing::eventFilter(QObject*, QEvent* event) {
  if (event->type() == QEvent::Resize && around_ && ring_) {
    ring_->setGeometry(around_->rect());
  }
  return false;
}

}  // namespace versieve::gui
