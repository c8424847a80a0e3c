// The app's look: a light, quiet palette, one type family in pixels, categorical colours that stay
// apart for colour-blind eyes.
#pragma once

#include <QColor>

class QApplication;

namespace versieve::gui::theme {

inline const QColor kPage(0xfa, 0xfa, 0xf8);
inline const QColor kPanel(0xff, 0xff, 0xff);
inline const QColor kLine(0xd9, 0xd9, 0xd4);
inline const QColor kGrid(0xec, 0xec, 0xe8);
inline const QColor kInk(0x1d, 0x22, 0x29);
inline const QColor kQuietInk(0x6a, 0x71, 0x7a);
inline const QColor kFaint(0xc9, 0xcc, 0xcf);  // points that the filter leaves out
inline const QColor kAccent(0x1f, 0x5f, 0xa8);
inline const QColor kAccentTint(0xe3, 0xec, 0xf6);
inline const QColor kBar(0xb4, 0xca, 0xe6);  // what an interval spans
inline const QColor kWarning(0xa4, 0x3b, 0x12);

inline constexpr int kCategoryCount = 7;
QColor category(int index);  // beyond the last: grey

inline constexpr int kTextPixels = 13;
inline constexpr int kSmallPixels = 11;
inline constexpr int kTitlePixels = 18;

void apply(QApplication& application);

}  // namespace versieve::gui::theme
