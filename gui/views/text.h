// The look that labels and rich texts share.
#pragma once

#include <QString>

class QLabel;
class QTextBrowser;

namespace versieve::gui {

QLabel* quiet_label(const QString& text);
QLabel* warning_label();
// Again when the palette has changed, before the text is set anew.
void style_text(QTextBrowser& text);

}  // namespace versieve::gui
