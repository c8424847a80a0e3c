#include "gui/views/elided_text.h"

#include <QPainter>
#include <QTextLayout>

#include "gui/views/theme.h"

namespace versieve::gui {

ElidedText::ElidedText(int lines, QWidget* parent) : QWidget(parent), lines_(lines) {
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

void ElidedText::setText(const QString& text) {
  if (text != text_) {
    text_ = text;
    setToolTip("<p>" + text.toHtmlEscaped() + "</p>");  // as rich text it is wrapped
    setAccessibleName(text);
    update();
  }
}

void ElidedText::setLines(int lines) {
  if (lines != lines_) {
    lines_ = lines;
    updateGeometry();
  }
}

QSize ElidedText::sizeHint() const {
  return {400, lines_ * fontMetrics().lineSpacing() + 2};
}

void ElidedText::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setPen(theme::colors().quiet_ink);
  QTextLayout layout(text_, font());
  layout.beginLayout();
  for (int number = 0; number < lines_; ++number) {
    QTextLine line = layout.createLine();
    if (!line.isValid()) {
      break;
    }
    line.setLineWidth(width());
    const bool is_last = number == lines_ - 1;
    const QString shown =
        is_last ? fontMetrics().elidedText(text_.mid(line.textStart()), Qt::ElideRight, width())
                : text_.mid(line.textStart(), line.textLength());
    const int top = number * fontMetrics().lineSpacing();
    painter.drawText(QRect(0, top, width(), fontMetrics().height()), Qt::AlignLeft, shown);
  }
  layout.endLayout();
}

}  // namespace versieve::gui
