// A session as a file: which database is open, what is shown of it and how everything is set.
#pragma once

#include <QJsonObject>
#include <QString>

namespace versieve::gui {

struct Session {
  QString database;  // empty: none is open
  QString page;
  QJsonObject values;  // UiState's
};

inline constexpr char kSessionSuffix[] = "vsession";

// Throws Error(kBadInput) with one sentence: it is not there, is no session, or is a newer one's.
Session read_session(const QString& path);
// Whole or not at all. Throws Error(kEnvironment).
void write_session(const QString& path, const Session& session);

}  // namespace versieve::gui
