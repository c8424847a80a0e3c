// High contrast, light or dark: black and white, edges and grid that stand out, and darker or
// brighter colours for everything that is told by them.
#pragma once

#include <QColor>

namespace versieve::gui::theme {

// Before apply (theme.h), which shows it.
void raise_contrast(bool is_high);
bool is_contrast_high();
// Of WCAG 2: 1 to 21; 4.5 for text, 3 for what is drawn.
double contrast(const QColor& a, const QColor& b);
QColor ink_on(const QColor& ground);  // black or white, whichever is read better

}  // namespace versieve::gui::theme
