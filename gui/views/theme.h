// The app's look: a quiet palette, light or dark as the desktop is, one type family in pixels,
// categorical colours that stay apart for colour-blind eyes.
#pragma once

#include <QColor>
#include <QPalette>
#include <QString>

class QApplication;

namespace versieve::gui::theme {

enum class Shade { kLight, kDark };

struct Colors {
  QColor page, panel, line, grid;
  QColor edge;  // of what can be pressed, typed into or dragged
  QColor ink, quiet_ink;
  QColor faint;  // points that the filter leaves out
  QColor accent, accent_tint;
  QColor bar;  // what an interval spans
  QColor warning;
};

Shade shade();  // of the application's palette: the desktop's before apply
const Colors& colors();

inline constexpr int kCategoryCount = 7;
QColor category(int index);  // beyond the last: grey

inline constexpr int kTextPixels = 13;
inline constexpr int kSmallPixels = 11;
inline constexpr int kTitlePixels = 18;

// What a palette has no role for.
inline constexpr QPalette::ColorRole kWarningRole = QPalette::LinkVisited;

void apply(QApplication& application, Shade shade = Shade::kLight);
// For rich text: what is said quietly bears the class "quiet".
QString rich_text_sheet();
QString report_sheet();  // for the report of a fit

}  // namespace versieve::gui::theme
