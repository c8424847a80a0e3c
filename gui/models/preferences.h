// What the app keeps from one time to the next: the window's place, its colours, and which
// databases were opened last. A file of the user's own; what cannot be written is forgotten.
#pragma once

#include <QByteArray>
#include <QSettings>
#include <QStringList>
#include <optional>

namespace versieve::gui {

class Preferences {
 public:
  static constexpr int kMostRecent = 8;

  // Of this user.
  Preferences();
  // Of a file.
  explicit Preferences(const QString& file);

  QByteArray geometry() const;  // as QWidget::saveGeometry gave it; empty: none
  void setGeometry(const QByteArray& geometry);
  std::optional<bool> isDark() const;  // none: as the desktop is
  void setDark(bool is_dark);
  bool isHighContrast() const;
  void setHighContrast(bool is_high);
  // Of a table, as QHeaderView::saveState gave it; empty: none.
  QByteArray columns(const QString& table) const;
  void setColumns(const QString& table, const QByteArray& state);
  // Databases that are still there, the newest first.
  QStringList recent() const;
  // Beside the preferences themselves: how the last window was left.
  QString sessionPath() const;
  // A database was opened.
  void noteOpened(const QString& path);

 private:
  QSettings settings_;
};

}  // namespace versieve::gui
