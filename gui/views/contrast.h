// High contrast, light or dark: black and white, edges and grid that stand out, and darker or
// brighter colours for everything that is told by them.
#pragma once

namespace versieve::gui::theme {

// Before apply (theme.h), which shows it.
void raise_contrast(bool is_high);
bool is_contrast_high();

}  // namespace versieve::gui::theme
