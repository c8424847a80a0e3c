#include "gui/views/text.h"

#include <QLabel>
#include <QTextBrowser>

#include "gui/views/theme.h"

namespace versieve::gui {

QLabel* quiet_label(const QString& text) {
  QLabel* label = new QLabel(text);
  label->setForegroundRole(QPalette::PlaceholderText);
  return label;
}

void style_text(QTextBrowser& text) {
  text.setFrameShape(QFrame::NoFrame);
  text.document()->setDefaultStyleSheet(theme::rich_text_sheet());
}

}  // namespace versieve::gui
