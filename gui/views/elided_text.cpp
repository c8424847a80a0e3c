#include "gui/views/elided_text.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QTextLayout>
#include <functional>

#include "gui/views/theme.h"

namespace versieve::gui {
namespace {

constexpr int kLinkGap = 6;  // before the word that shows more

// Each line's first character and length.
void for_each_line(const QString& text, const QFont& font, int width,
                   const std::function<void(int, int)>& told) {
  QTextLayout layout(text, font);
  layout.beginLayout();
  for (QTextLine line = layout.createLine(); line.isValid(); line = layout.createLine()) {
    line.setLineWidth(width);
    told(line.textStart(), line.textLength());
  }
  layout.endLayout();
}

}  // namespace

ElidedText::ElidedText(int lines, QWidget* parent) : QWidget(parent), lines_(lines) {
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

void ElidedText::setText(const QString& text) {
  if (text != text_) {
    text_ = text;
    setToolTip("<p>" + text.toHtmlEscaped() + "</p>");  // as rich text it is wrapped
    setAccessibleName(text);
    measure();
    update();
  }
}

void ElidedText::setLines(int lines) {
  if (lines != lines_) {
    lines_ = lines;
    measure();
    updateGeometry();
  }
}

// Keys go where there is something to be shown.
void ElidedText::measure() {
  const int before = shown_lines();
  needed_ = 0;
  int last = 0;  // its first character
  for_each_line(text_, font(), width(), [&](int begin, int) {
    ++needed_;
    last = begin;
  });
  if (isCut()) {
    const QFontMetrics metrics = fontMetrics();
    const int folds = metrics.horizontalAdvance(tr("less")) + kLinkGap;
    needed_ += metrics.horizontalAdvance(text_.mid(last)) + folds > width() ? 1 : 0;
  }
  setFocusPolicy(isCut() ? Qt::TabFocus : Qt::NoFocus);
  setCursor(isCut() ? Qt::PointingHandCursor : Qt::ArrowCursor);
  if (shown_lines() != before) {
    updateGeometry();
  }
}

void ElidedText::toggle() {
  shows_all_ = isCut() && !shows_all_;
  updateGeometry();
  update();
}

QSize ElidedText::sizeHint() const {
  return {400, shown_lines() * fontMetrics().lineSpacing() + 2};
}

void ElidedText::resizeEvent(QResizeEvent* event) {
  measure();
  QWidget::resizeEvent(event);
}

void ElidedText::mousePressEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && isCut()) {
    toggle();
  }
}

void ElidedText::keyPressEvent(QKeyEvent* event) {
  const bool is_pressed = event->key() == Qt::Key_Space || event->key() == Qt::Key_Return ||
                          event->key() == Qt::Key_Enter;
  if (is_pressed && isCut()) {
    toggle();
  } else {
    QWidget::keyPressEvent(event);
  }
}

// What is left of the text, and the word that shows more of it or less.
void ElidedText::draw_last(QPainter& painter, const QString& rest, int top) const {
  const QFontMetrics metrics = fontMetrics();
  const QString link = !isCut() ? QString() : shows_all_ ? tr("less") : tr("more");
  const int aside = link.isEmpty() ? 0 : metrics.horizontalAdvance(link) + kLinkGap;
  const QString shown = metrics.elidedText(rest, Qt::ElideRight, width() - aside);
  painter.drawText(QRect(0, top, width(), metrics.height()), Qt::AlignLeft, shown);
  if (link.isEmpty()) {
    return;
  }
  const int left = rest.isEmpty() ? 0 : metrics.horizontalAdvance(shown) + kLinkGap;
  const QRect at(left, top, metrics.horizontalAdvance(link), metrics.height());
  painter.setPen(theme::colors().accent);
  painter.drawText(at, Qt::AlignLeft, link);
  if (hasFocus()) {
    painter.drawRect(at.adjusted(-2, 0, 1, -1));
  }
}

void ElidedText::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setPen(theme::colors().quiet_ink);
  const int spacing = fontMetrics().lineSpacing();
  const int last = shown_lines() - 1;
  int number = 0;
  for_each_line(text_, font(), width(), [&](int begin, int length) {
    const QString line = text_.mid(begin, length);
    const bool ends_here = begin + length == text_.size();
    if (number == last) {
      draw_last(painter, text_.mid(begin), number * spacing);
    } else if (number < last) {
      painter.drawText(QRect(0, number * spacing, width(), spacing), Qt::AlignLeft, line);
      if (ends_here && showsAll()) {
        draw_last(painter, {}, (number + 1) * spacing);
      }
    }
    ++number;
  });
}

}  // namespace versieve::gui
