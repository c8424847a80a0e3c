#include "gui/views/theme.h"

#include <QApplication>
#include <QFont>
#include <QPalette>
#include <QStyleFactory>
#include <utility>

#include "gui/views/contrast.h"

namespace versieve::gui::theme {
namespace {

constexpr const char* kHighContrast = "versieveHighContrast";  // property of the application

const Colors kLight = {.page = {0xfa, 0xfa, 0xf8},
                       .panel = {0xff, 0xff, 0xff},
                       .line = {0xd9, 0xd9, 0xd4},
                       .grid = {0xec, 0xec, 0xe8},
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
  colors.setColor(QPalette::Disabled, QPalette::Text, c.quiet_ink);
  colors.setColor(QPalette::Disabled, QPalette::ButtonText, c.quiet_ink);
  return colors;
}

constexpr const char* kSheet = R"(
QTabWidget::pane { border: 0; border-top: 1px solid @line; }
QTabBar::tab { padding: 8px 18px; border: 0; color: @quiet; background: transparent; }
QTabBar::tab:selected { color: @ink; border-bottom: 2px solid @accent; }
QTabBar::tab:selected:focus { color: @accent; }
QTabBar::tab:disabled { color: @faint; }
QTableView { border: 1px solid @line; gridline-color: @grid;
  selection-background-color: @tint; selection-color: @ink; }
QHeaderView::section { background: @page; color: @quiet; border: 0;
  border-bottom: 1px solid @line; padding: 7px 6px 5px 6px; }
QTableView::item { padding: 0 6px; }
QHeaderView::up-arrow, QHeaderView::down-arrow { image: none; width: 0; height: 0; }
QLineEdit { border: 1px solid @line; border-radius: 3px; padding: 4px 6px;
  background: @panel; }
QLineEdit:focus { border-color: @accent; }
QPushButton { border: 1px solid @line; border-radius: 3px; padding: 6px 14px;
  background: @panel; }
QPushButton:hover { border-color: @accent; }
QToolButton { border: 1px solid @line; border-radius: 3px; padding: 4px 8px;
  background: transparent; color: @quiet; }
QToolButton:checked { background: @panel; color: @ink; }
QToolButton:hover, QToolButton:focus, QPushButton:focus { border-color: @accent; }
QCheckBox::indicator { width: 11px; height: 11px; border: 1px solid @quiet; border-radius: 2px;
  background: @panel; }
QCheckBox::indicator:checked { background: @accent; border-color: @accent; }
QCheckBox:focus { color: @accent; }
QStatusBar { color: @quiet; border-top: 1px solid @line; }
QStatusBar::item { border: 0; }
QSplitter::handle { background: transparent; }
QToolTip { border: 1px solid @line; padding: 4px; }
)";

// A sheet names colours as @line.
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

void apply(QApplication& application, Shade shade) {
  if (application.styleSheet().isEmpty()) {  // other colours leave the style and the font
    QApplication::setStyle(QStyleFactory::create("Fusion"));
    QFont font("DejaVu Sans");
    font.setPixelSize(kTextPixels);
    QApplication::setFont(font);
  }
  QApplication::setPalette(palette_of(colors_of(shade)));
  application.setStyleSheet(colored(kSheet, colors_of(shade)));
}

QString rich_text_sheet() {
  return colored(".quiet { color: @quiet; } a { color: @accent; }", colors());
}

QString report_sheet() {
  return colored(
      "table { border-collapse: collapse; } h1 { font-size: 20px; } h2 { font-size: 16px; } .bad { "
      "color: @warning; }"
      "th, td { padding: 3px 9px; text-align: right; border-bottom: 1px solid @line; }"
      "td:first-child, th:first-child { text-align: left; }",
      colors());
}

}  // namespace versieve::gui::theme
