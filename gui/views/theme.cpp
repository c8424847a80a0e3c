#include "gui/views/theme.h"

#include <QApplication>
#include <QFont>
#include <QPalette>
#include <QStyleFactory>

namespace versieve::gui::theme {
namespace {

// Okabe and Ito's palette without its yellow and black, which do not stand out on white.
const QColor kCategories[kCategoryCount] = {QColor(0x00, 0x72, 0xb2), QColor(0xd5, 0x5e, 0x00),
                                            QColor(0x00, 0x9e, 0x73), QColor(0xcc, 0x79, 0xa7),
                                            QColor(0xe6, 0x9f, 0x00), QColor(0x56, 0xb4, 0xe9),
                                            QColor(0x7a, 0x4e, 0xa8)};

QPalette palette() {
  QPalette colors;
  colors.setColor(QPalette::Window, kPage);
  colors.setColor(QPalette::Base, kPanel);
  colors.setColor(QPalette::AlternateBase, kPage);
  colors.setColor(QPalette::Button, kPanel);
  colors.setColor(QPalette::ToolTipBase, kPanel);
  for (const QPalette::ColorRole role :
       {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText}) {
    colors.setColor(role, kInk);
  }
  colors.setColor(QPalette::PlaceholderText, kQuietInk);
  colors.setColor(QPalette::Highlight, kAccentTint);
  colors.setColor(QPalette::HighlightedText, kInk);
  colors.setColor(QPalette::Link, kAccent);
  colors.setColor(QPalette::Disabled, QPalette::Text, kQuietInk);
  colors.setColor(QPalette::Disabled, QPalette::ButtonText, kQuietInk);
  return colors;
}

constexpr const char* kSheet = R"(
QTabWidget::pane { border: 0; border-top: 1px solid #d9d9d4; }
QTabBar::tab { padding: 8px 18px; border: 0; color: #6a717a; background: transparent; }
QTabBar::tab:selected { color: #1d2229; border-bottom: 2px solid #1f5fa8; }
QTabBar::tab:disabled { color: #c9cccf; }
QTableView { border: 1px solid #d9d9d4; gridline-color: #ececec;
  selection-background-color: #e3ecf6; selection-color: #1d2229; }
QHeaderView::section { background: #fafaf8; color: #6a717a; border: 0;
  border-bottom: 1px solid #d9d9d4; padding: 7px 6px 5px 6px; }
QTableView::item { padding: 0 6px; }
QHeaderView::up-arrow, QHeaderView::down-arrow { image: none; width: 0; height: 0; }
QLineEdit { border: 1px solid #d9d9d4; border-radius: 3px; padding: 4px 6px;
  background: #ffffff; }
QLineEdit:focus { border-color: #1f5fa8; }
QPushButton { border: 1px solid #d9d9d4; border-radius: 3px; padding: 6px 14px;
  background: #ffffff; }
QPushButton:hover { border-color: #1f5fa8; }
QToolButton { border: 1px solid #d9d9d4; border-radius: 3px; padding: 4px 8px;
  background: transparent; color: #6a717a; }
QToolButton:checked { background: #ffffff; color: #1d2229; }
QToolButton:hover, QToolButton:focus, QPushButton:focus { border-color: #1f5fa8; }
QStatusBar { color: #6a717a; border-top: 1px solid #d9d9d4; }
QStatusBar::item { border: 0; }
QSplitter::handle { background: transparent; }
QToolTip { border: 1px solid #d9d9d4; padding: 4px; }
)";

}  // namespace

QColor category(int index) {
  return index < kCategoryCount ? kCategories[index] : QColor(0x8f, 0x94, 0x99);
}

void apply(QApplication& application) {
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  QFont font("DejaVu Sans");
  font.setPixelSize(kTextPixels);
  QApplication::setFont(font);
  QApplication::setPalette(palette());
  application.setStyleSheet(kSheet);
}

}  // namespace versieve::gui::theme
