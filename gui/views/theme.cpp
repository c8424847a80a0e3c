#include "gui/views/theme.h"

#include <QApplication>
#include <QFont>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/views/contrast.h"
#include "gui/views/flat_style.h"

namespace versieve::gui::theme {
namespace {

constexpr const char* kHighContrast = "versieveHighContrast";  // property of the application

const Colors kLight = {.page = {0xfa, 0xfa, 0xf8},
                       .panel = {0xff, 0xff, 0xff},
                       .line = {0xd9, 0xd9, 0xd4},
                       .grid = {0xec, 0xec, 0xe8},
                       .edge = {0x8a, 0x90, 0x97},
                       .ink = {0x1d, 0x22, 0x29},
                       .quiet_ink = {0x62, 0x69, 0x72},
                       .faint = {0xc9, 0xcc, 0xcf},
                       .accent = {0x1f, 0x5f, 0xa8},
                       .accent_tint = {0xe3, 0xec, 0xf6},
                       .bar = {0xb4, 0xca, 0xe6},
                       .warning = {0xa4, 0x3b, 0x12}};

const Colors kDark = {.page = {0x17, 0x19, 0x1d},
                      .panel = {0x1f, 0x22, 0x27},
                      .line = {0x3c, 0x41, 0x48},
                      .grid = {0x2c, 0x30, 0x36},
                      .edge = {0x70, 0x76, 0x7e},
                      .ink = {0xe6, 0xe8, 0xea},
                      .quiet_ink = {0xa0, 0xa8, 0xb1},
                      .faint = {0x48, 0x4e, 0x56},
                      .accent = {0x72, 0xb4, 0xf4},
                      .accent_tint = {0x27, 0x3a, 0x50},
                      .bar = {0x3a, 0x5f, 0x88},
                      .warning = {0xf2, 0x99, 0x66}};

const Colors kHighLight = {.page = {0xff, 0xff, 0xff},
                           .panel = {0xff, 0xff, 0xff},
                           .line = {0x59, 0x59, 0x59},
                           .grid = {0xb8, 0xb8, 0xb8},
                           .edge = {0x59, 0x59, 0x59},
                           .ink = {0x00, 0x00, 0x00},
                           .quiet_ink = {0x33, 0x33, 0x33},
                           .faint = {0x94, 0x94, 0x94},
                           .accent = {0x00, 0x35, 0x8a},
                           .accent_tint = {0xd6, 0xe4, 0xff},
                           .bar = {0x5c, 0x86, 0xc4},
                           .warning = {0x8a, 0x1c, 0x00}};

const Colors kHighDark = {.page = {0x00, 0x00, 0x00},
                          .panel = {0x00, 0x00, 0x00},
                          .line = {0xa6, 0xa6, 0xa6},
                          .grid = {0x4d, 0x4d, 0x4d},
                          .edge = {0xa6, 0xa6, 0xa6},
                          .ink = {0xff, 0xff, 0xff},
                          .quiet_ink = {0xd6, 0xd6, 0xd6},
                          .faint = {0x6e, 0x6e, 0x6e},
                          .accent = {0x9c, 0xcf, 0xff},
                          .accent_tint = {0x0d, 0x2f, 0x57},
                          .bar = {0x4d, 0x80, 0xb8},
                          .warning = {0xff, 0xb0, 0x80}};

// Okabe and Ito's palette without its yellow and black, which do not stand out on white; on dark
// the same hues, lighter.
const QColor kCategories[2][kCategoryCount] = {{{0x00, 0x72, 0xb2},
                                                {0xd5, 0x5e, 0x00},
                                                {0x00, 0x9e, 0x73},
                                                {0xcc, 0x79, 0xa7},
                                                {0xe6, 0x9f, 0x00},
                                                {0x56, 0xb4, 0xe9},
                                                {0x7a, 0x4e, 0xa8}},
                                               {{0x3f, 0x93, 0xd6},
                                                {0xe8, 0x76, 0x2d},
                                                {0x2b, 0xb8, 0x8f},
                                                {0xe0, 0x98, 0xc0},
                                                {0xf2, 0xb8, 0x3a},
                                                {0x9a, 0xd6, 0xf7},
                                                {0xa8, 0x80, 0xd8}}};
// The same hues on white, darker.
const QColor kHighCategories[kCategoryCount] = {
    {0x00, 0x5a, 0x8f}, {0xa8, 0x42, 0x00}, {0x00, 0x6b, 0x4e}, {0x9c, 0x3f, 0x75},
    {0x85, 0x5a, 0x00}, {0x1b, 0x70, 0x9c}, {0x5d, 0x2f, 0x8f}};

const Colors& colors_of(Shade shade) {
  const bool is_dark = shade == Shade::kDark;
  return is_contrast_high() ? (is_dark ? kHighDark : kHighLight) : (is_dark ? kDark : kLight);
}

QPalette palette_of(const Colors& c) {
  QPalette colors(c.panel, c.page);  // what the style draws edges with follows from both
  colors.setColor(QPalette::Window, c.page);
  colors.setColor(QPalette::Base, c.panel);
  colors.setColor(QPalette::AlternateBase, c.page);
  colors.setColor(QPalette::Button, c.panel);
  colors.setColor(QPalette::ToolTipBase, c.panel);
  for (const QPalette::ColorRole role :
       {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText}) {
    colors.setColor(role, c.ink);
  }
  colors.setColor(QPalette::PlaceholderText, c.quiet_ink);
  colors.setColor(QPalette::Highlight, c.accent_tint);
  colors.setColor(QPalette::HighlightedText, c.ink);
  colors.setColor(QPalette::Link, c.accent);
  colors.setColor(kWarningRole, c.warning);
  colors.setColor(QPalette::Disabled, QPalette::Text, c.quiet_ink);
  colors.setColor(QPalette::Disabled, QPalette::ButtonText, c.quiet_ink);
  return colors;
}

// A sheet of rich text names colours as @line.
QString colored(QString sheet, const Colors& c) {
  const std::pair<const char*, QColor> names[] = {
      {"@page", c.page},        {"@panel", c.panel},     {"@line", c.line},     {"@grid", c.grid},
      {"@ink", c.ink},          {"@quiet", c.quiet_ink}, {"@accent", c.accent}, {"@faint", c.faint},
      {"@tint", c.accent_tint}, {"@warning", c.warning}};
  for (const auto& [name, color] : names) {
    sheet.replace(QLatin1String(name), color.name());
  }
  return sheet;
}

}  // namespace

Shade shade() {
  constexpr int kHalf = 128;
  return QGuiApplication::palette().color(QPalette::Window).lightness() < kHalf ? Shade::kDark
                                                                                : Shade::kLight;
}

const Colors& colors() {
  return colors_of(shade());
}

QColor category(int index) {
  if (index >= kCategoryCount) {
    return is_contrast_high() ? colors().quiet_ink : QColor(0x8f, 0x94, 0x99);
  }
  const bool is_dark = shade() == Shade::kDark;
  return is_contrast_high() && !is_dark ? kHighCategories[index] : kCategories[is_dark][index];
}

void raise_contrast(bool is_high) {
  qApp->setProperty(kHighContrast, is_high);
}

bool is_contrast_high() {
  return qApp != nullptr && qApp->property(kHighContrast).toBool();
}

double contrast(const QColor& a, const QColor& b) {
  const auto luminance = [](const QColor& color) {
    const auto linear = [](double c) {
      return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) +
           0.0722 * linear(color.blueF());
  };
  const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

QColor ink_on(const QColor& ground) {
  return contrast(Qt::black, ground) >= contrast(Qt::white, ground) ? Qt::black : Qt::white;
}

void apply(QApplication&, Shade shade) {
  if (qobject_cast<FlatStyle*>(QApplication::style()) == nullptr) {  // else only colours change
    QApplication::setStyle(new FlatStyle);
    QFont font("DejaVu Sans");
    font.setPixelSize(kTextPixels);
    QApplication::setFont(font);
  }
  const QPalette palette = palette_of(colors_of(shade));
  QApplication::setPalette(palette);
  QToolTip::setPalette(palette);  // a desktop has others for them
}

QString rich_text_sheet() {
  return colored(".quiet { color: @quiet; } a { color: @accent; }", colors());
}

// Of no colour but the palette's and one that lies over any: laying its tables out anew takes
// longer than a change of colours may.
QString report_sheet() {
  return "table { border-collapse: collapse; } h1 { font-size: 20px; } h2 { font-size: 16px; } "
         ".bad { font-weight: 700; text-decoration: underline; }"
         "th, td { padding: 3px 9px; text-align: right; border-bottom: 1px solid #73808080; }"
         "td:first-child, th:first-child { text-align: left; }";
}

}  // namespace versieve::gui::theme
