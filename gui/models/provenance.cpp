#include "gui/models/provenance.h"

#include <QCryptographicHash>
#include <QFileInfo>
#include <QObject>
#include <algorithm>

#include "db/sqlite.h"
#include "model/words/error.h"
#include "model/words/range_text.h"

namespace versieve::gui {
namespace {

QString hash_of(const QString& path) {
  QCryptographicHash hash(QCryptographicHash::Sha256);
  try {
    db::read_bytes(path.toStdString(), [&hash](std::string_view piece) {
      hash.addData(QByteArrayView(piece.data(), static_cast<qsizetype>(piece.size())));
      return true;
    });
  } catch (const Error&) {
    return QObject::tr("not there any more");
  }
  return "sha256 " + QString::fromLatin1(hash.result().toHex());
}

QString quoted(const QString& cell) {
  const bool needs = cell.contains(',') || cell.contains('"') || cell.contains('\n');
  return needs ? '"' + QString(cell).replace('"', "\"\"") + '"' : cell;
}

}  // namespace

Provenance provenance_of(const SnapshotPtr& snapshot, const QString& filter) {
  Provenance p;
  if (!snapshot) {
    return p;
  }
  p.files = {snapshot->path};
  p.filter = filter;
  for (const db::StoredRun& run : snapshot->runs) {
    const QString from = QString::fromStdString(run.record.started_utc);
    const QString until = QString::fromStdString(
        run.record.finished_utc.empty() ? run.record.started_utc : run.record.finished_utc);
    p.data_from = p.data_from.isEmpty() ? from : std::min(p.data_from, from);
    p.data_until = std::max(p.data_until, until);
  }
  return p;
}

QStringList lines_of(const Provenance& p) {
  QStringList lines = {QString("Versieve " VERSIEVE_VERSION), "view: " + p.page + ", " + p.view};
  for (const QString& file : p.files) {
    lines << "file: " + QFileInfo(file).fileName() + ", " + hash_of(file);
  }
  if (!p.data_from.isEmpty()) {
    lines << "data: " + QString::fromStdString(range_text(p.data_from.toStdString(),
                                                          p.data_until.toStdString()));
  }
  if (!p.filter.isEmpty()) {
    lines << "filter: " + p.filter;
  }
  if (!p.command.isEmpty()) {
    lines << "command: " + p.command;
  }
  return lines;
}

QByteArray csv_file(const QList<QStringList>& rows, const QStringList& lines) {
  QString text;
  for (const QString& line : lines) {
    text += "# " + line + '\n';
  }
  for (const QStringList& row : rows) {
    QStringList cells;
    for (const QString& cell : row) {
      cells << quoted(cell);
    }
    text += cells.join(',') + '\n';
  }
  return text.toUtf8();
}

}  // namespace versieve::gui
