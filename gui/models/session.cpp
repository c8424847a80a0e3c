#include "gui/models/session.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>

#include "engine/io/atomic_file.h"
#include "model/words/error.h"

namespace versieve::gui {
namespace {

constexpr char kFormat[] = "versieve-session";
constexpr int kVersion = 1;
constexpr qint64 kMostBytes = 1 << 20;

Error bad(const QString& path, const QString& why) {
  return {ExitCode::kBadInput,
          ("the session " + QFileInfo(path).fileName() + " " + why).toStdString()};
}

}  // namespace

Session read_session(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) {
    throw bad(path, "cannot be read");
  }
  const QByteArray text = file.read(kMostBytes + 1);
  const QJsonDocument document = QJsonDocument::fromJson(text);
  const QJsonObject whole = document.object();
  if (text.size() > kMostBytes || whole["format"].toString() != QLatin1String(kFormat) ||
      !whole["values"].isObject()) {
    throw bad(path, "is broken: nothing of it was taken");
  }
  if (whole["version"].toInt() > kVersion) {
    throw bad(path, "was written by a newer version");
  }
  Session session{whole["database"].toString(), whole["page"].toString(),
                  whole["values"].toObject()};
  // A session and its database may move together.
  if (!session.database.isEmpty() && !QFileInfo(session.database).isFile()) {
    const QFileInfo beside(QFileInfo(path).dir(), QFileInfo(session.database).fileName());
    session.database = beside.isFile() ? beside.absoluteFilePath() : session.database;
  }
  return session;
}

void write_session(const QString& path, const Session& session) {
  const QJsonObject whole{{"format", kFormat},
                          {"version", kVersion},
                          {"database", session.database},
                          {"page", session.page},
                          {"values", session.values}};
  QDir().mkpath(QFileInfo(path).absolutePath());
  engine::write_file_atomically(path.toStdString(), QJsonDocument(whole).toJson().toStdString());
}

}  // namespace versieve::gui
