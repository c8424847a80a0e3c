#include "gui/models/preferences.h"

#include <QFileInfo>

namespace versieve::gui {
namespace {

constexpr char kGeometry[] = "window/geometry";
constexpr char kDark[] = "window/dark";
constexpr char kHighContrast[] = "window/highContrast";
constexpr char kRecent[] = "recent";
constexpr char kColumns[] = "columns/";

}  // namespace

Preferences::Preferences()
    : settings_(QSettings::IniFormat, QSettings::UserScope, "versieve", "versieve-gui") {}

Preferences::Preferences(const QString& file) : settings_(file, QSettings::IniFormat) {}

QByteArray Preferences::geometry() const {
  return settings_.value(kGeometry).toByteArray();
}

void Preferences::setGeometry(const QByteArray& geometry) {
  settings_.setValue(kGeometry, geometry);
}

std::optional<bool> Preferences::isDark() const {
  const QVariant dark = settings_.value(kDark);
  return dark.isValid() ? std::optional<bool>(dark.toBool()) : std::nullopt;
}

void Preferences::setDark(bool is_dark) {
  settings_.setValue(kDark, is_dark);
}

bool Preferences::isHighContrast() const {
  return settings_.value(kHighContrast).toBool();
}

void Preferences::setHighContrast(bool is_high) {
  settings_.setValue(kHighContrast, is_high);
}

QByteArray Preferences::columns(const QString& table) const {
  return settings_.value(kColumns + table).toByteArray();
}

void Preferences::setColumns(const QString& table, const QByteArray& state) {
  settings_.setValue(kColumns + table, state);
}

QStringList Preferences::recent() const {
  QStringList there;
  for (const QString& path : settings_.value(kRecent).toStringList()) {
    if (there.size() < kMostRecent && QFileInfo(path).isFile()) {
      there.append(path);
    }
  }
  return there;
}

QString Preferences::sessionPath() const {
  return QFileInfo(settings_.fileName()).absolutePath() + "/last.vsession";
}

void Preferences::noteOpened(const QString& path) {
  const QString whole = QFileInfo(path).absoluteFilePath();
  QStringList paths = recent();
  paths.removeAll(whole);
  paths.prepend(whole);
  settings_.setValue(kRecent, QStringList(paths.mid(0, kMostRecent)));
}

}  // namespace versieve::gui
