#include "gui/views/text.h"

#include <QLabel>
#include <QTextBrowser>
#include <QTextOption>

#include "gui/views/theme.h"

namespace versieve::gui {

QLabel* quiet_label(const QString& text) {
  QLabel* label = new QLabel(text);
  label->setForegroundRole(QPalette::PlaceholderText);
  return label;
}

QLabel* warning_label() {
  QLabel* label = new QLabel;
  label->setForegroundRole(theme::kWarningRole);
  return label;
}

void style_text(QTextBrowser& text) {
  text.setFrameShape(QFrame::NoFrame);
  // Long names break where they must, so that nothing is scrolled sideways.
  text.setWordWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  text.document()->setDefaultStyleSheet(theme::rich_text_sheet());
}

}  // namespace versieve::gui
